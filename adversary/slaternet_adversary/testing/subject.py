"""The subject of an exam: an adversary's instances, whose results are checked, and the points they are asked at.

n   agents        p   dimension        k   agents asked about        s   points        m   constraints
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from slaternet.errors import PluginFailed
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet.numerics.randomness import stream
from slaternet.plugin_faults import PluginFault
from slaternet.spec.debugger import DebuggerNeeded
from slaternet.spec.plugins import plugin_edge
from slaternet_adversary.api import Adversary, CannotPlay, Game, History
from slaternet_adversary.plugin.calls import CheckedRound, written
from slaternet_adversary.testing.course import Course, OutOfTime
from slaternet_adversary.testing.numbers import REAL, Numbers

Verdict = Literal["ok", "note", "warning", "failed"]
Place = Literal["here", "elsewhere"]
"""Where a plugin runs: in the process of the exam, or in a program of another language."""

ROUNDS = 12
"""Rounds of an exam."""
_AGENTS = 8
"""Agents whose functions are examined closely."""
_CORNERS, _BORDER, _INSIDE = 8, 6, 8
"""Points of X by kind, besides its centre."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report: what was examined, the verdict, and a sentence with figures."""

    verdict: Verdict
    about: str
    text: str
    where: str = ""
    """File and line of the author's code that a warning or a failure is about, where they are known."""
    fault: PluginFault | None = None
    """What the adversary raised."""


class Fault(Exception):
    """A breach of the contract, found by the exam; never leaves it."""

    def __init__(self, about: str, text: str, where: str = "", fault: PluginFault | None = None) -> None:
        super().__init__(text)
        self.about = about
        self.where = where
        self.fault = fault


