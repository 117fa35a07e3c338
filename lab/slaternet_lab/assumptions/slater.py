"""A Slater point (Assumption 5) of X as cones, which the interior-point solver takes as they are."""

import numpy as np
from scipy import sparse

from slaternet.model import Array
from slaternet.numerics.sets import FeasibleSet
from slaternet_lab.functions.cones import Cones, cones, minimise

_SOLVER = 1e-10
"""Feasibility and gap that the solver must reach."""


class ConeProgramme:
    """Maximises s over x in X under tangents slope'x + s <= bound."""

    tolerance = 1e-8

    def __init__(self, feasible: FeasibleSet) -> None:
        x = cones(feasible)
        beside = sparse.csr_matrix((len(x.bound), 1))
        self._x = Cones(sparse.hstack((x.on_x, beside), format="csr"), x.on_w, x.bound, x.shape)
        self._p = feasible.dimension

    def solve(self, rows: Array, bounds: Array) -> Array | None:
        """Return (x, s) with the largest s, or None where the solver gives up."""
        x = self._x.with_rows(rows, bounds)
        size = x.matrix.shape[1]  # x, s and helpers
        objective = np.zeros(size)
        objective[self._p] = -1.0
        solution = minimise(sparse.csc_matrix((size, size)), objective, x, _SOLVER)
        return solution.y[: self._p + 1] if solution.answered else None
