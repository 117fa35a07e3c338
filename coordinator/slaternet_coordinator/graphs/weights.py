"""Doubly stochastic weights on the edges of an undirected graph.

    W_t    Matrix   weights[starts[i] : starts[i + 1]] are what agent i gives to the agents of the same slice of
                    `columns`, which ascends and contains i itself

Edges come as (E, 2), each pair once with i < j, in any order. Matrices are made for every round, so they are put
together by sorting keys in numpy instead of by a sparse-matrix library, whose constructors cost more than the round.
"""

import functools
from dataclasses import dataclass

import numpy as np

from slaternet.model import Agents, Array


@dataclass(frozen=True, slots=True)
class Matrix:
    """W_t by rows (CSR); columns ascend within a row, and the diagonal is always there."""

    starts: Agents  # (n + 1,)
    columns: Agents  # (nonzeros,)
    weights: Array  # (nonzeros,)

    @property
    def agents(self) -> int:
        """The number n of agents."""
        return len(self.starts) - 1

    @property
    def lengths(self) -> Agents:
        """The number of entries of every row."""
        return self.starts[1:] - self.starts[:-1]

    def rows(self) -> Agents:
        """Return the row of every entry."""
        return np.repeat(np.arange(self.agents), self.lengths)

    def dense(self) -> Array:
        """Return W_t as (n, n)."""
        full = np.zeros((self.agents, self.agents))
        full[self.rows(), self.columns] = self.weights
        return full


def uniform(n: int, edges: Agents) -> Matrix:
    """Return the paper's weights: 1/n on every edge, the rest of each row on the diagonal."""
    starts, columns, diagonal = _pattern(n, edges)
    weights = np.full(len(columns), 1.0 / n)
    degrees = starts[1:] - starts[:-1] - 1
    weights[diagonal] = (n - degrees) / n  # the sum of [W]_ij runs over j != i (trap T6)
    return Matrix(starts, columns, weights)


def metropolis(n: int, edges: Agents) -> Matrix:
    """Return Metropolis weights: 1 / (1 + the larger degree of its two ends) on every edge."""
    starts, columns, diagonal = _pattern(n, edges)
    degrees = starts[1:] - starts[:-1] - 1
    larger = np.maximum(np.repeat(degrees, degrees + 1), degrees[columns])
    weights = 1.0 / (1.0 + larger)
    weights[diagonal] = 0.0
    weights[diagonal] = 1.0 - np.add.reduceat(weights, starts[:-1])
    return Matrix(starts, columns, weights)


def _pattern(n: int, edges: Agents) -> tuple[Agents, Agents, Agents]:
    """Return starts and columns of the edges, both ways, with the diagonal, and where the diagonal lies."""
    rows, diagonal = _keys(n)
    low, high = edges[:, 0], edges[:, 1]
    keys = np.concatenate((low * n + high, high * n + low, diagonal))
    keys.sort()
    return keys.searchsorted(rows), keys % n, keys.searchsorted(diagonal)


@functools.lru_cache(maxsize=4)
def _keys(n: int) -> tuple[Agents, Agents]:
    """Return where rows begin and where the diagonal lies, as keys row * n + column."""
    return np.arange(0, n * n + 1, n), np.arange(0, n * n, n + 1)
