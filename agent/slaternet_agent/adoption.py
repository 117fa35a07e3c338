"""Agents whose past a host lacks: those of a host that never came back, or its own where a checkpoint is gone.

What an agent asked and saw in rounds 1 to M stands in the adversary's journal, and its state after M follows from that
by `update` alone.
"""

from typing import Any

import numpy as np

from slaternet.errors import Malformed, Mismatch
from slaternet.model import Agents, Answer, Question, Recall
from slaternet_agent import states
from slaternet_agent.algorithms.base import Algorithm, Decision
from slaternet_agent.engine import Checkpoint
from slaternet_agent.questions import check_answer


class Adoption:
    """The way from what a host has kept after round M, if anything, to the checkpoint of all the agents it needs."""

    def __init__(self, algorithm: Algorithm, kept: bytes | None, agents: Agents, mark: int) -> None:
        self._algorithm = algorithm
        self._mark = mark
        self._own: list[Any] = []
        covered = np.empty(0, np.intp)
        if kept is not None:
            covered = np.intersect1d(states.covered(kept), agents)
        if covered.size and kept is not None:
            self._own = [states.taken(algorithm, states.restored(algorithm, kept), covered)]
        elif not states.is_per_agent(algorithm):
            raise Mismatch(
                f"nothing is left here of round {mark}, and what one learner for all has learnt stands in no journal; "
                "let a host go on that has kept it"
            )
        self.missing = np.setdiff1d(agents, covered)
        """The agents whose past has to be recalled."""
        self._state = algorithm.start(self.missing) if self.missing.size else None
        self._round = 0 if self.missing.size else mark
        self._question: Question | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing has to be recalled any more."""
        return self._round == self._mark

    @property
    def wish(self) -> Recall:
        """What is to be recalled next, and up to which round."""
        return Recall(self._round + 1, self._mark, self.missing)

    def take(self, message: Question | Answer) -> None:
        """Take in what was asked once, or the answer to it."""
        if message.round != self._round + 1 or not np.array_equal(message.agents, self.missing):
            raise Malformed("what is recalled must be of the agents wished for, round by round")
        if isinstance(message, Question):
            self._question = message
            return
        if self._question is None:
            raise Malformed("an answer that is recalled follows its question")
        question, self._question = self._question, None
        check_answer(message, question)
        decision = Decision(np.ascontiguousarray(question.x), question.points, question.anchor)
        self._state = self._algorithm.update(self._state, decision, message.values, message.round)
        self._round = message.round

    @property
    def checkpoint(self) -> Checkpoint:
        """All that a host with these agents has to remember after round M."""
        adopted = [] if self._state is None else [self._state]
        return Checkpoint(self._mark, states.saved(states.joined(self._algorithm, [*self._own, *adopted])))
