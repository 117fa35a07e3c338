"""Processes of `slaternet run` die and are started again: the game ends in the bits of its simulation all the same."""

import os
import signal
from pathlib import Path

import pytest
from tests.game.processes import Outcome, alive, digest, eventually, playing, recorded, simulated, write_spec

from slaternet_lab import Run

pytestmark = pytest.mark.slow

ROUNDS = 300


def ends_as_its_simulation(outcome: Outcome, tmp_path: Path) -> None:
    assert outcome.code == 0, outcome.err
    run = Run.open(tmp_path / "run")
    assert recorded(tmp_path / "run") == ROUNDS
    assert digest(run) == digest(simulated(run.spec, tmp_path / "simulated"))


@pytest.mark.parametrize("victim", ["coordinator", "adversary", "agent-2"])
def test_a_killed_child_is_started_again_and_the_game_ends_in_the_same_bits(victim: str, tmp_path: Path) -> None:
    with playing(write_spec(tmp_path, rounds=ROUNDS), tmp_path / "run") as game:
        children = game.under_way(100)
        os.kill(children[victim], signal.SIGKILL)
        outcome = game.outcome()

    ends_as_its_simulation(outcome, tmp_path)
    assert f"{victim} was killed by SIGKILL; started again" in outcome.out
    assert not any(alive(pid) for pid in children.values())


def test_the_fork_server_may_be_killed_and_processes_after_it(tmp_path: Path) -> None:
    with playing(write_spec(tmp_path, rounds=ROUNDS), tmp_path / "run") as game:
        children = game.under_way(50)
        os.kill(game.fork_server(), signal.SIGKILL)
        os.kill(children["agent-1"], signal.SIGKILL)
        outcome = game.outcome()

    ends_as_its_simulation(outcome, tmp_path)
    assert not any(alive(pid) for pid in children.values())


def test_all_of_them_may_be_killed_at_once(tmp_path: Path) -> None:
    with playing(write_spec(tmp_path, rounds=ROUNDS), tmp_path / "run") as game:
        for pid in game.under_way(100).values():
            os.kill(pid, signal.SIGKILL)
        outcome = game.outcome()

    ends_as_its_simulation(outcome, tmp_path)


@pytest.mark.parametrize(
    "failpoint", ["coordinator_before_round:kill@4", "coordinator_after_round:kill@4", "coordinator_during_join:kill@2"]
)
def test_a_coordinator_may_die_around_every_step_it_keeps(
    failpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLATERNET_FAILPOINT", failpoint)
    with playing(write_spec(tmp_path, rounds=ROUNDS), tmp_path / "run") as game:
        outcome = game.outcome()

    ends_as_its_simulation(outcome, tmp_path)
    log = (game.folder / "state" / "coordinator" / "log").read_text()
    assert log.count("killed\n") >= 2
    assert "taking up a game" in log


@pytest.mark.parametrize(
    ("failpoint", "victim"), [("coordinator_before_round:kill", "coordinator"), ("agent_before_query:kill", "agent-")]
)
def test_a_process_that_always_dies_is_given_up(
    failpoint: str, victim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLATERNET_FAILPOINT", failpoint)
    with playing(write_spec(tmp_path, rounds=ROUNDS), tmp_path / "run") as game:
        outcome = game.outcome()

    assert outcome.code == 3
    assert outcome.err.startswith(f"slaternet: {victim}")
    assert "was started again 5 times, and died each time before the game came any further; at last " in outcome.err
    assert outcome.err.count("\n") == 1


def test_ctrl_c_ends_a_game_whose_coordinator_has_just_died(tmp_path: Path) -> None:
    with playing(write_spec(tmp_path, rounds=None), tmp_path / "run") as game:
        coordinator = game.under_way(20)["coordinator"]
        os.kill(coordinator, signal.SIGKILL)
        eventually(lambda: game.children().get("coordinator", coordinator) != coordinator)
        game.process.send_signal(signal.SIGINT)
        outcome = game.outcome()

    assert outcome.code == 0, outcome.err
    run = Run.open(game.folder)
    assert digest(run) == digest(simulated(run.spec, tmp_path / "simulated"))
