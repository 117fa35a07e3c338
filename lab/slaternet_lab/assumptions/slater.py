"""A Slater point (Assumption 5), found by solving: the point of X that all constraints leave the most room.

    maximise  s    over x in X with  g_{i,t}(x) + s <= 0  for all agents and the rounds looked at

Kelley's cutting planes. g is convex, so its tangents lie below it: a programme over tangents bounds s from above, and
any point's own slack bounds it from below. Rows of linear constraints are their own tangents; for these the method is
row generation and ends at the optimum.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from slaternet.model import Array
from slaternet.sets import FeasibleSet
from slaternet_lab.hindsight.cones import Cones, cones
from slaternet_lab.hindsight.replay import Functions
from slaternet_lab.hindsight.solver import minimise

_ITERATIONS = 60
_TOLERANCE = 1e-8
"""Of the constraints' range in X: how near the two bounds must come to be called the same."""
_PATIENCE, _ENOUGH = 20, 1e-2
"""After so many iterations this part of a positive margin is near enough: curved constraints take long to the end."""
_SOLVER = 1e-10
"""What the solver is asked for: feasibility and gap."""
_LARGEST = 1000
"""Dimensions above which no programme is solved."""


@dataclass(frozen=True)
class Slater:
    """The deepest point found: g <= -margin there, and nowhere in X does g <= -s hold with s above the limit."""

    point: Array
    margin: float
    limit: float
    """Infinite where nothing was solved, only points tried."""
    tolerance: float
    """What is nearer 0 than this is 0."""


def deepest(feasible: FeasibleSet, rounds: Sequence[Functions], tried: Array, *, tangents: bool) -> Slater:
    """Return the deepest point; `tried` (N, p) are points of X to begin with.

    Without tangents, or in very many dimensions, it is the best of those.
    """
    room = np.max([each.constraints(tried).max(axis=1) for each in rounds], axis=0)
    best = int(np.argmin(room))
    found = Slater(tried[best], -float(room[best]), np.inf, _TOLERANCE * float(np.abs(room).max()))
    if not tangents or feasible.dimension > _LARGEST:
        return found
    return _Cuts(feasible, rounds).deepen(found)


def _better(found: Slater, point: Array, margin: float, limit: float) -> Slater:
    """Return the deeper of two points, with the lower of two limits."""
    if margin < found.margin:
        point, margin = found.point, found.margin
    return Slater(point, margin, max(margin, min(limit, found.limit)), found.tolerance)


class _Cuts:
    """Tangents so far, as rows (x, s): slope'x + s <= bound."""

    def __init__(self, feasible: FeasibleSet, rounds: Sequence[Functions]) -> None:
        x = cones(feasible)
        beside = sparse.csr_matrix((len(x.bound), 1))
        self._x = Cones(sparse.hstack((x.on_x, beside), format="csr"), x.on_w, x.bound, x.shape)
        self._p = feasible.dimension
        self._project = feasible.project
        self._rounds = rounds
        self._rows = np.empty((0, self._p + 1))
        self._bounds = np.empty(0)

    def deepen(self, found: Slater) -> Slater:
        """Return the deepest point, from one to begin with."""
        point, values = found.point, self._values(found.point)
        for iteration in range(_ITERATIONS):
            self._cut(point, values)
            answer = self._solve()
            if answer is None:
                break
            point = self._project(answer[: self._p])
            values = self._values(point)
            found = _better(found, point, -float(values.max()), float(answer[self._p]))
            gap = found.limit - found.margin
            near = found.tolerance if iteration < _PATIENCE else max(found.tolerance, _ENOUGH * found.margin)
            if gap <= near or found.limit < -found.tolerance:
                break
            self._forget(answer, gap)
        return found

    def _forget(self, answer: Array, gap: float) -> None:
        """Drop the tangents that lie far below the answer; where they matter again they are found again."""
        near = self._bounds - self._rows @ answer[: self._p + 1] <= 2.0 * gap
        self._rows, self._bounds = self._rows[near], self._bounds[near]

    def _values(self, point: Array) -> Array:
        """Return g of every round looked at, (rounds, n m)."""
        return np.array([each.constraints(point[None])[0] for each in self._rounds])

    def _cut(self, point: Array, values: Array) -> None:
        """Add the tangents of the constraints that leave the point the least room."""
        count = min(values.size, max(20, 2 * self._p))
        worst = np.argpartition(-values.ravel(), count - 1)[:count]
        which, rows = np.divmod(worst, values.shape[1])
        for index in np.unique(which):
            chosen: NDArray[np.intp] = np.sort(rows[which == index])
            at, slopes = self._rounds[index].rows(chosen, point)
            self._rows = np.concatenate((self._rows, np.column_stack((slopes, np.ones(len(chosen))))))
            self._bounds = np.concatenate((self._bounds, slopes @ point - at))

    def _solve(self) -> Array | None:
        """Return (x, s, helpers) with the largest s, or None where the solver gives up."""
        x = self._x.with_rows(self._rows, self._bounds)
        size = x.matrix.shape[1]
        objective = np.zeros(size)
        objective[self._p] = -1.0
        solution = minimise(sparse.csc_matrix((size, size)), objective, x, _SOLVER)
        return solution.y if solution.answered else None
