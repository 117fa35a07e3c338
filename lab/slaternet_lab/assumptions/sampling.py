"""Figures of the functions that the theorems assume, measured on a sample of rounds, agents and points of X.

    F     largest |f_{i,t}|                          Assumption 2
    G1    largest |df_{i,t}|                         Assumption 3
    G2    largest |dg_{i,t}|, spectral norm          Assumption 3
    mu    smallest curvature of f_{i,t}              Assumption 6
    s     margin of the deepest point                Assumption 5 (`slater`)

A sample can refute an assumption, not prove it: F, G1 and G2 are lower bounds of what they sample, mu is an upper
bound. Hessians and rows of a plugin make figures exact for the sampled rounds. Points come from an addressed stream,
so a report is reproducible.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from slaternet.model import Agents, Array
from slaternet.numerics.randomness import stream
from slaternet.numerics.sets import FeasibleSet
from slaternet.spec import Spec
from slaternet_adversary.api import Adversary, History
from slaternet_adversary.plugin.calls import adversary_edge
from slaternet_adversary.plugin.makers import open_plugin
from slaternet_adversary.testing.shape import chord_below
from slaternet_adversary.testing.slater import Slater, deepest
from slaternet_lab.assumptions.slater import ConeProgramme
from slaternet_lab.functions.local import LocalFunctions

_NUMBERS = 1 << 19
"""Numbers per round that decide how many agents are sampled."""
_INSIDE = 1e-4
"""Of X about its centre: how far border points stay inside, so that differences about them do too."""
_REACH = 0.5
"""Of r(X): how far from the centre curvature is measured."""
_ROUNDING = 1e-9
_ROUNDING_OF_DIFFERENCES = 1e-6


@dataclass(frozen=True)
class Sampling:
    """The size of a sample."""

    work: int
    """Bounds the rounds played times n p, beyond the first round."""
    last: int
    """The last round that may be played."""
    rounds: int
    points: int


QUICK = Sampling(work=50_000, last=64, rounds=8, points=8)
"""For the report in every run folder."""
THOROUGH = Sampling(work=1_000_000, last=1000, rounds=32, points=16)
"""For `slaternet check`."""


@dataclass(frozen=True)
class Figures:
    """The figures of a sample; None is what could not be examined."""

    rounds: tuple[int, ...]
    agents: int
    points: int
    exact_loss: bool
    """Whether the plugin gives the gradients of losses, or differences replace them."""
    exact_constraint: bool
    exact_modulus: bool
    bound: float
    loss_slope: float | None
    constraint_slope: float | None
    not_convex: str
    """A function that is not convex, in words; empty where none was found."""
    modulus: float | None
    """Of the local losses; 0 where they are convex but not strongly, below 0 where they are not convex."""
    average_modulus: float | None
    slater: Slater | None
    """None in a game without constraints."""


def affordable(spec: Spec, sampling: Sampling) -> bool:
    """Return whether the game is small enough to be sampled."""
    return spec.run.agents * spec.run.dimension <= sampling.work


def measure(spec: Spec, sampling: Sampling) -> Figures:
    """Return the figures of a resolved spec; an exception of the plugin is PluginFailed."""
    feasible = spec.feasible_set()
    with open_plugin(spec) as (plugin, _):
        played = list(_played(spec, plugin, sampling))
        samples = [_Sample(each, _points(spec, feasible, each.round, sampling.points), feasible) for each in played]
        first, slater = played[0], None
        if plugin.constraints:
            rounds, programme = [each.at for each in played], ConeProgramme(feasible)
            slater = deepest(rounds, samples[0].points, programme, solved=first.has_constraint_slopes)
        return Figures(
            rounds=tuple(each.round for each in played),
            agents=len(samples[0].agents),
            points=sampling.points,
            exact_loss=first.has_loss_slopes,
            exact_constraint=first.has_constraint_slopes,
            exact_modulus=first.has_hessians,
            bound=max(each.bound() for each in samples),
            loss_slope=_extreme(max, [each.loss_slope() for each in samples]),
            constraint_slope=_extreme(max, [each.constraint_slope() for each in samples]),
            not_convex=next(filter(None, (each.not_convex() for each in samples)), ""),
            modulus=_extreme(min, [each.modulus() for each in samples]),
            average_modulus=_extreme(min, [each.average_modulus() for each in samples]),
            slater=slater,
        )


def _played(spec: Spec, plugin: Adversary, sampling: Sampling) -> Iterator[LocalFunctions]:
    """Yield some rounds, ever sparser; all before the last are played, as a plugin may expect."""
    run = spec.run
    paid = max(1, sampling.work // (run.agents * run.dimension))
    last = min(sampling.last, paid, run.rounds or sampling.last)
    last = 1 if plugin.history else last  # later functions depend on decisions
    sampled = set(np.geomspace(1, last, sampling.rounds).round().astype(int).tolist())
    past = History(np.empty((0, run.agents, run.dimension))) if plugin.history else None
    for t in range(1, last + 1):
        with adversary_edge(plugin, "play", t):
            functions = plugin.play(t, past)
        if t in sampled:
            yield LocalFunctions(functions, t, plugin)


def _points(spec: Spec, feasible: FeasibleSet, t: int, count: int) -> Array:
    """Return points of X, (count, p): its centre, then in turn one near the border and one between the two."""
    generator = stream(spec.run.seed, "assumptions", 0, t)
    towards = generator.standard_normal((count, feasible.dimension))
    towards *= 10.0 * feasible.outer / np.linalg.norm(towards, axis=1, keepdims=True)
    points = feasible.project(feasible.centre + towards, scale=1.0 - _INSIDE)
    depths = np.where(np.arange(count) % 2 == 1, 1.0, generator.random(count))
    depths[0] = 0.0
    return feasible.centre + depths[:, None] * (points - feasible.centre)


class _Sample:
    """One round at some points, for some agents."""

    def __init__(self, functions: LocalFunctions, points: Array, feasible: FeasibleSet) -> None:
        count, p = points.shape
        self.functions = functions
        self.points = points
        self._centre, self._inner = feasible.centre, feasible.inner
        numbers = count * p * max(1, functions.plugin.constraints) + 2 * p * p
        if not functions.has_loss_slopes or not functions.has_constraint_slopes:
            numbers *= 2 * p  # differences
        n = functions.plugin.game.agents
        chosen = np.linspace(0, n - 1, min(n, max(1, _NUMBERS // numbers)))
        self.agents: Agents = np.unique(chosen.round().astype(np.intp))
        self._step = _INSIDE * feasible.inner
        self._slopes = functions.loss_slopes(self.agents, self._for_each_agent(points), self._step)

    def bound(self) -> float:
        """Return the largest |f|."""
        return float(np.abs(self.functions.at.loss(self.agents, self._for_each_agent(self.points))).max())

    def loss_slope(self) -> float | None:
        """Return the largest |df|, or None where it is unknown."""
        return None if self._slopes is None else float(np.linalg.norm(self._slopes, axis=-1).max())

    def constraint_slope(self) -> float | None:
        """Return the largest |dg|, or None where it is unknown."""
        if not self.functions.plugin.constraints:
            return 0.0
        slopes = self.functions.constraint_slopes(self.agents, self._for_each_agent(self.points), self._step)
        if slopes is None:
            return None
        # singular values from the smaller of the two products of (..., m, p) with its transpose
        turned = slopes.swapaxes(-1, -2)
        squares = slopes @ turned if slopes.shape[-2] <= slopes.shape[-1] else turned @ slopes
        return float(np.sqrt(np.linalg.eigvalsh(squares).max()))

    def not_convex(self) -> str:
        """Return a function that lies above one of its chords, in words; empty where none does."""
        for method in ("loss", "constraint"):
            if chord := chord_below(self.functions.at, method, self.agents, self.points[:-1], self.points[1:]):
                return chord.who
        return ""

    def modulus(self) -> float | None:
        """Return the smallest modulus of the agents' losses."""
        if self.functions.has_hessians:
            eigenvalues = np.linalg.eigvalsh(self.functions.hessians(self.agents))
            return _rounded_to_zero(float(eigenvalues.min()), float(eigenvalues.max()), _ROUNDING)
        return self._curvature(lambda points: self.functions.loss_slopes(self.agents, points, self._step))

    def average_modulus(self) -> float | None:
        """Return the modulus of the average loss, of the sampled agents where Hessians are unknown."""
        if self.functions.has_hessians:
            eigenvalues = np.linalg.eigvalsh(self.functions.quadratic()[0])
            return _rounded_to_zero(float(eigenvalues[0]), float(eigenvalues[-1]), _ROUNDING)

        def slopes(points: Array) -> Array | None:
            local = self.functions.loss_slopes(self.agents, self._for_each_agent(points[0]), self._step)
            return None if local is None else local.mean(axis=0, keepdims=True)

        return self._curvature(slopes)

    def _curvature(self, slopes: Callable[[Array], Array | None]) -> float | None:
        """Return the smallest (df(x) - df(y))'(x - y) / |x - y|^2 seen: no modulus is larger.

        Pairs are neighbours in the sample, and one about the centre along the direction of least curvature there, which
        random pairs would miss where only some directions are flat.
        """
        p = self.points.shape[1]
        known = slopes(self._for_each_agent(self.points))
        if known is None:
            return None
        apart = np.diff(self.points, axis=0)
        seen = np.sum(np.diff(known, axis=1) * apart, axis=-1) / np.sum(apart * apart, axis=-1)
        reach = _REACH * self._inner
        if p <= LocalFunctions.dense:
            rise = self._rise(slopes, np.broadcast_to(np.eye(p), (len(self.agents), p, p)), reach)
            _, vectors = np.linalg.eigh(0.5 * (rise + rise.swapaxes(-1, -2)))
            flattest = np.broadcast_to(vectors[:, None, :, 0], (len(self.agents), 1, p))
            rise = self._rise(slopes, flattest, reach)
            along = np.sum(rise * flattest[: len(rise)], axis=-1) / (2.0 * reach)
            seen = np.concatenate((seen, along), axis=1)
        scale = float(np.abs(seen).max()) + float(np.abs(known).max()) / reach
        return _rounded_to_zero(float(seen.min()), scale, _ROUNDING_OF_DIFFERENCES)

    def _rise(self, slopes: Callable[[Array], Array | None], directions: Array, reach: float) -> Array:
        """Return df(c + reach v) - df(c - reach v) for directions v (k, s, p)."""
        ahead, behind = (slopes(self._centre + sign * reach * directions) for sign in (1.0, -1.0))
        assert ahead is not None
        assert behind is not None
        return ahead - behind

    def _for_each_agent(self, points: Array) -> Array:
        return np.broadcast_to(points, (len(self.agents), *points.shape))


def _rounded_to_zero(smallest: float, scale: float, rounding: float) -> float:
    """Return 0 for what is 0 up to rounding."""
    return smallest if abs(smallest) > rounding * abs(scale) else 0.0


def _extreme(choose: Callable[[Iterable[float]], float], figures: list[float | None]) -> float | None:
    """Return the largest or smallest figure; None where one is unknown."""
    return None if None in figures else choose(each for each in figures if each is not None)
