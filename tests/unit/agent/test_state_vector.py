"""States of some agents, taken out of those of more, and joined again."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.agent_games import made

from slaternet.errors import BadSpec
from slaternet.model import Agents, Array, ValueAndGradient
from slaternet.numerics.sets import Box
from slaternet_agent.algorithms import Algorithm, AlgorithmGame, Decision, Values, state_vector

N, P, M, T = 6, 2, 2, 20
GAME = AlgorithmGame(N, P, M, T, 5, Box(P, -1.0, 1.0))
CENTRAL = "yi2023 central"
NAMES = ("zhang2024", "yi2023", "yuan2022-full", "mahdavi2012", CENTRAL)


def algorithm(name: str) -> Algorithm:
    return made(name.split()[0], GAME, **({"mode": "central"} if name == CENTRAL else {}))


class Everyone:
    """The gossip of a round in which all rows are the same."""

    def __init__(self, rows: Array) -> None:
        self.mixed = self.received = rows


def played(name: str, agents: Agents, rounds: int) -> Any:
    """Return the state of some agents after rounds whose values follow from agent and round."""
    player, state = algorithm(name), algorithm(name).start(agents)
    for t in range(1, rounds + 1):
        width = player.width
        rows = player.outgoing(state, t) if name != CENTRAL else np.full((N, width), 0.125 * t)
        decision = player.decide(state, Everyone(rows), t)
        state = player.update(
            state, Decision(decision.x, decision.points, decision.anchor, decision.memo), seen(player, agents, t), t
        )
    return state


def seen(player: Algorithm, agents: Agents, t: int) -> Values:
    base = np.sin(3.0 * agents + t)
    s, feedback = player.feedback.points, player.feedback
    f = base[:, None] + np.arange(s)
    g = np.repeat(f[..., None], M, axis=2)
    slope = np.repeat(base[:, None], P, axis=1)
    loss = ValueAndGradient(base, slope) if feedback.loss_gradient else None
    rows = np.repeat(base[:, None], M, axis=1)
    constraint = ValueAndGradient(rows, np.repeat(slope[:, None], M, axis=1)) if feedback.constraint_gradient else None
    return Values(f, g, loss, constraint)


@pytest.mark.parametrize("name", NAMES)
@given(
    sets=st.lists(st.sets(st.integers(0, N - 1), min_size=1), min_size=2, max_size=2),
    rounds=st.integers(0, 4),
    seed=st.integers(0, 99),
)
@settings(max_examples=8, deadline=None)
def test_what_is_taken_and_joined_is_what_would_have_been_played(
    name: str, sets: list[set[int]], rounds: int, seed: int
) -> None:
    groups = [np.array(sorted(each), dtype=np.intp) for each in (sets[0], sets[1] - sets[0])]
    everyone = np.array(sorted(sets[0] | sets[1]), dtype=np.intp)
    player, whole = algorithm(name), played(name, everyone, rounds)
    alone = [played(name, group, rounds) for group in groups if len(group)]
    random.Random(seed).shuffle(alone)

    assert state_vector.saved(state_vector.joined(player, alone)) == state_vector.saved(whole)
    for group, each in ((each.agents, each) for each in alone):
        assert state_vector.saved(state_vector.taken(player, whole, group)) == state_vector.saved(each)
    payload = state_vector.saved(whole)
    assert state_vector.covered(payload).tolist() == everyone.tolist()
    assert state_vector.saved(state_vector.restored(player, payload)) == payload


def test_what_belongs_to_all_together_is_the_first_one_s() -> None:
    player = algorithm(CENTRAL)
    ahead, behind = played(CENTRAL, np.array([3]), 2), played(CENTRAL, np.array([1]), 1)

    both = state_vector.joined(player, [ahead, behind])

    assert both.agents.tolist() == [1, 3]
    assert both.learner.tobytes() == ahead.learner.tobytes() != behind.learner.tobytes()
    assert both.values[0].tobytes() == behind.values[0].tobytes()
    assert [state_vector.is_per_agent(algorithm(name)) for name in NAMES] == [True, True, True, True, False]


@pytest.mark.parametrize("payload", [b"", b"12345", bytes([9, 0, 0, 0, 0, 0, 0, 0]), bytes([1] * 8)])
def test_bytes_that_are_no_state_are_refused(payload: bytes) -> None:
    with pytest.raises(BadSpec, match="is no state of agents; bring back the code that wrote it"):
        state_vector.covered(payload)


def test_a_state_that_does_not_say_whose_it_is_cannot_be_kept() -> None:
    state = played("zhang2024", np.arange(2), 1)
    object.__setattr__(state, "agents", None)

    with pytest.raises(BadSpec, match="a state without `agents`"):
        state_vector.saved(state)
