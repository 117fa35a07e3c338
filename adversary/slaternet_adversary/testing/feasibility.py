"""A point that all constraints of the rounds looked at leave room, found by solving.

    maximise  s    over x in X with  g_{i,t}(x) + s <= 0  for all agents and rounds

Kelley's cutting planes, for any set that can project: a convex g lies above its tangents, and X on one side of the
plane through a projection, so that a linear programme over both bounds s from above; the room of any point of X bounds
it from below. Where constraints are linear and X is a box, the first programme is the last. Where no gradients are
told, differences stand in for them; at a kink these may be no subgradient, so what cuts off a point tried is left out.
"""

from collections.abc import Sequence

import numpy as np

from slaternet.model import Array
from slaternet.sets import FeasibleSet
from slaternet_adversary.testing.subject import Line, Looked, everywhere, written

ABOUT = "feasible"

_ITERATIONS = 60
_CLOSE = 1e-6
"""Of the constraints' range: how near the two bounds must come to be called the same."""
_PATIENCE, _ENOUGH = 15, 1e-2
"""After so many programmes this part of a positive margin is near enough: curved constraints take long to the end."""
_LINEAR, _CURVED = 2000, 24
"""Tangents that are added at once: all there are, or those that leave the least room, since others follow."""
_STEP = 1e-5
"""Of r(X): the distance of differences, where no gradients are told."""
_NUMBERS = 1 << 22
"""Numbers in one question; where differences need more, points are only tried."""
_LARGEST = 1000
"""Dimensions above which no programme is solved, and points are only tried."""


def feasible(rounds: Sequence[Looked]) -> Line:
    """Return the line on the rounds looked at."""
    rounds = [each.scoring() or each for each in rounds]
    first = rounds[0]
    if not first.m:
        return Line("ok", ABOUT, "there are no constraints")
    told = all(each.has("linear") or each.has("constraint_gradient") for each in rounds)
    tried = np.concatenate([each.subject.points(each.round)[:-1] for each in rounds[:2]])
    room = _Room(rounds, tried)
    affordable = told or first.subject.game.agents * 2 * first.p * first.p <= _NUMBERS
    if affordable and first.p <= _LARGEST:
        room.deepen()
    return _line(room, "" if told else "by differences of values, ")


def _line(room: "_Room", how: str) -> Line:
    seen = f"of all agents in rounds 1 to {len(room.rounds)}"
    near = _CLOSE * room.scale
    if room.margin > near:
        best = "the largest margin" if room.limit - room.margin <= near else "the best margin found"
        text = f"Slater's condition holds: g <= -{room.margin:.5g} {seen} at x = {written(room.point)}, {best}"
        return Line("ok", ABOUT, text)
    if room.limit < -near:
        text = f"{how}no point of X is feasible: everywhere some g >= {-room.limit:.5g} {seen}, least at x = "
        text += f"{written(room.point)}; loosen the constraints"
        return Line("failed", ABOUT, text)
    if room.margin >= -near and room.limit <= near:
        text = f"x = {written(room.point)} is feasible, but no point of X has g < 0 {seen}: Slater's condition fails"
        return Line("warning", ABOUT, text)
    why = "the search ended early" if np.isfinite(room.limit) else "points were only tried"
    text = f"no point with g < 0 was found {seen}, the best has g <= {-room.margin:.5g} at x = {written(room.point)}"
    return Line("warning", ABOUT, f"{text}; {why}")


