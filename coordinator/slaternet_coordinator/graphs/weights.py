"""Doubly stochastic weights on the edges of graphs, undirected and directed.

Undirected edges come as (E, 2) rows r n + i of a matrix of several rounds, each pair of a round once with i < j, in any
order; a directed edge is one entry [W_t]_ij: i receives from j. Matrices are made for every round, many rounds at a
time, so they are assembled by sorting keys in numpy instead of by a sparse-matrix library.
"""

import functools
from typing import Literal

import numpy as np

from slaternet.model import Agents, Array
from slaternet_coordinator.graphs.base import Matrix

Weights = Literal["metropolis", "uniform"]
"""The choices of `graph.weights`."""


def weighed(weights: Weights, n: int, edges: Agents, rounds: int = 1) -> Matrix:
    """Return undirected edges weighed as `graph.weights` says."""
    return metropolis(n, edges, rounds) if weights == "metropolis" else uniform(n, edges, rounds)


def share(weights: Weights, n: int, degree: int) -> float:
    """Return what `graph.weights` gives to an edge where no agent has more edges than `degree`.

    With "metropolis" the edges and the agent itself count alike, with "uniform" an edge weighs 1/n.
    """
    return 1.0 / n if weights == "uniform" else 1.0 / (1.0 + degree)


def uniform(n: int, edges: Agents, rounds: int = 1) -> Matrix:
    """Return the paper's weights: 1/n on every edge, the rest of each row on the diagonal."""
    starts, columns, diagonal = _pattern(n, edges, rounds)
    weights = np.full(len(columns), 1.0 / n)
    degrees = starts[1:] - starts[:-1] - 1
    weights[diagonal] = (n - degrees) / n  # the sum of [W]_ij runs over j != i: with j = i it would define itself
    return Matrix(n, starts, columns, weights)


def metropolis(n: int, edges: Agents, rounds: int = 1) -> Matrix:
    """Return Metropolis weights: 1 / (1 + the larger degree of its two ends) on every edge."""
    starts, columns, diagonal = _pattern(n, edges, rounds)
    degrees = starts[1:] - starts[:-1] - 1
    lengths = degrees + 1
    first = np.repeat(np.repeat(np.arange(0, rounds * n, n), n), lengths)  # of its round, for every entry
    larger = np.maximum(np.repeat(degrees, lengths), degrees[first + columns])
    weights = 1.0 / (1.0 + larger)
    weights[diagonal] = 0.0
    weights[diagonal] = 1.0 - np.add.reduceat(weights, starts[:-1])
    return Matrix(n, starts, columns, weights)


def entries(n: int, rows: Agents, columns: Agents, weights: Array, rounds: int = 1) -> Matrix:
    """Return the matrix of the given entries, each place off the diagonal at most once, the rest on the diagonal."""
    starts, diagonal = _keys(n, rounds)
    keys = np.concatenate((rows * n + columns, diagonal))
    order = keys.argsort(kind="stable")
    keys = keys[order]
    values = np.concatenate((weights, np.zeros(rounds * n)))[order]
    starts = keys.searchsorted(starts)
    values[keys.searchsorted(diagonal)] = 1.0 - np.add.reduceat(values, starts[:-1])
    return Matrix(n, starts, keys % n, values)


def permutations(orders: Agents) -> Matrix:
    """Return the mean of the identity and c permutations: i receives from orders[r, k, i]; orders (rounds, c, n).

    Every doubly stochastic matrix is a weighted mean of permutations (Birkhoff), and every such mean is one.
    """
    rounds, count, n = orders.shape
    starts, diagonal = _keys(n, rounds)
    drawn = (starts[:-1].reshape(rounds, 1, n) + orders).ravel()
    keys, times = np.unique(np.concatenate((drawn, diagonal)), return_counts=True)
    return Matrix(n, keys.searchsorted(starts), keys % n, times / (count + 1.0))


def _pattern(n: int, edges: Agents, rounds: int) -> tuple[Agents, Agents, Agents]:
    """Return starts and columns of the edges, both ways, with the diagonal, and where the diagonal lies."""
    rows, diagonal = _keys(n, rounds)
    low, high = edges[:, 0], edges[:, 1]
    keys = np.concatenate((low * n + high % n, high * n + low % n, diagonal))
    keys.sort()
    return keys.searchsorted(rows), keys % n, keys.searchsorted(diagonal)


@functools.lru_cache(maxsize=16)
def _keys(n: int, rounds: int) -> tuple[Agents, Agents]:
    """Return where rows begin and where the diagonal lies, as keys row * n + column."""
    rows = np.arange(rounds * n + 1) * n
    return rows, rows[:-1] + np.tile(np.arange(n), rounds)
