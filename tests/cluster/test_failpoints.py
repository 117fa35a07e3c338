"""A process dies at every place that has a name: the game ends in the same bits, and no place goes unreached."""

from pathlib import Path

import pytest
from tests.cluster.deaths import VICTIMS, WORKER, lose_worker, places, walk

from slaternet.storage.failpoints import NAMES

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def test_every_place_is_one_at_which_something_dies_here() -> None:
    assert sorted([WORKER, *(place for role in VICTIMS for place in places(role))]) == sorted(NAMES)


@pytest.mark.parametrize("role", VICTIMS)
def test_a_service_that_dies_at_every_place_in_turn_goes_on_and_the_bits_stay_the_same(
    role: str, tmp_path: Path
) -> None:
    assert walk(role, tmp_path) == places(role)


def test_an_adversary_whose_plugin_dies_in_an_evaluation_leaves_saying_so_and_goes_on_when_it_is_back(
    tmp_path: Path,
) -> None:
    lose_worker(tmp_path)
