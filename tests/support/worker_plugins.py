"""Plugins that the tests of worker and remote serve, and how they serve them."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from slaternet.codec import plugin as wire
from slaternet.model import Agents, Array
from slaternet.numerics.sets import Box
from slaternet_adversary import Adversary, CannotPlay, Game, History
from slaternet_adversary.plugin.calls import Served
from slaternet_adversary.plugin.remote import Remote
from slaternet_adversary.plugin.worker import PluginWorker, serve

SET = '{"kind":"box","lower":-5.0,"upper":5.0}'


def target(name: str) -> str:
    return f"{__file__}:{name}"


def at(address: str) -> Served:
    """Return that a plugin is served at an address, by a process that nobody starts again."""
    return Served(lambda: address)


def game(agents: int = 4, dimension: int = 3) -> Game:
    return Game(agents, dimension, 7, Box(dimension, -5.0, 5.0))


class Counting(PluginWorker):
    """A worker that notes which methods were called, about which rounds, and what was said to be needed."""

    def __init__(self, target: str) -> None:
        self.now = 0.0
        self.calls: list[str] = []
        self.needed: list[int] = []
        self.asked: list[int] = []
        super().__init__(target, lambda: self.now)

    def describe(self, data: bytes) -> bytes:
        self.calls.append("Describe")
        return super().describe(data)

    def play(self, data: bytes) -> bytes:
        self.calls.append("Play")
        self.needed.append(wire.decode_play(data).needed)
        return super().play(data)

    def evaluate(self, data: bytes) -> bytes:
        self.calls.append("Evaluate")
        self.asked.append(wire.decode_evaluate(data).round)
        return super().evaluate(data)

    def score(self, data: bytes) -> bytes:
        self.calls.append("Score")
        return super().score(data)


@contextlib.contextmanager
def served(worker: PluginWorker, folder: Path) -> Iterator[str]:
    """Serve a worker of this process on a unix socket; gives its address."""
    address = f"unix:{folder}/s"
    server, _ = serve(worker, address)
    try:
        yield address
    finally:
        server.stop(0).wait()


@contextlib.contextmanager
def playing(worker: PluginWorker, folder: Path, of: Game | None = None, **options: object) -> Iterator[Remote]:
    """Serve a worker, and give a new instance of its plugin."""
    with served(worker, folder) as address:
        remote = Remote.connect(at(address), of or game(), options, set=SET, deadline=30.0, name="acme")
        try:
            yield remote
        finally:
            remote.close()


class Walk:
    """Bowls about `centre`, with a sum that depends, in the last bits, on who is asked about together."""

    def __init__(self, centre: Array) -> None:
        self.centre = centre  # (n, p)

    def loss(self, agents: Agents, points: Array) -> Array:
        away = points - self.centre[agents][:, None]
        loss: Array = np.sum(away * away, axis=-1) * (1.0 + 1e-15 * len(agents))
        return loss

    def constraint(self, agents: Agents, points: Array) -> Array:
        return points[..., :2] - self.centre[agents][:, None, :2]


class Plain(Adversary):
    """A random walk, drawn towards the mean of what was decided in the last two rounds; no optional methods."""

    constraints = 2
    history = 2

    def __init__(self, game: Game, *, pull: float = 0.5) -> None:
        super().__init__(game)
        if not 0.0 <= pull <= 1.0:
            raise CannotPlay(f"adversary.options.pull must lie between 0 and 1, not {pull!r}")
        self._pull = pull
        self._centre = np.zeros((game.agents, game.dimension))

    def play(self, round: int, past: History | None) -> Walk:
        assert past is not None
        assert len(past.decisions) == min(2, round - 1)
        self._centre = self._centre + self.game.stream("walk", 0, round).standard_normal(self._centre.shape)
        if len(past.decisions):
            self._centre += self._pull * np.nan_to_num(past.decisions).mean(axis=0)
        return Walk(self._centre)


class Flat:
    """One number everywhere; a row of a batch costs what it costs alone."""

    def loss(self, agents: Agents, points: Array) -> Array:
        return points[..., 0] + agents[:, None]

    def constraint(self, agents: Agents, points: Array) -> Array:
        return np.repeat(points[..., :1], 2, axis=-1)


class Wide(Adversary):
    constraints = 2
    rowwise = True

    def play(self, round: int, past: History | None) -> Flat:
        return Flat()


class Raised(Flat):
    """The same, but for one agent."""

    def __init__(self, by: float) -> None:
        self._by = by

    def loss(self, agents: Agents, points: Array) -> Array:
        return super().loss(agents, points) + self._by * (agents == 2)[:, None]


class Moody(Wide):
    """Each instance has its own mind about agent 2, from round 3 on."""

    made = 0

    def __init__(self, game: Game) -> None:
        super().__init__(game)
        Moody.made += 1
        self._made = Moody.made

    def play(self, round: int, past: History | None) -> Flat:
        return Raised(self._made if round >= 3 else 0)


class Tilted(Flat):
    """The same, with a gradient that says something else of agent 2."""

    def __init__(self, slope: float) -> None:
        self._slope = slope

    def loss_gradient(self, agents: Agents, points: Array) -> Array:
        return np.ones_like(points) * np.where(agents == 2, self._slope, 1.0)[:, None, None]


class Steep(Wide):
    """Each instance has its own slope for agent 2, from round 3 on."""

    made = 0

    def __init__(self, game: Game) -> None:
        super().__init__(game)
        Steep.made += 1
        self._made = Steep.made

    def play(self, round: int, past: History | None) -> Flat:
        return Tilted(self._made if round >= 3 else 1.0)


class Masked(Walk):
    """Reveals something else than what is scored."""

    def scoring(self) -> Flat:
        return Flat()


class Hidden(Adversary):
    constraints = 2

    def play(self, round: int, past: History | None) -> Masked:
        return Masked(np.ones((self.game.agents, self.game.dimension)))


class Broken(Adversary):
    """Does what `how` says, in round 2."""

    constraints = 1

    def __init__(self, game: Game, *, how: str) -> None:
        super().__init__(game)
        self._how = how
        if how == "many":
            self.constraints = 10**9
        if how == "made":
            raise ZeroDivisionError("no denominator")

    def play(self, round: int, past: History | None) -> "Bad":
        print("the plugin plays", round)
        if self._how == "none":
            return None  # type: ignore[return-value]
        if round == 2 and self._how == "raises":
            raise ZeroDivisionError("no denominator")
        if round == 2 and self._how == "exits":
            sys.exit(3)
        return Bad(self._how)


class Bad:
    def __init__(self, how: str) -> None:
        self._how = how

    def loss(self, agents: Agents, points: Array) -> object:
        k, s, _ = points.shape
        return {
            "shape": np.zeros((k, s + 1)),
            "type": "a loss",
            "complex": np.zeros((k, s), complex),
            "whole": np.ones((k, s), int).tolist(),
            "infinite": np.full((k, s), np.inf),
        }.get(self._how, np.zeros((k, s)))

    def constraint(self, agents: Agents, points: Array) -> Array:
        return np.zeros((*points.shape[:2], 1))

    def network_loss(self, agents: Agents, points: Array) -> object:
        return np.zeros((2, 2)) if self._how == "score" else np.zeros(len(points))

    def quadratic(self, agents: Agents) -> object:
        return np.zeros((2, 2)), np.zeros(2), 0.0
