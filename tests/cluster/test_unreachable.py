"""Who cannot be reached is named with address and reason, and asked again until it can."""

import shutil
from pathlib import Path

import pytest
from tests.cluster.machines import CUT, NOBODY, PERFECT
from tests.cluster.services import ADVERSARY, COORDINATOR, PORT, Wire, certify, services, simulated

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

HOST = "agent-1"
ADVERSARY_PORT = 7001
ROUNDS = 400


def test_a_host_says_why_it_does_not_reach_the_coordinator(tmp_path: Path) -> None:
    certify(tmp_path / "forged", 1)
    with services(tmp_path, 1, ROUNDS, wire=Wire.TLS) as game:
        machines = game.network.machines
        shutil.copytree(tmp_path / "forged" / HOST, machines[HOST].folder / "forged" / HOST)
        there, nobody = f"{machines[COORDINATOR].address}:{PORT}", f"{NOBODY}:{PORT}"
        closed, another = (
            f"{machines[COORDINATOR].address}:{PORT + 1}",
            f"{machines[ADVERSARY].address}:{ADVERSARY_PORT}",
        )
        cases = [
            ("nowhere.invalid:7000", ("--tls", "certs"), "its name cannot be resolved"),
            (closed, ("--tls", "certs"), "connection refused"),
            (nobody, ("--tls", "certs"), "timed out"),
            (nobody, ("--insecure",), "timed out"),
            (there, ("--tls", "forged"), "its certificate is not of our CA"),
            (another, ("--tls", "certs"), "its certificate is of another name"),
            (there, ("--insecure",), "it closed the connection"),
        ]
        game.start(COORDINATOR)
        game.start(ADVERSARY, options=["--listen", f"0.0.0.0:{ADVERSARY_PORT}"])
        game[COORDINATOR].says("joined", ADVERSARY)

        waiting = [
            machines[HOST].slaternet(f"case-{number}", "agent", "--name", HOST, "--coordinator", address, *security)
            for number, (address, security, _) in enumerate(cases)
        ]

        for host, (address, _, reason) in zip(waiting, cases, strict=True):
            host.says("waiting for the coordinator", f"address={address}", f"{address} does not serve us ({reason})")
            assert host.alive
        assert [each["name"] for each in game.status()["hosts"]] == [ADVERSARY]


def test_two_hosts_cut_off_from_each_other_say_so_and_play_on_once_they_are_not(tmp_path: Path) -> None:
    with services(tmp_path, 3, ROUNDS) as game:
        first, second, wires = game.network["agent-1"], game.network["agent-2"], game.network.wires
        game.start(COORDINATOR, "agent-1")
        game[COORDINATOR].says("joined", "agent-1")  # who joins first dials the others
        game.start("agent-2", "agent-3", ADVERSARY)
        game.under_way()

        wires.set(CUT, first, second)

        game["agent-1"].says("stream broke", "server=agent-2", f"{second.address}:", "timed out")
        game["agent-2"].says("stream broke", "caller=agent-1")
        game.until(lambda status: status["waiting_for"].startswith(("agent-1, ", "agent-2, ")))
        assert game.network.wires.statistics()["agent-1", "agent-2"].lost > 0

        wires.set(PERFECT, first, second)

        game["agent-1"].says("stream is back", "server=agent-2", f"{second.address}:")
        assert game.end_well() == simulated(ROUNDS)
