"""A Slater point, found by solving: the point of X to which all constraints leave the most room.

    maximise  s    over x in X with  g_{i,t}(x) + s <= 0  for all agents and the rounds looked at

Kelley's cutting planes. g is convex, so its tangents lie below it: a programme over tangents bounds s from above, and
the room of any point of X bounds it from below. Rows of linear constraints are their own tangents; for these the method
is row generation and ends at the optimum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slaternet.model import Array
from slaternet.sets import FeasibleSet

LARGEST = 1000
"""Dimensions above which no programme is solved, and points are only tried."""
_ITERATIONS = 60
_PATIENCE, _ENOUGH = 20, 1e-2
"""After so many programmes this part of a positive margin is near enough: curved constraints take long to the end."""


@dataclass(frozen=True)
class Slater:
    """The deepest point found: g <= -margin there, and nowhere in X does g <= -s hold with s above the limit."""

    point: Array
    margin: float
    limit: float
    """Infinite where nothing was solved, only points tried."""
    tolerance: float
    """What is nearer 0 than this is 0."""


class Constraints(Protocol):
    """The stacked constraints of one round."""

    def constraints(self, points: Array) -> Array:
        """Return g at points (N, p), (N, rows)."""

    def rows(self, chosen: NDArray[np.intp], x: Array) -> tuple[Array, Array]:
        """Return g (k,) and its slopes (k, p) at x, of the chosen rows, but for those whose slopes are not known."""


class Programme(Protocol):
    """Maximises s over x in X under tangents slope'x + s <= bound."""

    tolerance: float
    """Of the constraints' range in X: how near the two bounds must come to be called the same."""

    def solve(self, rows: Array, bounds: Array) -> Array | None:
        """Return (x, s) with the largest s, or None where the solver gives up; rows (k, p + 1)."""


def deepest(
    feasible: FeasibleSet, rounds: Sequence[Constraints], tried: Array, programme: Programme, *, solved: bool
) -> Slater:
    """Return the deepest point; `tried` (N, p) are points of X to begin with.

    It is the best of those where it is not to be `solved`, or in very many dimensions.
    """
    room = np.max([each.constraints(tried).max(axis=1) for each in rounds], axis=0)
    best = int(np.argmin(room))
    found = Slater(tried[best], -float(room[best]), np.inf, programme.tolerance * float(np.abs(room).max()))
    if not solved or feasible.dimension > LARGEST:
        return found
    p = feasible.dimension
    tangents, bounds = np.empty((0, p + 1)), np.empty(0)
    point, values = found.point, _values(rounds, found.point)
    for iteration in range(_ITERATIONS):
        slopes, at_zero = _tangents(rounds, point, values)
        tangents = np.concatenate((tangents, np.column_stack((slopes, np.ones(len(slopes))))))
        bounds = np.concatenate((bounds, at_zero))
        answer = programme.solve(tangents, bounds)
        if answer is None:
            break
        point = feasible.project(answer[:p])
        values = _values(rounds, point)
        found = _better(found, point, -float(values.max()), float(answer[p]))
        gap = found.limit - found.margin
        near = found.tolerance if iteration < _PATIENCE else max(found.tolerance, _ENOUGH * found.margin)
        if gap <= near or found.limit < -found.tolerance:
            break
        # tangents that lie far below the answer are dropped; where they matter again they are found again
        close = bounds - tangents @ answer <= 2.0 * gap
        tangents, bounds = tangents[close], bounds[close]
    return found


def _values(rounds: Sequence[Constraints], point: Array) -> Array:
    """Return g of every round, (rounds, rows)."""
    return np.array([each.constraints(point[None])[0] for each in rounds])


def _tangents(rounds: Sequence[Constraints], point: Array, values: Array) -> tuple[Array, Array]:
    """Return slopes and bounds of the tangents, slope'x <= bound, of the constraints that leave the least room."""
    count = min(values.size, max(20, 2 * len(point)))
    worst = np.argpartition(-values.ravel(), count - 1)[:count]
    which, rows = np.divmod(worst, values.shape[1])
    found = [rounds[index].rows(np.sort(rows[which == index]), point) for index in np.unique(which)]
    slopes = np.concatenate([slopes for _, slopes in found])
    return slopes, slopes @ point - np.concatenate([at for at, _ in found])


def _better(found: Slater, point: Array, margin: float, limit: float) -> Slater:
    """Return the deeper of two points, with the lower of two limits."""
    if margin < found.margin:
        point, margin = found.point, found.margin
    return Slater(point, margin, max(margin, min(limit, found.limit)), found.tolerance)
