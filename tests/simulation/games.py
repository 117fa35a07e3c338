"""The games that are played: tiny, of different kinds; and each as it ends where nothing goes wrong."""

import functools
import hashlib
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from slaternet.limits import Limits
from slaternet.model import Array, Departure
from slaternet.spec import Spec
from slaternet_coordinator.registry import build as build_graph
from slaternet_lab.games.simulation import Simulation
from slaternet_lab.specs.resolve import load

LIMITS = Limits(window=4, checkpoint_every=3, report_every=2, burst=2)
"""Small, so that a game of a dozen rounds outgrows them several times."""

_SHARE_CODED = 0.3
_LONGEST = 60
"""Rounds of a game without end before it is stopped, at most."""

KINDS = {
    "zhang2024": ("paper-short", ("run.agents=5", "run.dimension=2", "adversary.options.constraints=1")),
    "yi2023": (
        "paper-short",
        ("run.agents=4", "run.dimension=2", "adversary.options.constraints=2", "algorithm.name=yi2023"),
    ),
    "tracking": (
        "paper-short",
        ("run.agents=5", "run.dimension=2", "adversary.options.constraints=1", "algorithm.name=tracking"),
    ),
    "adaptive": ("resource-fair", ("run.agents=4", "run.dimension=2", "graph.degree=2.0")),
    "stopped": ("paper-short", ("run.agents=6", "run.dimension=2", "adversary.options.constraints=1")),
}
"""By name: a shipped spec, and what is changed in it."""

CODES = {
    "grid": ("gossip.code=grid", "gossip.width=0.5", "gossip.trigger=1.0"),
    "levels": ("gossip.code=levels", "gossip.levels=3", "gossip.trigger=2.0"),
    "sign": ("gossip.code=sign", "gossip.step=0.5"),
    "top-k": ("gossip.code=top-k", "gossip.keep=1"),
    "float16": ("gossip.code=float16",),
}
"""By name: a gossip code, as a kind of game is played in it, too: `zhang2024+sign`."""
CODED = ("zhang2024+top-k", "zhang2024+grid", "zhang2024+float16", "yi2023+sign", "yi2023+levels")
"""Those that are drawn."""

ENDLESS = ("stopped",)

Departures = tuple[tuple[int, tuple[int, ...]], ...]
"""Rounds, and the agents that leave before each."""


@dataclass(frozen=True)
class Game:
    """One game, and who plays it."""

    kind: str
    spec: Spec
    hosts: int
    stop: int = 0
    """After which round an operator ends it; 0: it has an end."""

    @classmethod
    def draw(cls, random: Random, seed: int, *, harsh: bool = False, coded: bool | None = None) -> "Game":
        """Draw a game; in a harsh world, one of several hosts; by its own number, whether in a code."""
        kind, code = random.choice(list(KINDS)), Random(f"code {seed}")
        if code.random() < _SHARE_CODED if coded is None else coded:
            kind = code.choice(CODED)
        rounds, hosts = random.randint(12, 18), random.randint(2 if harsh else 1, 4)
        spec = resolved(kind)
        if kind in ENDLESS:
            return cls(kind, spec.replace(**{"run.rounds": None}), hosts, stop=random.randint(2, 14))
        return cls(kind, spec.replace(**{"run.rounds": rounds}), hosts)

    @property
    def reference(self) -> "Reference":
        """How it goes where nothing goes wrong."""
        return reference(self.kind)


@dataclass(frozen=True)
class Reference:
    """A game as the engines play it by direct calls: a game that ends earlier is a part of it, to the bit."""

    x: tuple[Array, ...]
    """Decisions (n, p) by round, the first at 0; NaN of agents that have left."""
    rows: tuple[tuple[str, ...], ...]
    """metrics.csv without the columns that say how the game went on its way."""
    weights: tuple[Array, ...]
    """W_t (n, n), as the generator gives it."""

    def digest(self, rounds: int) -> str:
        """Return the digest of a game that ends with this round."""
        chain = bytes(32)
        for x in self.x[:rounds]:
            chain = hashlib.sha256(chain + x[~np.isnan(x).any(axis=1)].tobytes()).digest()
        return chain.hex()


@functools.cache
def resolved(kind: str) -> Spec:
    """Return the spec of a kind of game, longer than any that is played."""
    name, _, code = kind.partition("+")
    shipped, settings = KINDS[name]
    return load(shipped, (*settings, *CODES.get(code, ()), f"run.rounds={_LONGEST}", "record.decisions=false"))


def listed(departures: Iterable[Departure]) -> Departures:
    """Return departures as something that can be looked up."""
    return tuple((int(each.round), tuple(each.agents.tolist())) for each in departures)


@functools.cache
def reference(kind: str) -> Reference:
    """Play a kind of game without faults."""
    return departed(kind, ())


@functools.cache
def departed(kind: str, departures: Departures) -> Reference:
    """Play a kind of game that agents leave, without faults; not while a world stands under the product."""
    leaving = [Departure(round, np.array(agents)) for round, agents in departures]
    spec = resolved(kind).replace(**{"record.decisions": True}).departing(leaving)
    with tempfile.TemporaryDirectory() as folder:
        game = Simulation(spec, Path(folder))
        try:
            game.play()
        finally:
            game.close()
        x = np.load(Path(folder) / "decisions.npz")["x"]
        rows = lasting((Path(folder) / "metrics.csv").read_text())
    graph = build_graph(spec.graph, spec.run.agents, spec.run.seed)
    weights = tuple(_dense(graph.matrix(t), spec.run.agents) for t in range(1, _LONGEST + 1))
    return Reference(tuple(x), tuple(rows), weights)


def _dense(matrix: object, agents: int) -> Array:
    dense = np.zeros((agents, agents))
    starts, columns, weights = (getattr(matrix, name) for name in ("starts", "columns", "weights"))
    dense[np.repeat(np.arange(agents), np.diff(starts)), columns] = weights
    return dense


_PASSING = {"frames", "bytes_sent", "bytes_received", "rows_sent", "gossip_bytes", "waited", "skew", "seconds"}


def lasting(metrics: str) -> list[tuple[str, ...]]:
    """Return the rows of a metrics.csv, without the columns that say how the game went on its way."""
    names, *rows = [line.split(",") for line in metrics.splitlines()]
    kept = [index for index, name in enumerate(names) if name not in _PASSING]
    return [tuple(row[index] for index in kept) for row in rows]
