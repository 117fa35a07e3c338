"""Whom the exam looks at: an adversary's instances, called with care, and the points they are asked about.

n   agents        p   dimension        k   agents asked about        s   points        m   constraints
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from slaternet.errors import PluginFailed
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet.numerics.randomness import stream
from slaternet.spec.plugins import plugin_edge
from slaternet_adversary.api import Adversary, CannotPlay, Game, History
from slaternet_adversary.plugin.calls import CheckedRound
from slaternet_adversary.testing.shape import written

Verdict = Literal["ok", "note", "warning", "failed"]
Place = Literal["here", "worker", "elsewhere"]
"""Where a plugin runs: in this process, in a worker process of ours, or behind grpc://."""

ROUNDS = 12
"""Rounds that are played in an exam."""
_AGENTS = 8
"""Agents whose functions are looked at closely; all are asked about in between."""
_CORNERS, _BORDER, _INSIDE = 8, 6, 8
"""Points of X by their kind, besides its centre."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report: what was looked at, the verdict, and the figure in words."""

    verdict: Verdict
    about: str
    text: str


class Fault(Exception):
    """A breach of the contract, found by the exam; never leaves it."""

    def __init__(self, about: str, text: str) -> None:
        super().__init__(text)
        self.about = about


@dataclass(frozen=True)
class Subject:
    """An adversary that can be made any number of times, and the game it is examined in."""

    game: Game
    opened: Callable[[], AbstractContextManager[Adversary]]
    """Gives a new instance; leaving it ends whatever the instance runs in."""
    rounds: int = ROUNDS
    wider: Callable[[], "Subject"] | None = None
    """The same adversary in a game with more agents and dimensions, where bits show what few do not."""
    place: Place = "here"

    @cached_property
    def everyone(self) -> Agents:
        """All agents, (n,)."""
        return np.arange(self.game.agents)

    @cached_property
    def sampled(self) -> Agents:
        """The agents that are looked at closely."""
        n = self.game.agents
        return np.unique(np.linspace(0, n - 1, min(n, _AGENTS)).round().astype(np.intp))

    @cached_property
    def survivors(self) -> Agents:
        """Some of all agents, as they are left when others have gone; a lone agent stays."""
        return self.everyone[::2]

    def points(self, t: int) -> Array:
        """Return points of X for a round, (N, p): its centre, corners, border, inside; the last is just outside.

        Rounding may carry an honest point as far out as that one.
        """
        if t not in self._drawn:
            self._drawn[t] = self._draw(t)
        return self._drawn[t]

    def _draw(self, t: int) -> Array:
        feasible, draw = self.game.set, stream(self.game.seed, "exam points", 0, t)
        centre, p = feasible.centre, feasible.dimension
        signs = np.where(draw.random((_CORNERS, p)) < 0.5, -1.0, 1.0)
        away = np.concatenate((signs, draw.standard_normal((_BORDER + _INSIDE, p))))
        away *= 10.0 * feasible.outer / np.sqrt(np.sum(away * away, axis=1))[:, None]
        points = feasible.project(centre + away)
        points[-_INSIDE:] = centre + draw.random((_INSIDE, 1)) * (points[-_INSIDE:] - centre)
        outside = centre + (1.0 + 0.5 * LIMITS.tolerance) * (points[0] - centre)
        return np.concatenate((centre[None], points, outside[None]))

    @cached_property
    def _drawn(self) -> dict[int, Array]:
        return {}

    def question(self, t: int) -> Array:
        """Return what every agent asks in a round, (n, 2, p); no two agents ask the same in the same order."""
        points = self.points(t)
        first = (1 + 3 * self.everyone) % len(points)
        return points[np.stack((first, (first + 1 + self.everyone // len(points)) % len(points)), axis=1)]

    @cached_property
    def decisions(self) -> Array:
        """What the agents are said to have decided, (T, n, p)."""
        return np.array([self.question(t)[:, 1] for t in range(1, self.rounds + 1)])


class RoundUnderTest(CheckedRound):
    """The functions of one round; whatever they return is checked before it is used, and what is wrong is a fault."""

    def __init__(
        self,
        subject: Subject,
        plugin: Adversary,
        round: int,
        functions: Any,  # noqa: ANN401 - a Round, with optional methods
        name: str = "",
    ) -> None:
        super().__init__(plugin, round, functions)
        self.subject = subject
        self.name = name or self.name

    def scoring(self) -> "RoundUnderTest":
        """Return what is scored: itself, unless that is not what is revealed."""
        functions = self.call("scoring") if self.has("scoring") else self.functions
        if functions is self.functions:
            return self
        return RoundUnderTest(self.subject, self.plugin, self.round, functions, f"what is scored of {self.name}")

    def edge(self, method: str) -> AbstractContextManager[None]:
        """Return the plugin edge; what the method raises is a fault."""
        return guarding(f"{method} of {self.name}", about=_line(method, "plays"))

    def ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401  what a plugin returns
        """Call a method with arrays that cannot be written."""
        if not self.has(method):
            text = f"{method} of {self.name} does not exist; a round needs the methods loss and constraint"
            raise Fault("plays", text)
        return super().ask(method, *map(_frozen, arguments))

    def call(self, method: str, *arguments: object) -> Any:  # noqa: ANN401  what a plugin returns
        """Call a method within the plugin edge."""
        with self.edge(method):
            return self.ask(method, *arguments)

    def checked(self, method: str, value: object, shape: Sequence[int]) -> Array:
        """Return an array of finite float64 numbers that has the shape."""
        values = shaped(f"{method} of {self.name}", value, shape, about=_line(method, "shapes"))
        if not np.isfinite(values).all():
            raise Fault(_line(method, "finite"), f"{method} of {self.name} is not finite")
        return values

    def values(self, method: str, agents: Agents, points: Array) -> Array:
        """Return what a method says about points (k, s, p), (k, s, ...), asked in one call."""
        where, shape = f"{method} of {self.name}", (*points.shape[:2], *self._rows.get(method, ()))
        values = shaped(where, self.call(method, agents, points), shape, about=_line(method, "shapes"))
        finite = np.isfinite(values)
        if not finite.all():
            which = tuple(np.argwhere(~finite)[0])
            where = f"{method} of agent {agents[which[0]]} in {self.name}"
            text = f"{where} is {values[which]} at x = {written(points[which[:2]])}"
            raise Fault(_line(method, "finite"), f"{text}; make it finite everywhere in X")
        return values

    def everyones(self, points: Array) -> tuple[Array, Array]:
        """Return everyone's f and g at their points (n, s, p) as a game asks."""
        agents = self.subject.everyone
        return self.asked("loss", agents, points), self.asked("constraint", agents, points)

    def answer(self) -> bytes:
        """Return the bits of f and g at the round's question."""
        f, g = self.everyones(self.subject.question(self.round))
        return f.tobytes() + g.tobytes()


class PlayedInstance:
    """One instance, playing rounds in order."""

    def __init__(self, subject: Subject, plugin: Adversary, decisions: Array | None = None) -> None:
        self.subject = subject
        self.plugin = plugin
        self._decisions = subject.decisions if decisions is None else decisions
        _described(plugin)

    def play(self, t: int) -> RoundUnderTest:
        """Play a round."""
        past, h = None, self.plugin.history
        if h:
            past = History(_frozen(self._decisions[max(0, t - 1 - h) : t - 1].copy()))
        with guarding(f"play({t})"):
            functions = self.plugin.play(t, past)
        return RoundUnderTest(self.subject, self.plugin, t, functions)


def _described(plugin: Adversary) -> None:
    """Require that it says what it is."""
    for name in ("constraints", "history"):
        value = getattr(plugin, name, None)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise Fault("plays", f"{name} is {value!r}; make it a whole number of at least 0")
    if plugin.constraints > LIMITS.constraints:
        raise Fault("plays", f"constraints is {plugin.constraints}; a game has at most {LIMITS.constraints} per agent")
    if not isinstance(plugin.rowwise, bool):
        raise Fault("plays", f"rowwise is {plugin.rowwise!r}; make it True or False")


def _line(method: str, line: str) -> str:
    """Return which line speaks of a method's faults: its own, where it has one."""
    return line if method in ("loss", "constraint") else method


@contextmanager
def guarding(where: str, *, about: str = "plays") -> Iterator[None]:
    """Run the author's code: whatever it raises is a fault, but that it does not support the game."""
    try:
        with (
            plugin_edge("adversary plugin", "of the exam", where, passing=(CannotPlay, Fault), logged=False),
            warnings.catch_warnings(),
        ):
            # a service shows them and goes on; what they warn of is found in the values
            warnings.simplefilter("ignore")
            yield
    except PluginFailed as failure:
        if isinstance(failure.__cause__, PluginFailed):
            raise Fault("plays", str(failure.__cause__)) from failure
        if "read-only" in failure.what:
            raise Fault(about, f"{where} writes into an array it is given; make a new one") from failure
        raise Fault(about, f"{where} raised {failure.what}") from failure


def shaped(where: str, value: object, shape: Sequence[int], *, about: str = "shapes") -> Array:
    """Return an array of float64 numbers that has the shape."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float64:
        kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise Fault(about, f"{where} is {kind}; return a float64 array of shape {tuple(shape)}")
    if value.shape != tuple(shape):
        raise Fault(about, f"{where} has shape {value.shape} where {tuple(shape)} was asked for")
    return value


def everywhere(agents: Agents, points: Array) -> Array:
    """Return the same points (N, p) for every agent, (k, N, p)."""
    return np.repeat(points[None], len(agents), axis=0)


def _frozen(value: Any) -> Any:  # noqa: ANN401
    """Return an array that cannot be written, as a question's is."""
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.setflags(write=False)
    return value
