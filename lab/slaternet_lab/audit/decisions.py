"""Every decision made once more by its algorithm, from nothing but W_t and the values that were journalled.

A round is compared bit for bit with what the algorithm asks. Its state then goes on with the journalled values, so that
a difference is named in the first round that it shows in; later rounds rest on that one, and are not compared.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import SlaternetError
from slaternet.model import Agents, Array, Description, Question
from slaternet.spec import Spec
from slaternet.spec.plugins import plugin_edge
from slaternet_agent.algorithms import Algorithm, state_vector
from slaternet_agent.engine.questions import question_of
from slaternet_agent.engine.round_plan import RoundPlan
from slaternet_agent.engine.rows import Mixer, RowTable
from slaternet_agent.shell.build import build_algorithm
from slaternet_coordinator.graphs import Matrix
from slaternet_lab.audit.graphs import rows_of
from slaternet_lab.audit.purchases import Sheet
from slaternet_lab.audit.report import AuditCheck

_WORDS = {"loss_gradient": "the loss's gradient", "constraint_gradient": "the constraints' gradients"}


class _Learners:
    """All who play at one host: what is computed of an agent does not depend on where it sits."""

    def __init__(self, spec: Spec, constraints: int) -> None:
        self._name = spec.algorithm.name
        self._agents: Agents = np.arange(spec.run.agents)
        self._algorithm: Algorithm = build_algorithm(spec, Description(constraints=constraints))
        self._mixer = Mixer(len(self._agents), spec.run.agents)
        self._state = self._algorithm.start(self._agents)

    def _leave(self, matrix: Matrix, players: Agents) -> None:
        """Let go of those who do not play any more."""
        if len(players) < len(self._agents):
            self._state = state_vector.taken(self._algorithm, self._state, players)
            self._agents, self._mixer = players, Mixer(len(players), matrix.agents)

    def differences(self, round: int, matrix: Matrix, sheet: Sheet) -> list[tuple[int, int, str]]:
        """Return record, agent and what, wherever a question is not the algorithm's; if none is, learn the values."""
        self._leave(matrix, np.flatnonzero(sheet.decided))
        board = RowTable(matrix.agents, self._algorithm.width)
        board.put(self._agents, self._algorithm.outgoing(self._state, round))
        plan = RoundPlan(*rows_of(matrix, self._agents), self._agents[:0], ())
        decision = self._algorithm.decide(self._state, self._mixer.gossip(plan, board), round)
        expected = question_of(decision, self._algorithm.feedback, round, self._agents)
        found = [
            (record, agent, what)
            for record, purchase in sheet.purchases
            for agent, what in _differences(purchase.asked.question, expected, self._name)
        ]
        if not found:
            self._state = self._algorithm.update(self._state, decision, sheet.seen(), round)
        return found


class Decisions:
    """The decisions of a game, compared round by round."""

    def __init__(self, spec: Spec, check: AuditCheck) -> None:
        self._spec = spec
        self._check = check
        self._learners: _Learners | None = None

    def compare(self, round: int, matrix: Matrix, sheet: Sheet) -> None:
        """Compare a round, the one after the last that was."""
        if self._check.reason:
            return
        try:
            with plugin_edge("algorithm", self._spec.algorithm.name, f"round {round}"):
                if self._learners is None:
                    self._learners = _Learners(self._spec, sheet.purchases[0][1].values.g.shape[2])
                found = self._learners.differences(round, matrix, sheet)
        except SlaternetError as error:
            self._check.reason = f"from round {round} on not checked: {error}"
            return
        self._check.count += int(sheet.decided.sum())
        for record, agent, what in found:
            self._check.differs(what, record=record, round=round, agent=agent)
        if found:
            self._check.reason = f"those after round {round} rest on it, and were not checked"


def _differences(question: Question, expected: Question, algorithm: str) -> Iterator[tuple[int, str]]:
    """Yield the agents whose question is not the expected one, and in what."""
    first = int(question.agents[0])
    for flag, name in _WORDS.items():
        if getattr(question, flag) != getattr(expected, flag):
            yield first, f"whether it asks for {name} is not as {algorithm} does"
            return
    pairs = [("x", question.x, expected.x), ("a point", question.points, expected.points)]
    if question.anchor is not None and expected.anchor is not None:
        pairs.append(("the anchor", question.anchor, expected.anchor))
    named: set[int] = set()
    for name, found, all_rows in pairs:
        due = all_rows[np.searchsorted(expected.agents, question.agents)]
        if found.shape != due.shape:
            yield first, f"it asks about {found.shape[1]} points, and {algorithm} about {due.shape[1]}"
            return
        for row in np.flatnonzero((_bits(found) != _bits(due)).reshape(len(due), -1).any(axis=1)):
            if (agent := int(question.agents[row])) not in named:
                named.add(agent)
                one, other = _first(found[row], due[row])
                yield agent, f"{name} has a coordinate {one!r} where {algorithm} on W_t gives {other!r}"


def _first(found: Array, due: Array) -> tuple[float, float]:
    """Return the first two numbers that differ."""
    where = int(np.flatnonzero(_bits(found).ravel() != _bits(due).ravel())[0])
    return float(found.ravel()[where]), float(due.ravel()[where])


def _bits(array: Array) -> NDArray[np.uint64]:
    return np.ascontiguousarray(array).view(np.uint64)
