"""Cutting W_t by hosts: each host gets the rows of its own agents, and the list of rows that it must send.

In a game whose gossip code remembers, an agent's row is sent in every round to all that may ever mix it, not only to
those that do in this round: what they know of the agent follows from all its messages.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from slaternet.attendance import Attendance
from slaternet.errors import BadSpec
from slaternet.limits import Limits
from slaternet.model import Agents, Topology
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.graphs.assumption4 import check
from slaternet_coordinator.graphs.base import Matrix
from slaternet_coordinator.graphs.survivors import Departing


class Cutter:
    """Cuts a graph, as many rounds at a time as fit into one message.

    Where the gossip code `remembers`, what is owed is the same in all rounds of a message, and stated for the first.
    """

    def __init__(self, graph: Graph, limits: Limits, attendance: Attendance, *, remembers: bool = False) -> None:
        self._attendance = attendance
        self._remembers = remembers
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
            yield cut(first, matrix, rows, low_water, self._standing_debts(first, matrix, players))
            first += matrix.rounds
            # an entry takes 12 bytes and, off the diagonal, at most 12 more as a debt; a row 4
            fitting = self._limits.part_bytes * matrix.rounds // (24 * len(matrix.columns))
            self._batch = max(1, min(fitting, self._limits.window // 4))

    def _standing_debts(self, first: int, matrix: Matrix, players: Sequence[Agents]) -> list[Agents] | None:
        """Return what hosts owe in every round of a matrix because the code remembers; None where it does not."""
        if not self._remembers:
            return None
        audience = self._graph.audience_in(first)
        if audience is None:
            return _everyone(players)
        _check_audience(matrix, first, audience)
        return _debts(audience, players)

    def owed_to(self, seats: Agents, round: int) -> Agents:
        """Return the agents whose rows are sent to some agents, or are theirs, in a round."""
        matrix = self._graph.audience_in(round) if self._remembers else self._graph.matrices(round, 1)
        if matrix is None:
            return self._attendance.players(round)
        own = np.isin(matrix.rows(), self._attendance.of(seats, round))
        return np.unique(matrix.columns[own])


def cut(
    first: int, matrix: Matrix, seats: Sequence[Agents], low_water: int, standing: list[Agents] | None = None
) -> list[Topology]:
    """Return one topology per host for the consecutive rounds of a matrix, all rounds and hosts handled at once.

    `standing` is what each host owes in all of them; None: what the others mix of its rows.
    """
    rounds, debts = matrix.rounds, _debts(matrix, seats) if standing is None else standing
    if len(seats) == 1 and len(seats[0]) == matrix.agents:
        return [Topology(first, rounds, matrix.starts, matrix.columns, matrix.weights, debts[0], low_water)]
    below = matrix.agents * np.arange(rounds)[:, None]
    rows = np.concatenate([(below + own).ravel() for own in seats])  # host by host, and each host's round by round
    lengths = matrix.lengths[rows]
    ends = np.concatenate(([0], lengths.cumsum()))
    entries = np.arange(ends[-1]) + np.repeat(matrix.starts[rows] - ends[:-1], lengths)
    columns, weights = matrix.columns[entries], matrix.weights[entries]
    topologies, row = [], 0
    for own, owed in zip(seats, debts, strict=True):
        starts = ends[row : row + rounds * len(own) + 1]
        low, high, row = int(starts[0]), int(starts[-1]), row + rounds * len(own)
        topologies.append(Topology(first, rounds, starts - low, columns[low:high], weights[low:high], owed, low_water))
    return topologies


def _everyone(seats: Sequence[Agents]) -> list[Agents]:
    """Return per host the triples of a round in which all that play are sent each other's rows."""
    debts = []
    for host, own in enumerate(seats):
        peers = np.array([to - (to > host) for to, others in enumerate(seats) if to != host and others.size], np.intp)
        owed = np.zeros((len(peers) * len(own), 3), dtype=np.intp)
        owed[:, 1], owed[:, 2] = np.repeat(peers, len(own)), np.tile(own, len(peers))
        debts.append(owed)
    return debts


def _check_audience(matrix: Matrix, first: int, audience: Matrix) -> None:
    """Refuse a round that mixes rows which nobody would send: those who mix them would wait forever."""
    agents = matrix.agents
    row = matrix.rows()
    keys = audience.rows() * agents + audience.columns
    wanted = row % agents * agents + matrix.columns
    beyond = np.flatnonzero(keys[np.minimum(keys.searchsorted(wanted), len(keys) - 1)] != wanted)
    if beyond.size:
        at = beyond[0]
        raise BadSpec(
            f"in round {first + row[at] // agents} agent {row[at] % agents} mixes the row of agent "
            f"{matrix.columns[at]}, and the graph's audience has no such entry; add it, or remove `audience`"
        )


def _debts(matrix: Matrix, seats: Sequence[Agents]) -> list[Agents]:
    """Return per host the sorted triples (round offset, index of the peer, own agent) of the rows it must send."""
    hosts, rounds, agents = len(seats), matrix.rounds, matrix.agents
    if hosts == 1:
        return [np.empty((0, 3), dtype=np.intp)]
    owner = np.full(agents, -1, dtype=np.intp)  # agents that have departed are owed no rows
    for host, own in enumerate(seats):
        owner[own] = host
    receiver = np.repeat(np.tile(owner, rounds), matrix.lengths)
    offset = np.repeat(np.arange(rounds), np.diff(matrix.starts[::agents]))
    key = ((offset * hosts + receiver) * agents + matrix.columns)[receiver != owner[matrix.columns]]
    if (possible := rounds * hosts * agents) <= 16 * len(matrix.columns):  # a table that large costs less than to sort
        owed = np.zeros(possible, dtype=bool)
        owed[key] = True
        key = np.flatnonzero(owed)
    else:
        key = np.unique(key)
    rest, agent = np.divmod(key, agents)
    at, to = np.divmod(rest, hosts)
    by = owner[agent]
    order = by.argsort(kind="stable")
    # a host's peers are all hosts but itself, in order
    triples = np.stack((at, to - (to > by), agent), axis=1)[order]
    ends = by[order].searchsorted(np.arange(hosts + 1)).tolist()
    return [triples[low:high] for low, high in itertools.pairwise(ends)]
