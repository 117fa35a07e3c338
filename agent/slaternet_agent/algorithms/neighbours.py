"""Sums over the in-neighbours of each agent, whose bits do not depend on the other agents of a host.

starts   (k + 1,)             where each agent's places begin; the last number is nnz
values   (nnz,) or (nnz, w)   one at each place
"""

import numpy as np
from scipy.sparse import csr_array

from slaternet.model import Agents, Array


def neighbour_sums(starts: Agents, values: Array) -> Array:
    """Return the sum of the values at each agent's places, added one after the other, (k,) or (k, w)."""
    # a product with sparse rows of ones, like mixing: numpy does not say in which order `np.add.reduceat` adds
    count = len(values)
    ones = csr_array((np.ones(count), np.arange(count), starts), shape=(len(starts) - 1, count))
    sums: Array = ones @ values
    return sums