@dataclass(frozen=True)
class Subject:
    """An adversary that can be instantiated any number of times, and the game it is examined in."""

    game: Game
    opened: Callable[[], AbstractContextManager[Adversary]]
    """Gives a new instance; at the end of the block, ends its process."""
    rounds: int = ROUNDS
    wider: Callable[[], "Subject"] | None = None
    """The same adversary in a game with more agents and dimensions."""
    place: Place = "here"
    course: Course = field(default_factory=Course, compare=False)
    numbers: Numbers = field(default_factory=Numbers, compare=False)
    _points: dict[int, Array] = field(default_factory=dict, init=False, compare=False)

    @cached_property
    def everyone(self) -> Agents:
        """All agents, (n,)."""
        return np.arange(self.game.agents)

    @cached_property
    def sampled(self) -> Agents:
        """The agents that are examined closely."""
        n = self.game.agents
        return np.unique(np.linspace(0, n - 1, min(n, _AGENTS)).round().astype(np.intp))

    def points(self, t: int) -> Array:
        """Return points of X for a round, (N, p): centre, corners, border, inside; the last is just outside.

        Rounding may move a valid point as far out as that one.
        """
        if t in self._points:
            return self._points[t]
        feasible, draw = self.game.set, stream(self.game.seed, "exam points", 0, t)
        centre, p = feasible.centre, feasible.dimension
        signs = np.where(draw.random((_CORNERS, p)) < 0.5, -1.0, 1.0)
        away = np.concatenate((signs, draw.standard_normal((_BORDER + _INSIDE, p))))
        away *= 10.0 * feasible.outer / np.sqrt(np.sum(away * away, axis=1))[:, None]
        points = feasible.project(centre + away)
        points[-_INSIDE:] = centre + draw.random((_INSIDE, 1)) * (points[-_INSIDE:] - centre)
        outside = centre + (1.0 + 0.5 * LIMITS.tolerance) * (points[0] - centre)
        self._points[t] = np.concatenate((centre[None], points, outside[None]))
        return self._points[t]

    def question(self, t: int) -> Array:
        """Return the points of every agent's question in a round, (n, 2, p); no two agents ask alike."""
        points = self.points(t)
        first = (1 + 3 * self.everyone) % len(points)
        return points[np.stack((first, (first + 1 + self.everyone // len(points)) % len(points)), axis=1)]

    @cached_property
    def decisions(self) -> Array:
        """Decisions that are given to `play`, (T, n, p)."""
        return np.array([self.question(t)[:, 1] for t in range(1, self.rounds + 1)])


class RoundUnderTest(CheckedRound):
    """The functions of one round; every result is checked before it is used, and a wrong one is a fault."""

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
        """Return the functions that are scored: these, unless the round has others."""
        functions = self.call("scoring") if self.has("scoring") else self.functions
        if functions is self.functions:
            return self
        return RoundUnderTest(self.subject, self.plugin, self.round, functions, f"what is scored of {self.name}")

    def edge(self, method: str, agents: Agents | None = None) -> AbstractContextManager[None]:
        """Return the plugin edge; an error of the method is a fault."""
        call, about = f"{method} of {self.name}", _line(method, "plays")
        return guarding(self.subject, call, method, self.round, agents, of=self.functions, about=about)

    def ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401  what a plugin returns
        """Call a method with arrays that cannot be written."""
        if not self.has(method):
            text = f"{method} of {self.name} does not exist; a round needs the methods loss and constraint"
            raise Fault("plays", text, self.subject.course.standing("play"))
        return super().ask(method, *map(_frozen, arguments))

    def call(self, method: str, *arguments: object) -> Any:  # noqa: ANN401  what a plugin returns
        """Call a method within the plugin edge."""
        with self.edge(method):
            return self.ask(method, *arguments)

    def checked(self, method: str, value: object, shape: Sequence[int], agents: Agents | None = None) -> Array:
        """Return an array of finite float64 numbers that has the shape."""
        values = self.shaped(method, value, shape)
        if not np.isfinite(values).all():
            raise Fault(_line(method, "finite"), f"{method} of {self.name} is not finite")
        return values

    def shaped(self, method: str, value: object, shape: Sequence[int]) -> Array:
        """Return a copy, an array of float64 that has the shape."""
        where, shape = f"{method} of {self.name}", tuple(shape)
        kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        try:
            array = np.asarray(value)
        except ValueError:  # a list of lists of different lengths
            raise Fault(_line(method, "shapes"), f"{where} is {kind} that is no array; return one of {shape}") from None
        if array.dtype.kind not in REAL:
            raise Fault(_line(method, "dtype"), f"{where} is {kind}; return a float64 array of shape {shape}")
        if array.shape != shape:
            raise Fault(_line(method, "shapes"), f"{where} has shape {array.shape} where {shape} was asked for")
        self.subject.numbers.note(where, self.subject.course.where, value, array)
        return np.array(array, dtype=np.float64, order="C")

    def values(self, method: str, agents: Agents, points: Array) -> Array:
        """Return a method's result at points (k, s, p), (k, s, ...), from one call."""
        shape = (*points.shape[:2], *self._rows.get(method, ()))
        values = self.shaped(method, self.call(method, agents, points), shape)
        finite = np.isfinite(values)
        if not finite.all():
            which = tuple(np.argwhere(~finite)[0])
            where = f"{method} of agent {agents[which[0]]} in {self.name}"
            text = f"{where} is {values[which]} at x = {written(points[which[:2]])}"
            raise Fault(_line(method, "finite"), f"{text}; make it finite everywhere in X")
        return values

    def everyones(self, points: Array) -> tuple[Array, Array]:
        """Return all agents' f and g at their points (n, s, p), asked as in a game."""
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
        with guarding(self.subject, f"play({t})", "play", t, of=self.plugin):
            functions = self.plugin.play(t, past)
        return RoundUnderTest(self.subject, self.plugin, t, functions)


def _described(plugin: Adversary) -> None:
    """Require valid attributes."""
    for name in ("constraints", "history"):
        value = getattr(plugin, name, None)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise Fault("plays", f"{name} is {value!r}; make it a whole number of at least 0")
    if plugin.constraints > LIMITS.constraints:
        raise Fault("plays", f"constraints is {plugin.constraints}; a game has at most {LIMITS.constraints} per agent")
    if not isinstance(plugin.rowwise, bool):
        raise Fault("plays", f"rowwise is {plugin.rowwise!r}; make it True or False")


def _line(method: str, line: str) -> str:
    """Return the line for a method's faults: its own, where it has one."""
    return line if method in ("loss", "constraint") else method


@contextmanager
def guarding(
    subject: Subject,
    call: str,
    method: str,
    round: int,
    agents: Agents | None = None,
    *,
    of: object,
    about: str = "plays",
) -> Iterator[None]:
    """Run a method of the author's code: an error is a fault, except CannotPlay."""
    subject.course.ask(call, method, of if subject.place == "here" else None)
    ours = (CannotPlay, Fault, OutOfTime)
    try:
        with (
            plugin_edge("adversary plugin", "of the exam", method, round, agents, of=of, passing=ours),
            warnings.catch_warnings(),
        ):
            # a service logs them and goes on; the values are checked anyway
            warnings.simplefilter("ignore")
            yield
    except DebuggerNeeded:
        raise  # a plugin calls a debugger: that is no fault, and the command finds it a terminal
    except PluginFailed as failure:
        if failure.fault is None or isinstance(failure.__cause__, PluginFailed):
            cause = failure.__cause__ if isinstance(failure.__cause__, PluginFailed) else failure
            raise Fault("plays", str(cause), place_of(cause), cause.fault) from failure
        where = place_of(failure)
        if "read-only" in failure.fault.message:
            raise Fault(about, f"{call} writes into an array it is given; make a new one", where) from failure
        raise Fault(about, f"{call} raised {failure.fault.raised}", where, failure.fault) from failure
    finally:
        subject.course.answered()


def place_of(failure: PluginFailed) -> str:
    """Return file and line of the author's code that a failure is about; empty where they are not known."""
    frames = failure.fault.frames if failure.fault is not None else ()
    return f"{frames[-1].file}:{frames[-1].line}" if frames else ""


def everywhere(agents: Agents, points: Array) -> Array:
    """Return the same points (N, p) for every agent, (k, N, p)."""
    return np.repeat(points[None], len(agents), axis=0)


def _frozen(value: Any) -> Any:  # noqa: ANN401
    """Return an array that cannot be written, as a question's is."""
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.setflags(write=False)
    return value
