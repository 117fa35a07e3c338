"""The exam of the functions: convexity, and gradients where they have any."""

import numpy as np

from slaternet.model import Array
from slaternet.numerics.randomness import stream
from slaternet_adversary.plugin.calls import written
from slaternet_adversary.testing.shape import chord_below, differences
from slaternet_adversary.testing.subject import Fault, RoundUnderTest, Verdict, everywhere
from slaternet_adversary.testing.values import ValueCheck

_NUMBERS = 1 << 20
"""Numbers in one question, which limit how many chords are examined."""
_NEAR = 0.05
"""Length of a short chord, of the distance between two points of the sample."""

_INSIDE, _STEP = 1e-3, 1e-5
"""How far inside X differences are taken, of the distance to its centre; and their step, of r(X)."""
_POINTS, _DIRECTIONS = 4, 8
"""Points per round, and directions, at which gradients are compared with differences."""
_SLOPE = 1e-6
"""Slopes that differ by less, of the largest slope, are the same."""


class Convex(ValueCheck):
    """No value in the middle of a chord lies above the chord."""

    def __init__(self, method: str) -> None:
        self.about = "convex f" if method == "loss" else "convex g"
        self._method = method
        self._chords = 0
        self._functions = 0

    def look(self, at: RoundUnderTest) -> None:
        """Compare values at the middle of chords with those at their ends."""
        x, y = self._ends(at)
        chord = chord_below(at, self._method, at.subject.sampled, x, y, rounding=at.subject.numbers.rounding)
        if chord is not None:
            raise Fault(self.about, str(chord))
        self._chords += len(x)
        self._functions = 1 if self._method == "loss" else at.m

    def _ends(self, at: RoundUnderTest) -> tuple[Array, Array]:
        """Return the ends of chords, (M, p) each: long ones, short ones, and some from the centre."""
        points = at.subject.points(at.round)[:-1]
        first, second = points[:-1], points[1:]
        left = np.concatenate((first, first, np.repeat(points[:1], len(second), axis=0)))
        right = np.concatenate((second, first + _NEAR * (second - first), second))
        most = max(3, _NUMBERS // (3 * len(at.subject.sampled) * at.p))
        chosen = np.linspace(0, len(left) - 1, min(len(left), most)).astype(np.intp)
        return left[chosen], right[chosen]

    def _finding(self) -> tuple[Verdict, str]:
        if not self._functions:
            return "ok", "there are no constraints"
        return "ok", f"no value in the middle of {self._chords} chords lies above them"


class Gradient(ValueCheck):
    """Gradients agree with differences of values."""

    def __init__(self, method: str) -> None:
        self.about = f"{method}_gradient"
        self._method = method
        self._worst = -1.0
        self._where = ""

    def look(self, at: RoundUnderTest) -> None:
        """Compare at some points inside X, where differences stay in X."""
        if not at.has(self.about) or (self._method == "constraint" and not at.m):
            return
        agents, feasible, directions = at.subject.sampled, at.subject.game.set, np.eye(at.p)
        if at.p > _DIRECTIONS:
            normal = stream(at.subject.game.seed, "exam directions", 0, at.round).standard_normal((_DIRECTIONS, at.p))
            directions = normal / np.linalg.norm(normal, axis=1, keepdims=True)
        chosen = np.roll(at.subject.points(at.round)[1:-1], at.round, axis=0)[:_POINTS]
        points = feasible.centre + (1.0 - _INSIDE) * (chosen - feasible.centre)
        asked, step = everywhere(agents, points), _STEP * feasible.inner
        here, ahead, behind = differences(at, self._method, agents, asked, directions, step)
        gradients = at.values(self.about, agents, asked).reshape(len(agents), len(points), -1, at.p)
        told, central = np.moveaxis(gradients @ directions.T, -1, -2), 0.5 * (ahead + behind)
        noise = at.subject.numbers.rounding * float(np.abs(here).max()) / step
        # a subgradient's slope lies between the two differences, up to rounding
        beyond = np.maximum(told - np.maximum(ahead, behind), np.minimum(ahead, behind) - told)
        which = np.unravel_index(int(np.argmax(beyond)), beyond.shape)
        if beyond[which] > _SLOPE * float(np.abs(central).max()) + noise:
            agent, point, direction, row = which
            who = f"{self.about} of agent {agents[agent]} in {at.name}"
            who += f", row {row}," if self._method == "constraint" else ""
            axis = int(np.argmax(directions[direction]))
            along = f"coordinate {axis}" if directions[direction, axis] == 1.0 else written(directions[direction])
            where = f"along {along} at x = {written(points[point])}"
            gives = f"differences of {self._method} give {central[which]:.6g}"
            raise Fault(self.about, f"{who} gives the slope {told[which]:.6g} {where}, where {gives}")
        apart = np.abs(told - central)
        if apart.max() > self._worst:
            self._worst = float(apart.max())
            agent = np.unravel_index(int(np.argmax(apart)), apart.shape)[0]
            self._where = f"agent {agents[agent]} in {at.name}"

    def _finding(self) -> tuple[Verdict, str]:
        if self._worst < 0.0:
            return "note", "absent: only algorithms that need none can play, and differences stand in for it"
        return "ok", f"within {self._worst:.2g} of central differences, worst of {self._where}"
