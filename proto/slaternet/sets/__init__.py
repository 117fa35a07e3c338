"""Feasible sets X: projections onto shrunken copies of X, radii, membership.

    c                 centre    0 where 0 is inside X, otherwise a point found inside
    r(X)              inner     radius of a ball about the centre inside X
    R(X)              outer     radius of a ball about the centre around X
    c + s (X - c)     scale s   the copy of X shrunk about the centre

Exact to the bit under any batching: elementwise arithmetic, `sqrt`, sorting, and sums over the last axis of
C-contiguous arrays.
"""

from slaternet.sets.ball import Ball
from slaternet.sets.base import FeasibleSet
from slaternet.sets.box import Box
from slaternet.sets.composed import Product, Shifted
from slaternet.sets.halfspaces import Halfspaces
from slaternet.sets.kinds import make_set
from slaternet.sets.simplex import L1Ball, Simplex

__all__ = ["Ball", "Box", "FeasibleSet", "Halfspaces", "L1Ball", "Product", "Shifted", "Simplex", "make_set"]
