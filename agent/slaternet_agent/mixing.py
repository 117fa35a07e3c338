"""What a host knows of one round's graph, the rows that arrived for it, and their mixing: x_i = sum_j [W_t]_ij z_j."""

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array, Topology
from slaternet.streams import stream


@dataclass(frozen=True, slots=True)
class Plan:
    """One round of a topology: the host's rows of W_t, whom it waits for and whom it owes."""

    starts: Agents  # (k + 1,)
    columns: Agents
    weights: Array
    needed: Agents  # agents of other hosts whose rows are mixed here
    debts: tuple[tuple[int, Agents], ...]  # index of a peer, and the own agents it is owed


class Board:
    """The rows of one round, filled in as frames arrive; a row stands at its agent's index."""

    __slots__ = ("_prints", "known", "rows")

    def __init__(self, agents: int, width: int) -> None:
        self.rows: Array = np.zeros((agents, width))
        self.known: NDArray[np.bool_] = np.zeros(agents, dtype=bool)
        self._prints: NDArray[np.uint64] | None = None

    def put(self, agents: Agents, rows: Array) -> bool:
        """Take rows in; False where a row that is already here differs in one bit."""
        if self._prints is not None:
            return self._compare(self._prints, agents, prints(rows))
        double = self.known[agents]
        if np.count_nonzero(double) and self.rows[agents[double]].tobytes() != rows[double].tobytes():
            return False
        self.rows[agents] = rows
        self.known[agents] = True
        return True

    def settle(self) -> None:
        """Keep no more of the rows than it takes to compare others with them: they have been mixed."""
        if self._prints is None:
            self._prints = prints(self.rows)
            self.rows = self.rows[:0].copy()

    def _compare(self, kept: NDArray[np.uint64], agents: Agents, new: NDArray[np.uint64]) -> bool:
        double = self.known[agents]
        if (kept[agents[double]] != new[double]).any():
            return False
        kept[agents] = new
        self.known[agents] = True
        return True


def prints(rows: Array) -> NDArray[np.uint64]:
    """Return a number for each row that is another for a row of other bits: always where one entry differs.

    A sum of odd multiples modulo 2^64: no factor takes a difference to 0, and factors drawn at random leave two
    differences one chance in 2^64 to cancel.
    """
    total: NDArray[np.uint64] = rows.view(np.uint64) @ _factors(rows.shape[-1])  # whole numbers: exact, and no BLAS
    return total


@functools.cache
def _factors(width: int) -> NDArray[np.uint64]:
    return stream(0, "prints").integers(0, 1 << 64, width, dtype=np.uint64) | np.uint64(1)


class Gossip:
    """The rows an algorithm may read in one round; what it does not read is not computed."""

    __slots__ = ("_board", "_matrix")

    def __init__(self, matrix: csr_array, board: Board) -> None:
        self._matrix = matrix
        self._board = board

    @property
    def mixed(self) -> Array:
        """The host's rows of W_t times the rows received, each summed in index order: exact under any batching."""
        product: Array = self._matrix @ self._board.rows
        return product

    @property
    def received(self) -> Array:
        """Every agent's row, in index order, (n, width); only on the complete graph, whoever sits where.

        On other graphs a host knows what its agents hear together: what an algorithm made of that would depend on the
        seating, and with it the digest.
        """
        if self._matrix.nnz != self._matrix.shape[0] * self._matrix.shape[1]:
            raise ValueError('received is for the complete graph; use mixed, or set graph.name = "complete"')
        return self._board.rows


class Mixer:
    """Makes a round's gossip from its plan and board."""

    def __init__(self, seats: int, agents: int) -> None:
        self._matrix = csr_array((seats, agents))

    def gossip(self, plan: Plan, board: Board) -> Gossip:
        """Return what the algorithm may read; valid until the next call."""
        # One matrix is refilled: building a csr_array anew costs three times the product itself.
        self._matrix.data, self._matrix.indices, self._matrix.indptr = plan.weights, plan.columns, plan.starts
        return Gossip(self._matrix, board)


def plans(topology: Topology, seats: Agents, agents: int, peers: int) -> list[Plan]:
    """Cut a topology into rounds, having checked the host's own rows of every W_t (its part of Assumption 4)."""
    _check_rows(topology, seats, agents)
    debts = _debts(topology, seats, agents, peers)
    k, rounds = len(seats), topology.rounds
    cuts = topology.starts[::k]  # where each round's entries begin
    needed = _needed(topology, cuts, seats, agents)
    result = []
    for offset in range(rounds):
        low, high = cuts[offset], cuts[offset + 1]
        starts = topology.starts[offset * k : (offset + 1) * k + 1] - low
        columns, weights = topology.columns[low:high], topology.weights[low:high]
        result.append(Plan(starts, columns, weights, needed[offset], tuple(debts[offset])))
    return result


def _needed(topology: Topology, cuts: Agents, seats: Agents, agents: int) -> list[Agents]:
    """Return for each round the agents seated elsewhere whose rows are mixed here."""
    if len(seats) == agents:
        return [np.empty(0, dtype=np.intp)] * topology.rounds
    wanted = np.zeros((topology.rounds, agents), dtype=bool)
    wanted[np.repeat(np.arange(topology.rounds), np.diff(cuts)), topology.columns] = True
    wanted[:, seats] = False
    offsets, who = np.nonzero(wanted)
    return np.split(who, np.searchsorted(offsets, np.arange(1, topology.rounds)))


def _debts(topology: Topology, seats: Agents, agents: int, peers: int) -> list[list[tuple[int, Agents]]]:
    """Return for each round the peers that are owed rows, and whose: the debts of a topology ascend."""
    owed: list[list[tuple[int, Agents]]] = [[] for _ in range(topology.rounds)]
    rounds, to, who = topology.debts[:, 0], topology.debts[:, 1], np.ascontiguousarray(topology.debts[:, 2])
    if not len(who):
        return owed
    own = np.zeros(agents, dtype=bool)
    own[seats] = True
    if who.max() >= agents or not own[who].all() or to.max() >= peers:
        raise Malformed("a host owes rows of its own agents to hosts of the game")
    firsts = np.flatnonzero(np.diff(rounds * peers + to, prepend=-1))
    lasts = np.append(firsts[1:], len(who))
    for round, peer, first, last in zip(rounds[firsts].tolist(), to[firsts].tolist(), firsts, lasts, strict=True):
        owed[round].append((peer, who[first:last]))
    return owed


def _check_rows(topology: Topology, seats: Agents, agents: int) -> None:
    """Rows of W_t that do not average would leave the feasible set unnoticed: refuse them before they are used.

    That a topology is made of rows of positive weights is checked where it is decoded.
    """
    starts, columns, weights = topology.starts, topology.columns, topology.weights
    rows, lengths = np.tile(seats, topology.rounds), np.diff(starts)
    if len(lengths) != len(rows):
        raise Malformed("a topology must hold one row per seat and round")
    if columns.max() >= agents:
        raise Malformed("the columns of a row of W_t must be agents of the game")
    if np.count_nonzero(columns == np.repeat(rows, lengths)) != len(rows):
        raise Malformed("a row of W_t needs a positive diagonal")
    if np.abs(np.add.reduceat(weights, starts[:-1]) - 1.0).max() > LIMITS.stochastic:
        raise Malformed(f"a row of W_t must sum to 1 within {LIMITS.stochastic:g}")
