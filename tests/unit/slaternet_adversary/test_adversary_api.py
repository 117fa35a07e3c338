import numpy as np
import pytest

import slaternet_adversary
from slaternet.errors import BadSpec
from slaternet.sets import Box
from slaternet.streams import stream
from slaternet_adversary import Adversary, CannotPlay, Game, History, Round


def test_authors_find_everything_they_need_in_the_package() -> None:
    assert set(slaternet_adversary.__all__) == {"Adversary", "CannotPlay", "Game", "History", "Round"}


def test_an_adversary_must_play() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Adversary(Game(2, 3, 1, Box(3, -1, 1)))  # type: ignore[abstract]


def test_an_adversary_is_oblivious_and_evaluated_one_by_one_unless_it_says_otherwise() -> None:
    class Still(Adversary):
        constraints = 1

        def play(self, round: int, past: History | None) -> Round:
            raise CannotPlay("adversary.plugin cannot play; choose another")

    still = Still(Game(2, 3, 1, Box(3, -1, 1)))

    assert (still.history, still.rowwise, still.game.agents) == (0, False, 2)


def test_refusing_a_game_is_the_user_s_to_correct() -> None:
    assert issubclass(CannotPlay, BadSpec)


def test_a_game_s_streams_are_those_of_its_seed() -> None:
    game = Game(2, 3, 11, Box(3, -1, 1))

    assert game.stream("walk", 1, 4).random(3).tobytes() == stream(11, "walk", 1, 4).random(3).tobytes()
    assert History(np.zeros((0, 2, 3))).decisions.shape == (0, 2, 3)
