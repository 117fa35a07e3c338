"""The exam of the functions themselves: convex, and with the gradients that they claim to have."""

import numpy as np

from slaternet.model import Array
from slaternet.numerics.randomness import stream
from slaternet_adversary.testing.shape import chord_below, differences, written
from slaternet_adversary.testing.subject import Fault, Line, RoundUnderTest, everywhere

_NUMBERS = 1 << 20
"""Numbers in one question, which decide how many pairs of points are looked at."""
_NEAR = 0.05
"""How far apart, of two points of the sample, the ends of a short chord are."""

_INSIDE, _STEP = 1e-3, 1e-5
"""Of X about its centre, and of r(X): how far inside differences are taken, and over what distance."""
_POINTS, _DIRECTIONS = 4, 8
"""Points a round and directions at which gradients are compared with differences."""
_SLOPE = 1e-6
"""Of the largest slope: what differs by less is the same."""
_NOISE = 100.0 * float(np.finfo(np.float64).eps)
"""Of the largest value: its rounding."""


class Convex:
    """No value in the middle of a chord lies above the chord."""

    def __init__(self, method: str) -> None:
        self.about = "convex f" if method == "loss" else "convex g"
        self._method = method
        self._chords = 0
        self._functions = 0

    def look(self, at: RoundUnderTest) -> None:
        """Compare values at the middle of chords with those at their ends."""
        x, y = self._ends(at)
        if chord := chord_below(at, self._method, at.subject.sampled, x, y):
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

    def finding(self) -> Line:
        """Return the line."""
        if not self._functions:
            return Line("ok", self.about, "there are no constraints")
        return Line("ok", self.about, f"no value in the middle of {self._chords} chords lies above them")


class Gradient:
    """Slopes told against differences of values."""

    def __init__(self, method: str) -> None:
        self.about = f"{method}_gradient"
        self._method = method
        self._worst = -1.0
        self._where = ""

    def look(self, at: RoundUnderTest) -> None:
        """Compare at some points inside X, where differences stay in X."""
        if not at.has(self.about) or (self._method == "constraint" and not at.m):
            return
        agents, feasible, directions = at.subject.sampled, at.subject.game.set, _directions(at)
        chosen = np.roll(at.subject.points(at.round)[1:-1], at.round, axis=0)[:_POINTS]
        points = feasible.centre + (1.0 - _INSIDE) * (chosen - feasible.centre)
        asked, step = everywhere(agents, points), _STEP * feasible.inner
        here, ahead, behind = differences(at, self._method, agents, asked, directions, step)
        gradients = at.values(self.about, agents, asked).reshape(len(agents), len(points), -1, at.p)
        told, central = np.moveaxis(gradients @ directions.T, -1, -2), 0.5 * (ahead + behind)
        # a subgradient's slope lies between the two differences, up to rounding
        beyond = np.maximum(told - np.maximum(ahead, behind), np.minimum(ahead, behind) - told)
        which = np.unravel_index(int(np.argmax(beyond)), beyond.shape)
        if beyond[which] > _SLOPE * float(np.abs(central).max()) + _NOISE * float(np.abs(here).max()) / step:
            agent, point, direction, row = which
            who = f"{self.about} of agent {agents[agent]} in {at.name}"
            who += f", row {row}," if self._method == "constraint" else ""
            where = f"{_along(directions[direction])} at x = {written(points[point])}"
            gives = f"differences of {self._method} give {central[which]:.6g}"
            raise Fault(self.about, f"{who} gives the slope {told[which]:.6g} {where}, where {gives}")
        apart = np.abs(told - central)
        if apart.max() > self._worst:
            self._worst = float(apart.max())
            agent = np.unravel_index(int(np.argmax(apart)), apart.shape)[0]
            self._where = f"agent {agents[agent]} in {at.name}"

    def finding(self) -> Line:
        """Return the line."""
        if self._worst < 0.0:
            text = "absent: only algorithms that need none can play, and differences stand in for it"
            return Line("note", self.about, text)
        return Line("ok", self.about, f"within {self._worst:.2g} of central differences, worst of {self._where}")


def _along(direction: Array) -> str:
    axis = int(np.argmax(direction))
    return f"along coordinate {axis}" if direction[axis] == 1.0 else f"along {written(direction)}"


def _directions(at: RoundUnderTest) -> Array:
    """Return the axes where they are few, else some directions at random, (d, p)."""
    if at.p <= _DIRECTIONS:
        return np.eye(at.p)
    normal = stream(at.subject.game.seed, "exam directions", 0, at.round).standard_normal((_DIRECTIONS, at.p))
    return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True))
