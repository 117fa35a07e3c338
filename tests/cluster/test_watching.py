"""Nobody waits without saying for whom: a host that stands still, and a service that leaves."""

import signal
from pathlib import Path

import pytest
from tests.cluster.services import ADVERSARY, COORDINATOR, Status, Wire, services, simulated

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

HOSTS = 3
ROUNDS = 400
STILL = "agent-2"
PATIENCE = 5.0
"""Seconds within which a service ends that was asked to."""


def test_status_names_the_host_that_stands_still_as_the_one_all_others_wait_for(tmp_path: Path) -> None:
    with services(tmp_path, HOSTS, ROUNDS, wire=Wire.TLS) as game:
        others = [name for name in game.hosts if name != STILL]

        def blamed(status: Status) -> bool:
            culprit, _, waiting = status["waiting_for"].partition(": ")
            return culprit.startswith(f"{STILL}, ") and all(name in waiting for name in others)

        game.start(*game.names)
        game.under_way()

        game[STILL].signal(signal.SIGSTOP)

        game.until(blamed)
        game[COORDINATOR].says(f"{STILL} has gone")  # it was silent for so long that its streams were ended
        assert blamed(game.status())
        assert all(game[name].alive for name in game.names)

        game[STILL].signal(signal.SIGCONT)

        game[COORDINATOR].says(f"{STILL} is back")
        assert game.end_well() == simulated(ROUNDS)


@pytest.mark.parametrize("leaver", [COORDINATOR, ADVERSARY, "agent-2"])
def test_a_service_asked_to_end_says_what_it_leaves_and_the_others_miss_it_and_wait(
    leaver: str, tmp_path: Path
) -> None:
    with services(tmp_path, HOSTS, None) as game:
        game.start(*game.names)
        game.under_way()

        game[leaver].signal(signal.SIGTERM)

        assert game[leaver].ends(PATIENCE) == 130
        game[leaver].says(f"{leaver} leaves", "round")
        others = [name for name in game.names if name != leaver]
        for name in others:
            game[name].says("warning", leaver)
        if leaver != COORDINATOR:
            game[COORDINATOR].says(f"{leaver} has gone; the game waits for it")
            game.until(lambda status: status["waiting_for"].startswith(f"{leaver}, gone for"))
        assert all(game[name].alive for name in others)
