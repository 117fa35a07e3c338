"""W_t of every round: doubly stochastic, and how many in a row connect all agents that play."""

from dataclasses import dataclass, field

import numpy as np

from slaternet.attendance import Attendance
from slaternet.errors import BadSpec
from slaternet.model import Agents, Array
from slaternet.spec import Spec
from slaternet_coordinator.graphs import Matrix, assumption4
from slaternet_coordinator.graphs.survivors import Departing
from slaternet_coordinator.registry import build
from slaternet_lab.audit.report import AuditCheck


@dataclass(slots=True)
class _Stretch:
    """Rounds that the same agents play."""

    first: int
    players: Agents
    everyone: bool
    windows: assumption4.Windows = field(default_factory=assumption4.Windows)

    def add(self, matrix: Matrix, round: int) -> None:
        starts, columns, weights = rows_of(matrix, self.players)
        block = Matrix(len(self.players), starts, np.searchsorted(self.players, columns), weights)
        self.windows.add(block, round + 1 - self.first)

    def __str__(self) -> str:
        window = self.windows.smallest
        text = f"any {window} in a row connect" if window else "not even all together connect"
        return f"{text} everyone" if self.everyone else f"from round {self.first} on {text} those who stay"


class Graphs:
    """The graph of a game, made again round by round."""

    def __init__(self, spec: Spec, check: AuditCheck) -> None:
        self._check = check
        self._all = build(spec.graph, spec.run.agents, spec.run.seed)
        self._attendance = Attendance(spec.run.agents)
        self._graph = Departing(self._all, self._attendance)
        self._stretches: list[_Stretch] = []

    def matrix(self, round: int, attendance: Attendance) -> Matrix:
        """Return W_t of a round, the one after the last, checked."""
        if self._attendance is not attendance:
            self._attendance, self._graph = attendance, Departing(self._all, attendance)
        matrix, players = self._graph.matrix(round), attendance.players(round)
        if not self._stretches or not np.array_equal(self._stretches[-1].players, players):
            self._stretches.append(_Stretch(round, players, len(players) == matrix.agents))
        self._stretches[-1].add(matrix, round)
        self._check.count += 1
        try:
            assumption4.check(matrix, round)
        except BadSpec as error:
            self._check.differs(str(error), round=round)
        return matrix

    def __str__(self) -> str:
        return "; ".join(map(str, self._stretches))


def rows_of(matrix: Matrix, agents: Agents) -> tuple[Agents, Agents, Array]:
    """Return the rows of some agents: starts, columns and weights."""
    if len(agents) == matrix.agents:
        return matrix.starts, matrix.columns, matrix.weights
    own = np.isin(matrix.rows(), agents)
    starts = np.concatenate(([0], np.cumsum(matrix.lengths[agents])))
    return starts, matrix.columns[own], matrix.weights[own]
