"""A host's lack made good: agents' states rebuilt from what stands in the adversary's journal."""

from typing import Any, Literal

import numpy as np
import pytest

from slaternet.errors import Malformed, Mismatch
from slaternet.model import Agents, Answer, HistoryRequest, Question
from slaternet.spec import AlgorithmSection
from slaternet_agent.algorithms import Algorithm, state_vector
from slaternet_agent.engine import host_state
from slaternet_agent.engine.host_state import HostState
from slaternet_agent.engine.questions import question_of
from slaternet_agent.engine.rebuild import StateRebuild
from slaternet_agent.registry import build
from slaternet_agent.testing.arena import AGENTS, arenas, select_agents

MARK = 6
EVERYONE = np.arange(AGENTS)
OWN, LOST = np.array([0, 3]), np.array([1, 2, 4])


class Story:
    """A game that was played up to round MARK, and what the journal has of it."""

    def __init__(self, name: str, mode: Literal["gossip", "central"] = "gossip") -> None:
        arena = arenas(silent=False)[0]
        self.algorithm: Algorithm = build(AlgorithmSection(name=name, mode=mode), arena.game)
        self._rounds = []
        state: Any = self.algorithm.start(EVERYONE)
        for t in range(1, MARK + 1):
            decision = self.algorithm.decide(state, arena.gossip(self.algorithm.outgoing(state, t)), t)
            seen = arena.values(decision, self.algorithm.feedback, t)
            self._rounds.append((question_of(decision, self.algorithm, t, EVERYONE), seen))
            state = self.algorithm.update(state, decision, seen, t)
        self.state = state

    def kept(self, agents: Agents) -> bytes:
        """Return the checkpoint of some agents."""
        return state_vector.saved(state_vector.taken(self.algorithm, self.state, agents))

    def left(self, agents: Agents) -> HostState:
        """Return the state of some agents, as a checkpoint brings it back."""
        return host_state.restored(self.algorithm, self.kept(agents), 0)

    def recalled(self, wish: HistoryRequest) -> list[Question | Answer]:
        """Return what the journal has of what is wished for."""
        told: list[Question | Answer] = []
        for question, seen in self._rounds[wish.round - 1 : wish.last]:
            anchor = None if question.anchor is None else question.anchor[wish.agents]
            flags = question.loss_gradient, question.constraint_gradient
            x, points = question.x[wish.agents], question.points[wish.agents]
            told.append(
                Question(
                    question.round,
                    wish.agents,
                    x,
                    points,
                    anchor=anchor,
                    loss_gradient=flags[0],
                    constraint_gradient=flags[1],
                    memo=None if question.memo is None else question.memo[wish.agents],
                )
            )
            some = select_agents(wish.agents, seen)
            told.append(Answer(question.round, wish.agents, some))
        return told


@pytest.mark.parametrize("name", ["zhang2024", "yi2023", "yi2024", "tracking", "clipped"])
@pytest.mark.parametrize("own", [OWN, np.empty(0, np.intp)], ids=["a survivor", "a spare"])
def test_what_an_adopter_rebuilds_is_what_the_lost_host_had(name: str, own: Agents) -> None:
    story = Story(name)
    adoption = StateRebuild(story.algorithm, None, story.left(own) if own.size else None, EVERYONE, MARK)

    for message in story.recalled(adoption.request):
        assert not adoption.complete
        adoption.apply(message)

    assert adoption.complete
    assert host_state.saved(adoption.state) == state_vector.saved(story.state)


def test_a_replica_of_one_learner_for_all_comes_from_the_adopters_own_checkpoint() -> None:
    story = Story("cao2019", "central")
    adoption = StateRebuild(story.algorithm, None, story.left(OWN), EVERYONE, MARK)
    for message in story.recalled(adoption.request):
        adoption.apply(message)

    assert host_state.saved(adoption.state) == state_vector.saved(story.state)
    with pytest.raises(Mismatch, match="stands in no journal"):
        StateRebuild(story.algorithm, None, None, EVERYONE, MARK)


def test_a_recall_that_breaks_off_goes_on_where_it_was() -> None:
    story = Story("yi2023")
    adoption = StateRebuild(story.algorithm, None, story.left(OWN), EVERYONE, MARK)
    for message in story.recalled(adoption.request)[:5]:  # two rounds, and the question of a third
        adoption.apply(message)

    assert (adoption.request.round, adoption.request.last) == (3, MARK)
    assert adoption.request.agents.tolist() == adoption.missing.tolist()
    for message in story.recalled(adoption.request):
        adoption.apply(message)
    assert host_state.saved(adoption.state) == state_vector.saved(story.state)


@pytest.mark.parametrize("at", [1, 2], ids=["an answer without a question", "a round left out"])
def test_what_is_recalled_comes_in_order(at: int) -> None:
    story = Story("zhang2024")
    adoption = StateRebuild(story.algorithm, None, story.left(OWN), EVERYONE, MARK)

    with pytest.raises(Malformed, match="recalled"):
        adoption.apply(story.recalled(adoption.request)[at])
