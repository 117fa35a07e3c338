"""The line of the report on a Slater point of the rounds examined, which `slater` searches for.

X may be any set with a projection: it lies on one side of the plane through a projection.
"""

from collections.abc import Sequence

import numpy as np

from slaternet.model import Array
from slaternet.numerics.sets import FeasibleSet
from slaternet_adversary.plugin.calls import written
from slaternet_adversary.testing.slater import Slater, deepest
from slaternet_adversary.testing.subject import Line, RoundUnderTest

ABOUT = "feasible"

_NUMBERS = 1 << 22
"""Numbers in one question; where differences need more, only sample points are tried."""


def feasible(rounds: Sequence[RoundUnderTest]) -> Line:
    """Return the line on the rounds examined."""
    rounds = [each.scoring() for each in rounds]
    first = rounds[0]
    if not first.m:
        return Line("ok", ABOUT, "there are no constraints")
    exact = all(each.has("linear") or each.has("constraint_gradient") for each in rounds)
    tried = np.concatenate([each.subject.points(each.round)[:-1] for each in rounds[:2]])
    affordable = exact or first.subject.game.agents * 2 * first.p * first.p <= _NUMBERS
    found = deepest(rounds, tried, _Planes(first.subject.game.set), solved=affordable)
    return _line(found, f"of all agents in rounds 1 to {len(rounds)}", "" if exact else "by differences of values, ")


def _line(found: Slater, seen: str, how: str) -> Line:
    near, at = found.tolerance, f"x = {written(found.point)}"
    if found.margin > near:
        best = "the largest margin" if found.limit - found.margin <= near else "the best margin found"
        return Line("ok", ABOUT, f"Slater's condition holds: g <= -{found.margin:.5g} {seen} at {at}, {best}")
    if found.limit < -near:
        text = f"{how}no point of X is feasible: everywhere some g >= {-found.limit:.5g} {seen}, least at {at}"
        return Line("failed", ABOUT, f"{text}; loosen the constraints")
    if found.margin >= -near and found.limit <= near:
        return Line("warning", ABOUT, f"{at} is feasible, but no point of X has g < 0 {seen}: Slater's condition fails")
    why = "the search ended early" if np.isfinite(found.limit) else "points were only tried"
    text = f"no point with g < 0 was found {seen}, the best has g <= {-found.margin:.5g} at {at}"
    return Line("warning", ABOUT, f"{text}; {why}")


class _Planes:
    """Maximises s over x within planes that touch X, under tangents slope'x + s <= bound."""

    tolerance = 1e-6

    def __init__(self, feasible: FeasibleSet) -> None:
        self._set, p = feasible, feasible.dimension
        self._rows, self._bounds = np.empty((0, p + 1)), np.empty(0)
        directions = np.concatenate((np.eye(p), -np.eye(p), np.ones((1, p)), -np.ones((1, p))))
        self._cut(feasible.centre + 10.0 * feasible.outer * directions)

    def _cut(self, x: Array) -> None:
        """Add planes between points (N, p) outside of X and their nearest points in X."""
        nearest = self._set.project(x)
        normals = x - nearest
        lengths = np.sqrt(np.sum(normals * normals, axis=1))
        outside = lengths > 1e-12 * self._set.outer
        normals = normals[outside] / lengths[outside][:, None]
        self._rows = np.concatenate((self._rows, np.pad(normals, ((0, 0), (0, 1)))))
        self._bounds = np.concatenate((self._bounds, np.sum(normals * nearest[outside], axis=1)))

    def solve(self, rows: Array, bounds: Array) -> Array | None:
        """Return (x, s) with the largest s, or None where the solver gives up; add a plane if x lies outside of X."""
        from scipy.optimize import linprog  # here, because it takes long to load

        p, centre, outer = self._set.dimension, self._set.centre, self._set.outer
        ranges = [*((each - outer, each + outer) for each in centre), (None, None)]
        matrix, right = np.concatenate((self._rows, rows)), np.concatenate((self._bounds, bounds))
        solution = linprog(np.append(np.zeros(p), -1.0), matrix, right, bounds=ranges, method="highs")
        if solution.status != 0:
            return None
        answer: Array = solution.x
        self._cut(answer[None, :p])
        return answer
