"""The comparator's oracle: the quadratic programme with every row at once, solved by another solver than ours."""

import numpy as np
import piqp

from slaternet.numerics.sets import Box
from slaternet.spec import Spec
from slaternet_lab.functions.replay import replay


def full_optimum(spec: Spec, rounds: int) -> float:
    """Return min sum_t f_t over the box of the spec and all rows of rounds 1 to `rounds`."""
    every = list(replay(spec, rounds))
    quadratics, rows = [each.quadratic() for each in every], [each.linear() for each in every]
    hessian, slope = sum(q[0] for q in quadratics), sum(q[1] for q in quadratics)
    matrix, bounds = np.concatenate([row[0] for row in rows]), np.concatenate([row[1] for row in rows])
    box = spec.feasible_set()
    assert isinstance(box, Box)

    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-9
    solver.settings.eps_rel = solver.settings.eps_duality_gap_rel = 1e-11
    solver.setup(hessian, slope, None, None, matrix, None, bounds, box.lower, box.upper)
    assert solver.solve() == piqp.PIQP_SOLVED

    x = np.array(solver.result.x)
    return float(x @ (0.5 * hessian @ x + slope)) + sum(q[2] for q in quadratics)
