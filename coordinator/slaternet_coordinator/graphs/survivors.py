"""The graph of a game from which agents depart: from round E on it connects the agents that stay.

It is built like the first one, for their number, their positions mapped in index order. Where no such graph can be
built (a file holds the graph of all, a hypercube is for powers of two) the weight between an agent that stays and one
that has departed goes to the diagonal of the one that stays. Either way W_t is doubly stochastic over all agents, and
over those that stay: an agent that has departed has weight on itself alone.
"""

import functools

import numpy as np

from slaternet.attendance import Attendance
from slaternet.errors import BadSpec, PluginFailed
from slaternet.model import Agents, Array
from slaternet.spec import Spec
from slaternet_coordinator.graphs.base import Batched, Graph, Matrix, stack, union


class Departing(Batched):
    """A graph, and those that replace it as agents depart."""

    def __init__(self, graph: Graph, attendance: Attendance) -> None:
        self.directed = graph.directed
        self._graph = graph
        self._attendance = attendance
        self._smaller: dict[int, Graph | None] = {}

    def matrices(self, first: int, rounds: int) -> Matrix:
        """Return W_t of consecutive rounds, one below the other."""
        last, pieces = first + rounds - 1, []
        while first <= last:
            until = min(self._attendance.until(first), last)
            pieces.append(self._alike(first, until + 1 - first))
            first = until + 1
        return pieces[0] if len(pieces) == 1 else stack(pieces)

    @functools.cached_property
    def audience(self) -> Matrix | None:
        """The union over all departures: so nobody is new in it before the next one is known."""
        agents = len(self._attendance.ends)
        found = self._graph.audience
        if found is None:
            return None
        if not _is_audience(found, agents):  # a user's own
            raise BadSpec(
                f"the graph's audience must be one matrix of all {agents} agents, like those of the rounds; correct "
                "it, or remove `audience`"
            )
        for players in self._attendance.stages()[1:]:
            graph = self._made(len(players))
            if graph is None:  # the edges of the first graph, but for those of agents that have departed
                continue
            if (rest := graph.audience) is None:
                return None
            found = union([found, _widened(rest, players, agents)])
        return found

    def audience_in(self, round: int) -> Matrix | None:
        """Return the audience without the agents that have departed before a round; None: everyone who plays it."""
        if (found := self.audience) is None or self._attendance.full:
            return found
        return _without(found, self._attendance.players(round))

    def _alike(self, first: int, rounds: int) -> Matrix:
        """Return W_t of rounds that the same agents play."""
        players, agents = self._attendance.players(first), len(self._attendance.ends)
        if len(players) == agents:
            return self._graph.matrices(first, rounds)
        graph = self._made(len(players))
        if graph is None:
            return _without(self._graph.matrices(first, rounds), players)
        return _widened(graph.matrices(first, rounds), players, agents)

    def _made(self, agents: int) -> Graph | None:
        if agents not in self._smaller:
            try:
                self._smaller[agents] = None if self._graph.smaller is None else self._graph.smaller(agents)
            except (BadSpec, PluginFailed):  # the numbers of the spec are for the agents of the spec
                self._smaller[agents] = None
        return self._smaller[agents]


def _is_audience(found: object, agents: int) -> bool:
    """Return whether this is a matrix of one round: who may mix whom is looked up in it by place."""
    if not isinstance(found, Matrix) or found.agents != agents:
        return False
    starts, columns, weights = found.starts, found.columns, found.weights
    if not all(isinstance(each, np.ndarray) and each.ndim == 1 for each in (starts, columns, weights)):
        return False
    if starts.dtype.kind not in "iu" or columns.dtype.kind not in "iu" or len(starts) != agents + 1:
        return False
    if starts[0] != 0 or (starts[1:] < starts[:-1]).any() or not starts[-1] == len(columns) == len(weights):
        return False
    rows = found.rows()
    inside = columns.size and 0 <= columns.min() <= columns.max() < agents
    if not inside or (np.diff(rows * agents + columns) <= 0).any():
        return False
    return bool(np.count_nonzero(rows == columns) == agents)


def check_departures(spec: Spec, graph: Graph) -> None:
    """Raise BadSpec where agents cannot depart: the rest of a directed graph may not be doubly stochastic."""
    if graph.directed:
        raise BadSpec(
            f"graph.name = {spec.graph.name} is directed, and agents cannot leave a game on a directed graph; "
            "choose an undirected one"
        )
    if spec.algorithm.mode == "central":
        raise BadSpec(
            "algorithm.mode = central makes one learner of all agents, and none of them can leave the game; "
            "choose another mode"
        )


def _widened(matrix: Matrix, players: Agents, agents: int) -> Matrix:
    """Return the matrix of the agents that play as one over all agents."""
    rounds = matrix.rounds
    rows = (players + agents * np.arange(rounds)[:, None]).ravel()
    lengths = np.ones(rounds * agents, dtype=np.intp)
    lengths[rows] = matrix.lengths
    starts = np.concatenate(([0], np.cumsum(lengths)))
    plays = np.zeros(rounds * agents, dtype=bool)
    plays[rows] = True
    entries = np.repeat(plays, lengths)
    columns = np.repeat(np.tile(np.arange(agents), rounds), lengths)
    columns[entries] = players[matrix.columns]
    weights: Array = np.ones(len(columns))
    weights[entries] = matrix.weights
    return Matrix(agents, starts, columns, weights)


def _without(matrix: Matrix, players: Agents) -> Matrix:
    """Return a matrix in which the agents that have departed have no edges."""
    agents = matrix.agents
    plays = np.zeros(agents, dtype=bool)
    plays[players] = True
    row = matrix.rows()
    diagonal = matrix.columns == row % agents
    lost = ~(plays[matrix.columns] & plays[row % agents]) & ~diagonal
    weights = matrix.weights.copy()
    weights[diagonal] += np.bincount(row[lost], matrix.weights[lost], len(matrix.starts) - 1)
    weights[diagonal & ~plays[row % agents]] = 1.0
    kept = ~lost
    lengths = np.bincount(row[kept], minlength=len(matrix.starts) - 1)
    return Matrix(agents, np.concatenate(([0], np.cumsum(lengths))), matrix.columns[kept], weights[kept])
