"""Every decision computed again by its algorithm, from W_t and the journalled values alone.

A round is compared bit for bit with what the algorithm asks. The algorithm's state is then updated with the journalled
values, so that a difference is named in the first round that shows it; later rounds rest on that one, and are not
compared.
"""

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import SlaternetError
from slaternet.model import Agents, Array, Description, Question
from slaternet.spec import Spec
from slaternet.spec.plugins import plugin_edge
from slaternet_adversary.journal.entries import Purchase
from slaternet_adversary.journal.query import merge_purchases
from slaternet_agent.algorithms import Algorithm, state_vector
from slaternet_agent.algorithms.base import Gossip
from slaternet_agent.engine.public_copies import CodedGossip
from slaternet_agent.engine.questions import question_of
from slaternet_agent.engine.round_plan import RoundPlan
from slaternet_agent.engine.rows import Mixer, RowTable
from slaternet_agent.shell.build import build_algorithm, build_copies
from slaternet_coordinator.graphs import Matrix
from slaternet_lab.audit.graphs import rows_of
from slaternet_lab.audit.report import AuditCheck, Discrepancy

_WORDS = {"loss_gradient": "the loss's gradient", "constraint_gradient": "the constraints' gradients"}


class _Learners:
    """All agents at one host: what is computed of an agent does not depend on its host."""

    def __init__(self, spec: Spec, constraints: int) -> None:
        self._name = spec.algorithm.name
        self._agents: Agents = np.arange(spec.run.agents)
        self._algorithm: Algorithm = build_algorithm(spec, Description(constraints=constraints))
        self._mixer = Mixer(len(self._agents), spec.run.agents)
        self._state = self._algorithm.start(self._agents)
        self._rule = build_copies(spec, Description(constraints=constraints), self._algorithm)
        self._copies = self._rule.first(self._agents) if self._rule is not None else None

    def difference(
        self, round: int, matrix: Matrix, players: Agents, purchases: list[tuple[int, Purchase]]
    ) -> Discrepancy | None:
        """Return the first question that is not the algorithm's; where all are, update the state with the values."""
        if len(players) < len(self._agents):  # others have left
            self._state = state_vector.taken(self._algorithm, self._state, players)
            if self._copies is not None:
                self._copies = self._copies[np.searchsorted(self._agents, players)]
            self._agents, self._mixer = players, Mixer(len(players), matrix.agents)
        plan = RoundPlan(*rows_of(matrix, self._agents), self._agents[:0], ())
        decision = self._algorithm.decide(self._state, self._gossip(plan, matrix.agents, round), round)
        expected = question_of(decision, self._algorithm, round, self._agents)
        for record, purchase in purchases:
            if found := _difference(purchase.asked.question, expected, self._name):
                agent, what = found
                return Discrepancy(what, record, round, agent)
        _, answer = merge_purchases([each for _, each in purchases])
        self._state = self._algorithm.update(self._state, decision, answer.values, round)
        return None

    def _gossip(self, plan: RoundPlan, agents: int, round: int) -> Gossip:
        """Return what the algorithm may read in a round."""
        board, rows = RowTable(agents, self._algorithm.width), self._algorithm.outgoing(self._state, round)
        if self._rule is None or self._copies is None:
            board.put(self._agents, rows)
            return self._mixer.gossip(plan, board)
        _, self._copies = self._rule.offer(rows, self._copies, self._agents, round)
        board.put(self._agents, self._copies)
        own, matrix = (self._agents, rows), self._mixer.matrix(plan)
        return CodedGossip(matrix, board, rule=self._rule, own=own, round=round)


class Decisions:
    """The decisions of a game, compared round by round."""

    def __init__(self, spec: Spec, check: AuditCheck) -> None:
        self._spec = spec
        self._check = check
        self._learners: _Learners | None = None

    def compare(self, round: int, matrix: Matrix, players: Agents, purchases: list[tuple[int, Purchase]]) -> None:
        """Compare a round, the one after the last that was."""
        if self._check.reason:
            return
        try:
            with plugin_edge("algorithm", self._spec.algorithm.name, round=round):
                if self._learners is None:
                    self._learners = _Learners(self._spec, purchases[0][1].values.g.shape[2])
                difference = self._learners.difference(round, matrix, players, purchases)
        except SlaternetError as error:
            self._check.reason = f"from round {round} on not checked: {error}"
            return
        self._check.count += len(players)
        if difference is not None:
            self._check.differences.append(difference)
            self._check.reason = f"those after round {round} rest on it, and were not checked"


def _difference(question: Question, expected: Question, algorithm: str) -> tuple[int, str] | None:
    """Return the first agent whose question is not the expected one, and in what."""
    first = int(question.agents[0])
    for flag, name in _WORDS.items():
        if getattr(question, flag) != getattr(expected, flag):
            return first, f"whether it asks for {name} is not as {algorithm} does"
    pairs = [("x", question.x, expected.x), ("a point", question.points, expected.points)]
    if question.anchor is not None and expected.anchor is not None:
        pairs.append(("the anchor", question.anchor, expected.anchor))
    if question.memo is not None and expected.memo is not None:
        pairs.append(("the memo", question.memo, expected.memo))
    for name, found, all_rows in pairs:
        due = all_rows[np.searchsorted(expected.agents, question.agents)]
        if found.shape != due.shape:
            return first, f"it asks about {found.shape[1]} points, and {algorithm} about {due.shape[1]}"
        if differing := np.argwhere(_bits(found) != _bits(due)).tolist():
            place = tuple(differing[0])
            one, other = float(found[place]), float(due[place])
            what = f"{name} has a coordinate {one!r} where {algorithm} on W_t gives {other!r}"
            return int(question.agents[place[0]]), what
    return None


def _bits(array: Array) -> NDArray[np.uint64]:
    return np.ascontiguousarray(array).view(np.uint64)
