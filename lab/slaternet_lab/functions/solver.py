"""The conic solver as we use it: one thread, silent, told how exact to be."""

from dataclasses import dataclass

import clarabel
import numpy as np
from scipy import sparse

from slaternet.model import Array
from slaternet_lab.functions.cones import Cones

_CONES = {"linear": clarabel.NonnegativeConeT, "norm": clarabel.SecondOrderConeT}
_ANSWERED = (
    clarabel.SolverStatus.Solved,
    clarabel.SolverStatus.AlmostSolved,
    clarabel.SolverStatus.InsufficientProgress,  # as near as it can come; how near, whoever uses it finds out
)


@dataclass(frozen=True)
class Solution:
    """What the solver found; whoever uses it checks how good it is."""

    answered: bool
    infeasible: bool
    status: str
    y: Array
    multipliers: Array


def minimise(hessian: sparse.spmatrix, slope: Array, x: Cones, tolerance: float) -> Solution:
    """Return the minimiser y of 1/2 y'Hy + h'y over the cones; `tolerance` is of feasibility and gap."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = tolerance
    shape = [_CONES[kind](rows) for kind, rows in x.shape]
    upper = sparse.triu(hessian, format="csc")
    found = clarabel.DefaultSolver(upper, slope, sparse.csc_matrix(x.matrix), x.bound, shape, settings).solve()
    infeasible = found.status == clarabel.SolverStatus.PrimalInfeasible
    return Solution(found.status in _ANSWERED, infeasible, str(found.status), np.array(found.x), np.array(found.z))