class _Room:
    """The point with the most room so far, its margin, and the limit of all margins."""

    def __init__(self, rounds: Sequence[Looked], tried: Array) -> None:
        self.rounds = rounds
        self._set: FeasibleSet = rounds[0].subject.game.set
        agents = rounds[0].subject.everyone
        values = [each.constraint(agents, everywhere(agents, tried)).transpose(0, 2, 1) for each in rounds]
        self._tried, self._there = tried, np.array(values).reshape(-1, len(tried))  # (rows, N)
        room = -self._there.max(axis=0)
        best = int(np.argmax(room))
        self.point, self.margin, self.limit = tried[best], float(room[best]), np.inf
        self.scale = float(np.abs(room).max())
        self._rows = np.empty((0, rounds[0].p + 1))  # slope'x + s <= bound
        self._bounds = np.empty(0)

    def deepen(self) -> None:
        """Search for the deepest point."""
        point = self.point
        self._enclose()
        for iteration in range(_ITERATIONS):
            self._cut(point)
            answer = self._solve()
            if answer is None:
                return
            self.limit = min(self.limit, float(answer[-1]))
            point = self._inside(answer[None, :-1])[0]
            margin = -max(float(values.max()) for values, _ in (self._tangents(each, point) for each in self.rounds))
            if margin > self.margin:
                self.point, self.margin = point, margin
            zero = _CLOSE * self.scale
            near = zero if iteration < _PATIENCE else max(zero, _ENOUGH * self.margin)
            if self.limit - self.margin <= near or self.limit < -zero:
                return

    def _enclose(self) -> None:
        """Cut with planes that touch X: across every axis, and across the diagonal."""
        p = self._set.dimension
        directions = np.concatenate((np.eye(p), -np.eye(p), np.ones((1, p)), -np.ones((1, p))))
        self._inside(self._set.centre + 10.0 * self._set.outer * directions)

    def _inside(self, x: Array) -> Array:
        """Return the nearest points of X (N, p), and cut off what lies beyond them."""
        nearest = self._set.project(x)
        normals = x - nearest
        lengths = np.sqrt(np.sum(normals * normals, axis=1))
        outside = lengths > 1e-12 * self._set.outer
        normals = normals[outside] / lengths[outside][:, None]
        self._add(np.pad(normals, ((0, 0), (0, 1))), np.sum(normals * nearest[outside], axis=1))
        return nearest

    def _cut(self, point: Array) -> None:
        """Add the tangents at a point of the constraints that leave it the least room."""
        told = [self._tangents(each, point) for each in self.rounds]
        values = np.concatenate([values for values, _ in told])
        slopes = np.concatenate([slopes for _, slopes in told])
        bounds = slopes @ point - values
        below = np.all(slopes @ self._tried.T - bounds[:, None] <= self._there + _CLOSE * self.scale, axis=1)
        count = _LINEAR if all(each.has("linear") for each in self.rounds) else _CURVED
        worst = np.argsort(np.where(below, -values, np.inf), kind="stable")[: min(count, int(below.sum()))]
        self._add(np.column_stack((slopes[worst], np.ones(len(worst)))), bounds[worst])

    def _add(self, rows: Array, bounds: Array) -> None:
        self._rows = np.concatenate((self._rows, rows))
        self._bounds = np.concatenate((self._bounds, bounds))

    def _tangents(self, at: Looked, point: Array) -> tuple[Array, Array]:
        """Return g of all agents at a point, (n m,), and its slopes, (n m, p)."""
        agents, p = at.subject.everyone, at.p
        if at.has("linear"):
            matrix, bound = at.call("linear", agents)
            return matrix @ point - bound, matrix
        asked = everywhere(agents, point[None])
        values = at.constraint(agents, asked).reshape(-1)
        if at.has("constraint_gradient"):
            return values, at.values("constraint_gradient", agents, asked, at.m, p).reshape(-1, p)
        step = _STEP * self._set.inner
        inside = self._set.centre + (1.0 - 2.0 * _STEP) * (point - self._set.centre)
        around = inside + step * np.concatenate((np.eye(p), -np.eye(p)))
        ahead, behind = np.split(at.constraint(agents, everywhere(agents, around)), 2, axis=1)
        return values, ((ahead - behind) / (2.0 * step)).transpose(0, 2, 1).reshape(-1, p)

    def _solve(self) -> Array | None:
        """Return (x, s) with the largest s, or None where the solver gives up."""
        from scipy.optimize import linprog  # here, because it takes long to load

        p, centre, outer = self._set.dimension, self._set.centre, self._set.outer
        ranges = [*((each - outer, each + outer) for each in centre), (None, None)]
        answer = linprog(np.append(np.zeros(p), -1.0), self._rows, self._bounds, bounds=ranges, method="highs")
        return answer.x if answer.status == 0 else None
