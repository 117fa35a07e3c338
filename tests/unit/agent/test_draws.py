"""Draws belong to an agent and a round, whatever is asked for before, beside and after."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slaternet.numerics.randomness import block_length, stream
from slaternet.numerics.sets import Box
from slaternet_agent.algorithms.game import AlgorithmGame
from slaternet_agent.codes.draws import Draws

AGENTS, SEED = 12, 5


def draws(numbers: int) -> Draws[np.float64]:
    game = AlgorithmGame(AGENTS, 3, 1, None, SEED, Box(3, -1, 1))
    return Draws(game, numbers, lambda uniform: uniform[:, : (numbers + 1) // 2])


def plainly(numbers: int, agent: int, t: int) -> list[float]:
    length = block_length(numbers)
    whole = stream(SEED, "gossip", agent, (t - 1) // length).random((length, numbers))
    row: list[float] = whole[(t - 1) % length, : (numbers + 1) // 2].tolist()
    return row


@given(
    st.sampled_from([1, 3, 40, 5000]),
    st.lists(st.tuples(st.lists(st.integers(0, AGENTS - 1), unique=True), st.integers(1, 600)), max_size=6),
)
def test_draws_are_those_of_their_address_in_any_order(numbers: int, asked: list[tuple[list[int], int]]) -> None:
    shared = draws(numbers)

    for agents, t in asked:
        drawn = shared.at(np.array(agents, np.intp), t)
        assert drawn.shape == (len(agents), (numbers + 1) // 2)
        assert drawn.tolist() == [plainly(numbers, agent, t) for agent in agents]


def test_what_is_drawn_may_be_written_to() -> None:
    shared, agents = draws(3), np.arange(4)
    shared.at(agents, 1)[:] = 7.0

    assert shared.at(agents, 1).max() < 1.0
