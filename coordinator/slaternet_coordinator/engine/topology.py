"""Cutting W_t by hosts: each host gets the rows of its own agents, and the list of rows that it must send."""

from collections.abc import Iterator, Sequence

import numpy as np

from slaternet.attendance import Attendance
from slaternet.limits import Limits
from slaternet.model import Agents, Topology
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.graphs.assumption4 import check
from slaternet_coordinator.graphs.base import Matrix
from slaternet_coordinator.graphs.survivors import Departing


class Cutter:
    """Cuts a graph, as many rounds at a time as fit into one message."""

    def __init__(self, graph: Graph, limits: Limits, attendance: Attendance) -> None:
        self._attendance = attendance
        self._graph = Departing(graph, attendance)
        self._limits = limits
        self._batch = 1  # rounds per message, until their size is known

    def cut(self, first: int, last: int, seats: Sequence[Agents], low_water: int) -> Iterator[list[Topology]]:
        """Yield the topologies of all hosts, batch by batch; a matrix larger than a message travels alone."""
        while first <= last:
            until = min(last, self._attendance.until(first))
            matrix = self._graph.matrices(first, min(self._batch, until + 1 - first))
            check(matrix, first)
            # of each host the agents that play the round; where all have departed, all: each has weight on itself alone
            players = [self._attendance.of(own, first) for own in seats]
            rows = [some if some.size else own for some, own in zip(players, seats, strict=True)]
            yield cut(first, matrix, rows, low_water)
            first += matrix.rounds
            # an entry takes 12 bytes and, off the diagonal, at most 12 more as a debt; a row 4
            fitting = self._limits.part_bytes * matrix.rounds // (24 * len(matrix.columns))
            self._batch = max(1, min(fitting, self._limits.window // 4))

    def mixed_by(self, seats: Agents, round: int) -> Agents:
        """Return the agents whose rows some agents mix in a round."""
        matrix = self._graph.matrices(round, 1)
        own = np.isin(matrix.rows(), self._attendance.of(seats, round))
        return np.unique(matrix.columns[own])


def cut(first: int, matrix: Matrix, seats: Sequence[Agents], low_water: int) -> list[Topology]:
    """Return one topology per host for the consecutive rounds of a matrix, all rounds handled at once."""
    debts = _debts(matrix, seats)
    return [_rows(first, matrix, own, debts[host], low_water) for host, own in enumerate(seats)]


def _rows(first: int, matrix: Matrix, own: Agents, debts: Agents, low_water: int) -> Topology:
    """Return one host's rows: slices, because agents seated side by side have their rows side by side."""
    if len(own) == matrix.agents:
        return Topology(first, matrix.rounds, matrix.starts, matrix.columns, matrix.weights, debts, low_water)
    runs = [(run[0], run[-1] + 1) for run in np.split(own, np.flatnonzero(np.diff(own) > 1) + 1)]
    rounds, n = matrix.rounds, matrix.agents
    pieces = [matrix.starts[r * n + low : r * n + high + 1] for r in range(rounds) for low, high in runs]
    lengths = np.concatenate([starts[1:] - starts[:-1] for starts in pieces])
    columns = np.concatenate([matrix.columns[starts[0] : starts[-1]] for starts in pieces])
    weights = np.concatenate([matrix.weights[starts[0] : starts[-1]] for starts in pieces])
    return Topology(first, rounds, np.concatenate(([0], np.cumsum(lengths))), columns, weights, debts, low_water)


def _debts(matrix: Matrix, seats: Sequence[Agents]) -> list[Agents]:
    """Return per host the sorted triples (round offset, index of the peer, own agent) of the rows it must send."""
    hosts, rounds, agents = len(seats), matrix.rounds, matrix.agents
    if hosts == 1:
        return [np.empty((0, 3), dtype=np.intp)]
    owner = np.full(agents, -1, dtype=np.intp)  # agents that have departed are owed no rows
    for host, own in enumerate(seats):
        owner[own] = host
    receiver, sender = np.repeat(np.tile(owner, rounds), matrix.lengths), owner[matrix.columns]
    offset = np.repeat(np.arange(rounds), np.diff(matrix.starts[::agents]))
    crossing = receiver != sender
    key = ((sender * rounds + offset) * hosts + receiver) * agents + matrix.columns
    rest, agent = np.divmod(np.unique(key[crossing]), agents)
    rest, to = np.divmod(rest, hosts)
    by, at = np.divmod(rest, rounds)
    # a host's peers are all hosts but itself, in order
    triples = np.stack((at, to - (to > by), agent), axis=1)
    return np.split(triples, np.searchsorted(by, np.arange(1, hosts)))
