"""The rows of one round as they arrive, and their mixing: x_i = sum_j [W_t]_ij z_j."""

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from slaternet.limits import Limits
from slaternet.model import Agents, Array
from slaternet.numerics.randomness import stream
from slaternet_agent.algorithms.base import Gossip
from slaternet_agent.engine.round_plan import RoundPlan


class RowTable:
    """The rows of one round, filled in as frames arrive; a row stands at its agent's index.

    A row that is disputed changes by a ruling alone.
    """

    __slots__ = ("_count", "_disputed", "_first", "_prints", "known", "rows")

    def __init__(self, agents: int, width: int) -> None:
        self.rows: Array = np.zeros((agents, width))
        self.known: NDArray[np.bool_] = np.zeros(agents, dtype=bool)
        self._count = 0  # of the rows that are known, until they are mixed
        self._prints: NDArray[np.uint64] | None = None
        self._disputed: NDArray[np.bool_] | None = None
        self._first: NDArray[np.bool_] = self.known  # whether there was a row when it was disputed

    def add(self, agents: Agents | slice, rows: Array) -> None:
        """Store rows of agents none of whose rows is here."""
        self.rows[agents] = rows
        self.known[agents] = True
        self._count += len(rows)

    def lacks(self, needed: Agents, own: int) -> bool:
        """Return whether one of the rows needed is missing, when `own` others are here."""
        # rows are counted, because this is asked after every frame; nearly always nothing else has come than is needed
        missing = len(needed) + own - self._count
        return missing > 0 or int(np.count_nonzero(self.known[needed])) < len(needed)

    def forget(self, agents: Agents) -> None:
        """Count rows as missing that cannot be right."""
        self.known[agents] = False
        self._count = int(np.count_nonzero(self.known))

    def put(self, agents: Agents, rows: Array) -> NDArray[np.bool_] | None:
        """Store rows that are new; return which differ in one bit from those that are here, None where none does."""
        if self._prints is not None:
            return self._put_hashes(self._prints, agents, row_hashes(rows))
        double = self.known[agents]
        if self._disputed is not None:
            double |= self._disputed[agents]
        if not np.count_nonzero(double):
            self.add(agents, rows)
            return None
        differs = self._differs(agents, (self.rows[agents].view(np.uint64) != rows.view(np.uint64)).any(axis=1))
        self.add(agents[~double], rows[~double])
        return differs

    def settle(self) -> None:
        """Keep only hashes of the rows, to compare duplicates with: they have been mixed."""
        if self._prints is None:
            self._prints = row_hashes(self.rows)
            self.rows = self.rows[:0].copy()

    def undisputed(self, agents: Agents, rows: Array) -> tuple[Agents, Array]:
        """Return those of some rows that are not disputed."""
        if self._disputed is None:
            return agents, rows
        new = ~self._disputed[agents]
        return agents[new], rows[new]

    def dispute(self, agents: Agents, *, mixed: bool) -> None:
        """Change these rows by a ruling alone; until then those that are not mixed yet count as missing."""
        if self._disputed is None:
            self._disputed, self._first = np.zeros((2, len(self.known)), dtype=bool)
        self._disputed[agents] = True
        self._first[agents] = self.known[agents]
        if not mixed:
            self.forget(agents)

    def rule(self, agents: Agents, rows: Array | None, *, mixed: bool) -> bool:
        """Use these rows for disputed ones, or without any those that came first; return whether others were mixed.

        Where nothing came before the dispute, the row stays missing, and the next one is taken.
        """
        if mixed:
            kept = self._prints[agents] if self._prints is not None else row_hashes(self.rows[agents])
            return rows is not None and bool((kept != row_hashes(rows))[self.known[agents]].any())
        if rows is not None:
            self.rows[agents] = rows
        elif self._disputed is not None:
            self._disputed[agents] = self._first[agents]
        self.known[agents] = True if rows is not None else self._first[agents]
        self._count = int(np.count_nonzero(self.known))
        return False

    def _differs(self, agents: Agents, unequal: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """Return which known rows differ, and are not disputed already; None where none does."""
        differs = unequal & self.known[agents]
        if self._disputed is not None:
            differs &= ~self._disputed[agents]
        return differs if differs.any() else None

    def _put_hashes(
        self, kept: NDArray[np.uint64], agents: Agents, new: NDArray[np.uint64]
    ) -> NDArray[np.bool_] | None:
        differs, double = self._differs(agents, kept[agents] != new), self.known[agents]
        kept[agents[~double]] = new[~double]
        self.known[agents[~double]] = True
        return differs


def sendable(rows: Array, limits: Limits) -> Array:
    """Return rows, or as many without numbers where they do not fit into one message to the coordinator."""
    return rows if rows.nbytes <= limits.part_bytes else rows[:, :0]


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
class RoundGossip(Gossip):
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

    @property
    def starts(self) -> Agents:
        """Where each agent's in-neighbours begin, (k + 1,)."""
        starts: Agents = self._matrix.indptr
        return starts

    @property
    def columns(self) -> Agents:
        """The in-neighbours of each agent, itself among them, in index order, (nnz,)."""
        columns: Agents = self._matrix.indices
        return columns

    @property
    def weights(self) -> Array:
        """Their weights, (nnz,)."""
        weights: Array = self._matrix.data
        return weights

    @property
    def rows(self) -> Array:
        """Their rows, (nnz, width)."""
        return self._board.rows.take(self.columns, axis=0)


class Mixer:
    """Makes a round's gossip from its plan and board."""

    def __init__(self, seats: int, agents: int) -> None:
        self._matrix = csr_array((seats, agents))

    def matrix(self, plan: RoundPlan) -> csr_array:
        """Return the host's rows of W_t, (k, n); valid until the next call."""
        # One matrix is refilled: building a csr_array anew costs three times the product itself.
        self._matrix.data, self._matrix.indices, self._matrix.indptr = plan.weights, plan.columns, plan.starts
        return self._matrix

    def gossip(self, plan: RoundPlan, board: RowTable) -> RoundGossip:
        """Return what the algorithm may read; valid until the next call."""
        return RoundGossip(self.matrix(plan), board)
