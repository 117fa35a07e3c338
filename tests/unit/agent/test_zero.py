import numpy as np
import pytest
from tests.support.agent_games import Mixed, game, made, played

from slaternet.errors import BadSpec
from slaternet.numerics.sets import Box
from slaternet_agent.algorithms import Feedback

LOPSIDED = Box(12, -1, 4)


@pytest.mark.parametrize("mode", ["gossip", "local", "central"])
def test_it_never_moves_from_the_centre(mode: str) -> None:
    of = game(LOPSIDED, 5)

    for each in played(made("zero", of, mode=mode), of, 5):
        assert np.array_equal(each.decision.x, np.tile(LOPSIDED.centre, (5, 1)))


def test_it_asks_for_nothing_and_sends_nothing() -> None:
    host = made("zero", game(LOPSIDED, 5, rounds=None))
    state = host.start(np.array([1, 4]))
    sent = host.outgoing(state, 1)

    assert host.feedback == Feedback()
    assert sent.shape == (2, 0)
    assert host.width == 0
    assert host.decide(state, Mixed(sent, sent), 1).points.shape == (2, 0, 12)


def test_it_takes_no_numbers() -> None:
    with pytest.raises(BadSpec, match=r"^algorithm\.gamma0 is not an option of .* with schedule "):
        made("zero", game(LOPSIDED, 5), gamma0=0.1)
