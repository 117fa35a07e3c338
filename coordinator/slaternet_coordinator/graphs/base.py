"""A time-varying graph and its weights.

    W_t    Matrix   weights[starts[i] : starts[i + 1]] are what agent i gives to the agents of the same slice of
                    `columns`, which ascends and contains i itself

A matrix may hold several rounds one below the other: row r n + i is agent i's in the r-th of them. A graph is built as
Graph(agents, seed, **numbers) and asked for any rounds, in any order. The random ones draw round t from the stream with
block t of a purpose of their own, so that the spec determines them, and make the matrices of many rounds at a time,
because numpy's calls cost more than the numbers of one round.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array


@dataclass(frozen=True, slots=True)
class Matrix:
    """W_t of one round, or of several in a row, by rows (CSR); columns ascend within a row, the diagonal is there."""

    agents: int
    starts: Agents  # (rounds * agents + 1,)
    columns: Agents  # (nonzeros,)
    weights: Array  # (nonzeros,)

    @property
    def rounds(self) -> int:
        """How many rounds it holds."""
        return (len(self.starts) - 1) // self.agents

    @property
    def lengths(self) -> Agents:
        """The number of entries of every row."""
        return self.starts[1:] - self.starts[:-1]

    def rows(self) -> Agents:
        """Return the row of every entry."""
        return np.repeat(np.arange(len(self.starts) - 1), self.lengths)

    def split(self) -> list["Matrix"]:
        """Return its rounds one by one."""
        rounds = []
        for row in range(0, len(self.starts) - 1, self.agents):
            starts = self.starts[row : row + self.agents + 1]
            entries = slice(starts[0], starts[-1])
            rounds.append(Matrix(self.agents, starts - starts[0], self.columns[entries], self.weights[entries]))
        return rounds

    def dense(self) -> Array:
        """Return the rounds as (n, n) each, one below the other."""
        full = np.zeros((len(self.starts) - 1, self.agents))
        full[self.rows(), self.columns] = self.weights
        return full


class Graph(abc.ABC):
    """A time-varying weighted graph. Subclass it and implement `matrix`, or `matrices` too where that is cheaper."""

    directed: bool = False
    """Whether j may send to i in a round in which i does not send to j."""
    smaller: "Callable[[int], Graph] | None" = None
    """Makes such a graph for fewer agents, where one can be made."""

    @property
    def audience(self) -> Matrix | None:
        """Who may ever mix whom: a matrix with an entry wherever some W_t has one; None: everyone may mix everyone."""
        return None

    @abc.abstractmethod
    def matrix(self, t: int) -> Matrix:
        """Return W_t, doubly stochastic; t = 1, 2, 3, ..."""

    def matrices(self, first: int, rounds: int) -> Matrix:
        """Return W_t of consecutive rounds, one below the other."""
        return stack([self.matrix(t) for t in range(first, first + rounds)])


class Batched(Graph):
    """A graph that makes many rounds at a time. Subclass it and implement `matrices`."""

    def matrix(self, t: int) -> Matrix:
        """Return W_t."""
        return self.matrices(t, 1)

    @abc.abstractmethod
    def matrices(self, first: int, rounds: int) -> Matrix:
        """Return W_t of consecutive rounds, one below the other."""


class Periodic(Graph):
    """Matrices that take turns, W_t = cycle[(t - 1) mod B]; a single one makes a constant graph."""

    def __init__(self, cycle: Sequence[Matrix]) -> None:
        self._cycle = cycle

    def matrix(self, t: int) -> Matrix:
        """Return W_t."""
        return self._cycle[(t - 1) % len(self._cycle)]

    @functools.cached_property
    def audience(self) -> Matrix:
        """The union of the cycle."""
        return union(self._cycle)


def stack(matrices: Sequence[Matrix]) -> Matrix:
    """Return several matrices one below the other."""
    lengths = np.concatenate([matrix.lengths for matrix in matrices])
    return Matrix(
        matrices[0].agents,
        np.concatenate(([0], np.cumsum(lengths))),
        np.concatenate([matrix.columns for matrix in matrices]),
        np.concatenate([matrix.weights for matrix in matrices]),
    )


def union(matrices: Sequence[Matrix]) -> Matrix:
    """Return the mean of matrices of one round each: it has an entry wherever one of them has."""
    agents = matrices[0].agents
    keys, places = np.unique(
        np.concatenate([matrix.rows() * agents + matrix.columns for matrix in matrices]), return_inverse=True
    )
    weights = np.bincount(places, np.concatenate([matrix.weights for matrix in matrices])) / len(matrices)
    rows, columns = np.divmod(keys, agents)
    return Matrix(agents, rows.searchsorted(np.arange(agents + 1)), columns, weights)


def check_edges(agents: int, entries: float) -> None:
    """Refuse, before it takes any memory, a graph of more entries a round than a game may have."""
    if entries > LIMITS.edges:
        raise BadSpec(
            f"graph.name gives {agents} agents about {entries:.3g} weights a round, more than {LIMITS.edges}; lower "
            "run.agents, or name a graph with fewer edges"
        )
