"""A game between machines ends in the simulation's bits, whatever the network does to its packets."""

from pathlib import Path

import pytest
from tests.cluster.relay import Faults
from tests.cluster.services import ADVERSARY, COORDINATOR, Wire, services, simulated

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

BAD = Faults(delay=0.010, jitter=0.008, loss=0.02, duplication=0.05)
HOSTS = 6
# more than the window of rounds that may be under way at once, several times over
ROUNDS = 200


@pytest.mark.parametrize("wire", Wire)
def test_a_game_through_a_bad_network_ends_in_the_digest_of_the_simulation(wire: Wire, tmp_path: Path) -> None:
    with services(tmp_path, HOSTS, ROUNDS, wire=wire, faults=BAD, seed=5) as game:
        game.start(*game.names)

        assert game.end_well() == simulated(ROUNDS)

        assert all(link.packets for link in game.network.wires.statistics().values())  # everyone talks to everyone
        total = game.network.wires.total()
        assert total.lost > total.packets / 100
        assert total.duplicated > total.packets / 50
        assert total.reordered > total.packets / 50


def test_services_may_be_started_in_any_order(tmp_path: Path) -> None:
    with services(tmp_path, 3, ROUNDS) as game:
        for name in (*game.hosts, ADVERSARY):
            game.start(name)
            game[name].says("waiting for the coordinator", game.address)
        game.start(COORDINATOR)

        assert game.end_well() == simulated(ROUNDS)
