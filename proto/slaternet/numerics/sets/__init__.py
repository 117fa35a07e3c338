"""Feasible sets X: projections onto shrunken copies of X, radii, membership.

    c                 centre    0 where 0 is inside X, otherwise a point found inside
    r(X)              inner     radius of a ball about the centre inside X
    R(X)              outer     radius of a ball about the centre around X
    c + s (X - c)     scale s   the copy of X shrunk about the centre

Exact to the bit under any batching: elementwise arithmetic, `sqrt`, sorting, and sums over the last axis of
C-contiguous arrays.
"""

from slaternet.numerics.sets.ball import Ball
from slaternet.numerics.sets.base import FeasibleSet
from slaternet.numerics.sets.box import Box
from slaternet.numerics.sets.composed import Product, Shifted
from slaternet.numerics.sets.halfspaces import Halfspaces
from slaternet.numerics.sets.kinds import make_set
from slaternet.numerics.sets.simplex import L1Ball, Simplex

__all__ = ["Ball", "Box", "FeasibleSet", "Halfspaces", "L1Ball", "Product", "Shifted", "Simplex", "make_set"]
