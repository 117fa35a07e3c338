"""One hostile host among six: it ends its own part, and the others their game."""

from pathlib import Path

import pytest
from tests.hostile.game import played
from tests.hostile.host import ACTS, ENDS, Plan

from slaternet_coordinator.engine.rules import Policy

SEEDS = range(10)


def test_whatever_a_hostile_host_can_do_is_done_in_one_of_the_games() -> None:
    plans = [Plan.draw(seed) for seed in SEEDS]

    assert {act for plan in plans for act in plan.acts.values()} == set(ACTS)
    assert {plan.end for plan in plans} == set(ENDS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_hostile_host_ends_its_own_part_and_the_others_their_game(seed: int, tmp_path: Path) -> None:
    played(seed, list(Policy)[seed % 3], tmp_path / "game")
