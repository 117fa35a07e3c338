"""The best fixed decision in hindsight for quadratic losses and linear constraints: a QP, by row generation.

    minimise  sum_t f_t(x) = 1/2 x'Hx + h'x + c    over x in X with Bx <= b

    H, h, c   sums over the rounds so far         (B, b)   T n m rows, of which few bind
    z         multipliers of the rows and of X    s        their slacks

The solver gets X and a few rows; the rows farthest on the wrong side of its answer are added until there are none. The
answer is then optimal for all rows, and the certificate, computed from the data alone, proves it.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from slaternet.errors import BadSpec
from slaternet.model import Array
from slaternet.numerics.sets import FeasibleSet
from slaternet_lab.functions.cones import cones, minimise
from slaternet_lab.functions.replay import RoundFunctions
from slaternet_lab.hindsight.rows import Rows

_TOLERANCE = 1e-11
"""Of R(X): how far a point may lie on the wrong side of a row."""
_SOLVER = 1e-12
"""Feasibility and gap that the solver must reach."""
_BINDING = 1e-9
"""Rows with larger multipliers bind."""


@dataclass(frozen=True)
class Certificate:
    """How well a point meets the conditions of Karush, Kuhn and Tucker; 0 is exact.

    The numbers are relative: L is about the largest slope of the average loss in X, R(X) the set's outer radius.
    """

    stationarity: float
    """Largest entry of the average loss's gradient plus the multipliers' pull, over L."""
    infeasibility: float
    """Largest distance on the wrong side of a row or of a face of X, over R(X)."""
    complementarity: float
    """Multipliers times slacks, over L R(X)."""

    @property
    def residual(self) -> float:
        """The largest of the three."""
        return max(self.stationarity, self.infeasibility, self.complementarity)


@dataclass(frozen=True)
class Optimum:
    """The best fixed decision of X_T, the points of X that are feasible in all rounds 1 to T."""

    rounds: int
    point: Array
    """x*, (p,)."""
    value: float
    """sum_t f_t(x*)."""
    slack: float
    """Smallest -g over all rounds, agents and rows at x*; infinite in a game without constraints."""
    certificate: Certificate


class QuadraticProgramme:
    """The programme of the rounds added so far; `optimum` may be asked for at any time."""

    def __init__(self, feasible: FeasibleSet) -> None:
        p = feasible.dimension
        self._x = cones(feasible)
        self._outer = feasible.outer
        self._hessian, self._slope, self._constant = np.zeros((p, p)), np.zeros(p), 0.0
        self._rows = Rows(p)
        self._rounds = 0
        self._binding = np.empty(0, dtype=np.intp)

    def add(self, functions: RoundFunctions) -> None:
        """Add the next round."""
        hessian, slope, constant = functions.quadratic()
        self._hessian += hessian
        self._slope += slope
        self._constant += constant
        self._rows.add(*functions.linear())
        self._rounds += 1

    def value(self, x: Array) -> float:
        """Return sum_t f_t(x)."""
        return float(x @ (0.5 * (self._hessian @ x) + self._slope)) + self._constant

    def optimum(self) -> Optimum:
        """Return the best point of X_T; BadSpec where there is none."""
        self._check_convex()
        tolerance = _TOLERANCE * self._outer
        working, count = self._binding, max(20, 3 * len(self._slope))
        while True:
            point, multipliers, certificate = self._solve(working)
            missed, distance, largest = self._rows.farthest(point, count, tolerance)
            new = np.setdiff1d(missed, working)
            if not len(new):
                break
            working = np.concatenate((working, new))
        # what binds now probably binds in the next, longer prefix too
        self._binding = working[multipliers > _BINDING]
        infeasibility = max(certificate.infeasibility, distance / self._outer)
        certificate = replace(certificate, infeasibility=infeasibility)
        return Optimum(self._rounds, point, self.value(point), -largest, certificate)

    def _check_convex(self) -> None:
        p = len(self._slope)
        try:
            np.linalg.cholesky(self._hessian + 1e-9 * (float(np.abs(self._hessian).max()) + 1e-300) * np.eye(p))
        except np.linalg.LinAlgError:
            raise BadSpec(
                f"the losses of rounds 1 to {self._rounds} do not sum to a convex function, so their minimum is not "
                "found; correct the adversary's quadratic"
            ) from None

    def _solve(self, working: NDArray[np.intp]) -> tuple[Array, Array, Certificate]:
        """Return the minimiser over X and the rows at work, their multipliers, and its certificate."""
        rows, bounds = self._rows.take(working)
        x = self._x.with_rows(rows, bounds)
        p, extra = len(self._slope), self._x.extra
        # the average loss over its slope L, so that numbers have the same size whatever T and the units
        steepness = float(np.abs(self._slope).max()) + self._outer * float(np.abs(self._hessian).max())
        unit = self._rounds * (steepness / self._rounds or 1.0)
        hessian = sparse.block_diag((self._hessian / unit, sparse.csc_matrix((extra, extra))))
        slope = np.concatenate((self._slope / unit, np.zeros(extra)))
        solution = minimise(hessian, slope, x, _SOLVER)
        if solution.infeasible:
            raise BadSpec(
                f"no point of the set is feasible in all rounds from 1 to {self._rounds}, so regret is undefined; "
                "weaken the adversary's constraints or play fewer rounds"
            )
        if not solution.answered:
            raise BadSpec(
                f"the offline optimum of rounds 1 to {self._rounds} is not found ({solution.status}); choose units in "
                "which the adversary's functions have numbers of moderate size"
            )
        point = solution.y
        slacks, proper = x.bound - x.matrix @ point, x.nearest_multipliers(solution.multipliers)
        certificate = Certificate(
            float(np.abs(hessian @ point + slope + x.matrix.T @ proper).max()),
            x.outside(slacks) / self._outer,
            abs(float(proper @ slacks)) / self._outer,
        )
        return point[:p], proper[len(self._x.bound) :], certificate
