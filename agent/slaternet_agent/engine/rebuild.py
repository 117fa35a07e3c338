"""Rebuilds the states of agents that a host has no checkpoint of.

These are agents that it adopts, its own where the file is lost, and those of other hosts whose rows are disputed.
The adversary's journal holds an agent's questions and answers of rounds 1 to M, and its state after M follows from them
by `update` alone; public copies follow from the rows that it would have sent.
"""

import numpy as np

from slaternet.errors import Malformed, Mismatch
from slaternet.model import Agents, Answer, Array, HistoryRequest, Question
from slaternet_agent.algorithms import state_vector
from slaternet_agent.algorithms.base import Algorithm, Decision
from slaternet_agent.engine import host_state
from slaternet_agent.engine.host_state import HostState
from slaternet_agent.engine.public_copies import PublicCopies
from slaternet_agent.engine.questions import check_answer, memo_width


class StateRebuild:
    """Rebuilds the state after round M of the agents that `kept`, the state of the checkpoint if any, lacks.

    A `ticket` opens the journal of agents that are seated elsewhere.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        copies: PublicCopies | None,
        kept: HostState | None,
        agents: Agents,
        mark: int,
        ticket: bytes = b"",
    ) -> None:
        self._algorithm = algorithm
        self._rule = copies
        self._mark = mark
        self._ticket = ticket
        own = np.empty(0, np.intp) if kept is None else np.intersect1d(kept.agents, agents)
        self._own = [host_state.taken(algorithm, kept, own)] if kept is not None and own.size else []
        if not own.size and not state_vector.is_per_agent(algorithm):
            raise Mismatch(
                f"nothing is left here of round {mark}, and what one learner for all has learnt stands in no journal; "
                "let a host go on that has kept it"
            )
        self.missing = np.setdiff1d(agents, own)
        """The agents whose state is rebuilt."""
        self._state = algorithm.start(self.missing)
        self._copies = np.empty((len(self.missing), 0)) if copies is None else copies.first(self.missing)
        self._round = 0
        self._question: Question | None = None

    @property
    def complete(self) -> bool:
        """Whether all rounds are replayed."""
        return self._round == self._mark

    @property
    def request(self) -> HistoryRequest:
        """The rounds that are still missing."""
        return HistoryRequest(self._round + 1, self._mark, self.missing, self._ticket)

    def apply(self, message: Question | Answer) -> None:
        """Replay a question of the journal, or its answer."""
        if message.round != self._round + 1 or not np.array_equal(message.agents, self.missing):
            raise Malformed("what is recalled must be of the agents wished for, round by round")
        if isinstance(message, Question):
            self._question = message
            return
        if self._question is None:
            raise Malformed("an answer that is recalled follows its question")
        question, self._question = self._question, None
        check_answer(message, question)
        decision = Decision(np.ascontiguousarray(question.x), question.points, question.anchor, self._memo(question))
        if self._rule is not None and self._rule.remembers:
            self._copies = self._offered(self._rule, message.round)
        self._state = self._algorithm.update(self._state, decision, message.values, message.round)
        self._round = message.round

    def _memo(self, question: Question) -> Array:
        """Return what the agents kept for their updates."""
        memo = np.empty((len(self.missing), 0)) if question.memo is None else question.memo
        if memo.shape[1] != memo_width(self._algorithm):
            raise Malformed("a question that is recalled must hold as large a memo as the algorithm declares")
        return memo

    def _offered(self, rule: PublicCopies, round: int) -> Array:
        """Return the public copies of the agents that are rebuilt, in the round after the last that is replayed."""
        return rule.offer(self._algorithm.outgoing(self._state, round), self._copies, self.missing, round)[1]

    @property
    def state(self) -> HostState:
        """The state after round M of all the agents that the host needs."""
        return host_state.joined(self._algorithm, [*self._own, HostState(self._state, self._copies)])

    @property
    def next_rows(self) -> Array:
        """The rows of round M + 1, or their public copies, of the agents that are rebuilt."""
        rows = self._algorithm.outgoing(self._state, self._mark + 1)
        return rows if self._rule is None else self._offered(self._rule, self._mark + 1)
