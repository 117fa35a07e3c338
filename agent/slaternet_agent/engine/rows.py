"""The rows of one round as they arrive, and their mixing: x_i = sum_j [W_t]_ij z_j."""

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from slaternet.model import Agents, Array
from slaternet.numerics.randomness import stream
from slaternet_agent.engine.round_plan import RoundPlan


class RowTable:
    """The rows of one round, filled in as frames arrive; a row stands at its agent's index."""

    __slots__ = ("_prints", "known", "rows")

    def __init__(self, agents: int, width: int) -> None:
        self.rows: Array = np.zeros((agents, width))
        self.known: NDArray[np.bool_] = np.zeros(agents, dtype=bool)
        self._prints: NDArray[np.uint64] | None = None

    def put(self, agents: Agents, rows: Array) -> bool:
        """Store rows; False where a row that is already here differs in one bit."""
        if self._prints is not None:
            return self._compare(self._prints, agents, row_hashes(rows))
        double = self.known[agents]
        if np.count_nonzero(double) and self.rows[agents[double]].tobytes() != rows[double].tobytes():
            return False
        self.rows[agents] = rows
        self.known[agents] = True
        return True

    def settle(self) -> None:
        """Keep only hashes of the rows, to compare duplicates with: they have been mixed."""
        if self._prints is None:
            self._prints = row_hashes(self.rows)
            self.rows = self.rows[:0].copy()

    def _compare(self, kept: NDArray[np.uint64], agents: Agents, new: NDArray[np.uint64]) -> bool:
        double = self.known[agents]
        if (kept[agents[double]] != new[double]).any():
            return False
        kept[agents] = new
        self.known[agents] = True
        return True


def row_hashes(rows: Array) -> NDArray[np.uint64]:
    """Return a number for each row that is another for a row of other bits: always where one entry differs.

    A sum of odd multiples modulo 2^64: no factor takes a difference to 0, and factors drawn at random leave two
    differences one chance in 2^64 to cancel.
    """
    total: NDArray[np.uint64] = rows.view(np.uint64) @ _factors(rows.shape[-1])  # whole numbers: exact, and no BLAS
    return total


@functools.cache
def _factors(width: int) -> NDArray[np.uint64]:
    return stream(0, "prints").integers(0, 1 << 64, width, dtype=np.uint64) | np.uint64(1)


@dataclass(frozen=True, slots=True)
class RoundGossip:
    """The rows that an algorithm may read in one round; only what it reads is computed."""

    _matrix: csr_array
    _board: RowTable

    @property
    def mixed(self) -> Array:
        """The host's rows of W_t times the rows received, each summed in index order: exact under any batching."""
        product: Array = self._matrix @ self._board.rows
        return product

    @property
    def received(self) -> Array:
        """Every agent's row, in index order, (n, width); only on the complete graph.

        On other graphs a host knows the rows that its agents receive together: what an algorithm computed from them
        would depend on the seating, and with it the digest.
        """
        if self._matrix.nnz != self._matrix.shape[0] * self._matrix.shape[1]:
            raise ValueError('received is for the complete graph; use mixed, or set graph.name = "complete"')
        return self._board.rows


class Mixer:
    """Makes a round's gossip from its plan and board."""

    def __init__(self, seats: int, agents: int) -> None:
        self._matrix = csr_array((seats, agents))

    def gossip(self, plan: RoundPlan, board: RowTable) -> RoundGossip:
        """Return what the algorithm may read; valid until the next call."""
        # One matrix is refilled: building a csr_array anew costs three times the product itself.
        self._matrix.data, self._matrix.indices, self._matrix.indptr = plan.weights, plan.columns, plan.starts
        return RoundGossip(self._matrix, board)
