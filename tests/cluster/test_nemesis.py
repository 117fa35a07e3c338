"""A game between machines, under kills, pauses, cuts, full disks and turned bits, ends in the simulation's bits."""

from pathlib import Path

import pytest
from tests.cluster.injections import Kill
from tests.cluster.nemesis import HOSTS, draw, play
from tests.cluster.services import ADVERSARY, COORDINATOR, hosts

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

KILLS = 20
OTHERS = 10
NAMES = [COORDINATOR, ADVERSARY, *hosts(HOSTS)]


def test_a_seed_draws_the_same_faults_again_and_another_seed_others() -> None:
    assert draw(7, NAMES, KILLS, OTHERS) == draw(7, NAMES, KILLS, OTHERS)
    assert draw(7, NAMES, KILLS, OTHERS) != draw(8, NAMES, KILLS, OTHERS)


@pytest.mark.parametrize("seed", range(20))
def test_every_draw_has_as_many_faults_as_asked_for_and_strikes_everyone(seed: int) -> None:
    faults = [fault for step in draw(seed, NAMES, KILLS, OTHERS) for fault in step.faults]
    kills = [fault.names for fault in faults if isinstance(fault, Kill)]

    assert sum(map(len, kills)) >= KILLS
    assert {len(names) for names in kills} == {1, HOSTS, HOSTS + 2}
    assert {name.partition("-")[0] for names in kills for name in names if len(names) == 1} == {
        "agent",
        ADVERSARY,
        COORDINATOR,
    }
    assert len(faults) - len(kills) >= OTHERS


def test_a_game_under_a_nemesis_loses_no_recorded_round_and_ends_in_the_digest_of_the_simulation(
    tmp_path: Path,
) -> None:
    outcome = play(1, tmp_path, kills=KILLS, others=OTHERS)

    assert outcome.kills.total() >= KILLS
    assert outcome.faults.total() >= OTHERS
    assert len(outcome.faults) == 8
    assert outcome.packets["lost"] > 0
