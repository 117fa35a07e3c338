"""Duals without and with memory, and their weight in the Lagrangian.

    q        (k, m)      a dual, one number per constraint row
    g        (k, m)      values of the constraints, clipped or not
    slopes   (k, m)      of the constraints along one direction
    dg       (k, m, p)   gradients of the constraints

Plain sums over the last axis of C-contiguous arrays, not `@`: BLAS would change the last bit with the batch shape.
"""

import numpy as np

from slaternet.model import Array


def clipped(g: Array) -> Array:
    """Return [g]_+, a new array."""
    positive: Array = np.maximum(g, 0.0)
    positive += 0.0  # turns -0.0 into 0.0: which of two zeros a maximum returns varies with the CPU
    return positive


def memoryless(g: Array, gamma: float) -> Array:
    """Return gamma [g]_+, which maximises q g - |q|^2 / (2 gamma) over q >= 0."""
    q = clipped(g)
    q *= gamma
    return q


def ascended(q: Array, g: Array, beta: float, gamma: float) -> Array:
    """Return [(1 - beta gamma) q + gamma g]_+, an ascent step on q g - (beta / 2) |q|^2."""
    return clipped((1.0 - beta * gamma) * q + gamma * g)


def weighted_slope(q: Array, slopes: Array) -> Array:
    """Return sum_s q_s slope_s for each agent, (k,)."""
    total: Array = np.add.reduce(np.multiply(slopes, q, order="C"), axis=-1)
    return total


def weighted_gradient(q: Array, dg: Array) -> Array:
    """Return sum_s q_s dg_s for each agent, (k, p)."""
    total: Array = np.add.reduce(np.multiply(dg.transpose(0, 2, 1), q[:, None, :], order="C"), axis=-1)
    return total
