"""One spec, one digest: however many processes play it, and however it ends."""

import json
import signal
from pathlib import Path

import pytest
from tests.game.processes import DEADLINE, digest, playing, recorded, simulated, slaternet, write_spec

from slaternet_lab import Run
from slaternet_lab.specs.resolve import load


def printed(*arguments: object, seconds: float = DEADLINE) -> str:
    """Return the digest that a command prints."""
    outcome = slaternet(*arguments, "--json", seconds=seconds)
    assert outcome.code == 0, outcome.err
    return str(json.loads(outcome.out)["digest"])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_any_number_of_hosts_and_a_simulation_print_the_same_digest_and_so_does_playing_it_again(
    tmp_path: Path,
) -> None:
    spec = write_spec(tmp_path, rounds=30)

    expected = printed("simulate", spec, "--out", tmp_path / "simulation")

    for hosts in (1, 2, 5):
        assert printed("run", spec, "--hosts", hosts, "--out", tmp_path / f"on-{hosts}") == expected
    assert printed("simulate", tmp_path / "on-2" / "spec.toml", "--out", tmp_path / "again") == expected


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_game_in_order_with_the_digest_of_the_rounds_played(
    sent: signal.Signals, tmp_path: Path
) -> None:
    spec = write_spec(tmp_path, rounds=None)
    with playing(spec, tmp_path / "run") as game:
        game.under_way()
        game.process.send_signal(sent)
        outcome = game.outcome()

    assert outcome.code == 0, outcome.err
    assert_ended_in_order(tmp_path)


def test_stop_ends_a_game_without_rounds_with_the_digest_of_the_rounds_played(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, rounds=None)
    with playing(spec, tmp_path / "run") as game:
        game.under_way()
        stopped = slaternet("stop", game.address())
        outcome = game.outcome()

    assert stopped.code == 0, stopped.err
    assert "stopping" in stopped.out
    assert outcome.code == 0, outcome.err
    assert_ended_in_order(tmp_path)


def assert_ended_in_order(folder: Path) -> None:
    """Require a complete run of some S rounds whose simulation gives the same digest."""
    run = Run.open(folder / "run")
    assert run.summary is not None
    assert run.spec.run.rounds == run.summary["rounds"] == recorded(folder / "run")
    assert digest(run) == digest(simulated(run.spec, folder / "simulation"))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_forty_hosts_of_one_agent_end_in_the_digest_of_the_simulation(tmp_path: Path) -> None:
    settings = ["run.agents=40", "run.rounds=200"]
    arguments = [word for setting in settings for word in ("--set", setting)]

    played = printed("run", "paper", *arguments, "--hosts", 40, "--out", tmp_path / "run", seconds=290)

    assert played == digest(simulated(load("paper", settings), tmp_path / "simulation"))
