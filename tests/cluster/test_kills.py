"""Services started one by one are killed again and again, and started by the same commands: the bits stay the same."""

from pathlib import Path

import pytest
from tests.cluster.kills import GAMES, draw, strike
from tests.cluster.loopback import on_loopback
from tests.cluster.services import ADVERSARY, COORDINATOR, simulated

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

ROUNDS = 400


@pytest.mark.parametrize("spec", GAMES.values(), ids=GAMES)
def test_a_game_whose_services_are_killed_in_turn_and_at_once_ends_in_the_digest_of_the_simulation(
    spec: tuple[str, ...], tmp_path: Path
) -> None:
    with on_loopback(tmp_path, 2, ROUNDS, spec=spec) as game:
        kills = draw(1, game.hosts, ROUNDS)
        game.start(*game.names)
        for kill in kills:
            strike(game, kill)

        assert game.end_well() == simulated(ROUNDS, spec)

    single = [kill.names[0] for kill in kills if len(kill.names) == 1]
    assert len(single) >= 12
    assert {*single} >= {COORDINATOR, ADVERSARY, *game.hosts}
    assert sorted(len(kill.names) for kill in kills if len(kill.names) > 1) == [2, 4]
