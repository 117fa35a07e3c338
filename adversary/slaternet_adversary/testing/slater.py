"""A Slater point: the point of X at which all constraints have the largest margin.

    maximise  s    over x in X with  g_{i,t}(x) + s <= 0  for all agents and the rounds examined

Kelley's cutting planes. g is convex, so its tangents lie below it: a programme over tangents bounds s from above, and
the margin of any point of X bounds it from below. Rows of linear constraints are their own tangents: for these the
method is row generation and ends at the optimum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slaternet.model import Agents, Array
from slaternet_adversary.plugin.calls import CheckedRound
from slaternet_adversary.testing.shape import slopes

_LARGEST = 1000
"""In more dimensions no programme is solved, and only sample points are tried."""
_ITERATIONS = 60
_PATIENCE, _ENOUGH = 20, 1e-2
"""After so many programmes, a gap of this part of a positive margin is enough: curved constraints converge slowly."""
_STEP = 1e-5
"""The step of differences, of r(X)."""
_BELOW = 1e-6
"""How far a tangent by differences may lie above a value, of the constraints' range."""


@dataclass(frozen=True)
class Slater:
    """The deepest point found: g <= -margin there, and nowhere in X does g <= -s hold with s above the limit."""

    point: Array
    margin: float
    limit: float
    """Infinite where only sample points were tried."""
    tolerance: float
    """Numbers closer to 0 count as 0."""


class Programme(Protocol):
    """Maximises s over x in X under tangents slope'x + s <= bound."""

    tolerance: float
    """How close the two bounds must come to count as equal, of the constraints' range in X."""

    def solve(self, rows: Array, bounds: Array) -> Array | None:
        """Return (x, s) with the largest s, or None where the solver gives up; rows (k, p + 1)."""


def deepest(rounds: Sequence[CheckedRound], tried: Array, programme: Programme, *, solved: bool) -> Slater:
    """Return the deepest point of X; `tried` (N, p) are some to begin with.

    It is the best of those where it is not to be `solved`, or in very many dimensions.
    """
    feasible, agents = rounds[0].plugin.game.set, np.arange(rounds[0].plugin.game.agents)
    room = np.max([each.stacked(agents, tried).max(axis=1) for each in rounds], axis=0)
    best, p = int(np.argmin(room)), feasible.dimension
    found = Slater(tried[best], -float(room[best]), np.inf, programme.tolerance * float(np.abs(room).max()))
    if not solved or p > _LARGEST:
        return found

    def values_at(point: Array) -> Array:
        return np.array([each.stacked(agents, point[None])[0] for each in rounds])

    rows, bounds = np.empty((0, p + 1)), np.empty(0)  # slope'x + s <= bound
    point, values = found.point, values_at(found.point)
    for iteration in range(_ITERATIONS):
        # the tangents of the constraints with the smallest margin at the point
        count = min(values.size, max(20, 2 * p))
        which, worst = np.divmod(np.argpartition(-values.ravel(), count - 1)[:count], values.shape[1])
        for index in np.unique(which):
            at, gradients = _tangents(rounds[index], agents, np.sort(worst[which == index]), point, tried)
            rows = np.concatenate((rows, np.column_stack((gradients, np.ones(len(at))))))
            bounds = np.concatenate((bounds, gradients @ point - at))
        answer = programme.solve(rows, bounds)
        if answer is None:
            break
        point = feasible.project(answer[:p])
        values = values_at(point)
        margin, limit = -float(values.max()), min(found.limit, float(answer[p]))
        deeper, margin = (point, margin) if margin >= found.margin else (found.point, found.margin)
        found = Slater(deeper, margin, max(margin, limit), found.tolerance)
        gap = found.limit - found.margin
        near = found.tolerance if iteration < _PATIENCE else max(found.tolerance, _ENOUGH * found.margin)
        if gap <= near or found.limit < -found.tolerance:
            break
        # drop tangents far below the answer; if they matter again they are found again
        close = bounds - rows @ answer <= 2.0 * gap
        rows, bounds = rows[close], bounds[close]
    return found


def _tangents(
    at: CheckedRound, agents: Agents, chosen: NDArray[np.intp], x: Array, tried: Array
) -> tuple[Array, Array]:
    """Return g (k,) and its slopes (k, p) at x, of the chosen rows.

    Without gradients, differences replace them. At a kink these may be no subgradient, so a row whose tangent cuts off
    a sample point is left out.
    """
    if at.has("linear") or at.has("constraint_gradient"):
        return at.tangents(agents, chosen, x)
    feasible = at.plugin.game.set
    inside = feasible.centre + (1.0 - 2.0 * _STEP) * (x - feasible.centre)
    asked = np.broadcast_to(inside, (len(agents), 1, at.p))
    gradients = slopes(at, "constraint", agents, asked, _STEP * feasible.inner).reshape(-1, at.p)[chosen]
    values, there = at.stacked(agents, x[None])[0, chosen], at.stacked(agents, tried)[:, chosen].T
    below = values[:, None] + gradients @ (tried - x).T <= there + _BELOW * np.abs(there).max()
    kept = below.all(axis=1)
    return values[kept], gradients[kept]
