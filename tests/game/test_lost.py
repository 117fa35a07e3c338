"""Hosts of a game that never come back: the others finish, in the bits of simulating what has been played."""

import csv
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.game.processes import Outcome, Playing, digest, eventually, playing, recorded, simulated, write_spec

from slaternet.attendance import Attendance
from slaternet.service.main import DEGRADED
from slaternet_coordinator.graphs.survivors import Departing
from slaternet_coordinator.registry import build
from slaternet_lab import Run

pytestmark = pytest.mark.slow

ROUNDS = 260


def lost(policy: str, *more: object) -> tuple[object, ...]:
    """Return the options of a game that gives up hosts soon and starts nobody again."""
    return ("--policy", policy, "--lost-after", 1, "--no-restart", *more)


def log(game: Playing, name: str) -> str:
    """Return what a process has said so far."""
    return (game.folder / "state" / name / "log").read_text()


def ends_as_its_simulation(outcome: Outcome, folder: Path) -> Run:
    """Require that a game was played to its end, to the bits of simulating its resolved spec, and audits clean."""
    run = Run.open(folder / "run")
    assert recorded(folder / "run") == ROUNDS, outcome.err
    assert digest(run) == digest(simulated(run.spec, folder / "simulated"))
    report = run.audit()
    assert report.verdict == "ok", report.sentences()
    return run


def test_six_hosts_go_on_without_one_and_its_agents_leave(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, rounds=ROUNDS, agents=12, more="\n[record]\ndecisions = true\n")
    with playing(spec, tmp_path / "run", "--hosts", 6, *lost("leave")) as game:
        os.kill(game.under_way(100)["agent-3"], signal.SIGKILL)
        outcome = game.outcome()

    assert outcome.code == DEGRADED, outcome.err
    run = ends_as_its_simulation(outcome, tmp_path)
    [departure] = run.spec.departures
    assert departure.round > 100
    assert len(departure.agents) == 2
    agents = ", ".join(map(str, departure.agents))
    assert f"agents {agents} in round {departure.round}" in outcome.out
    said = f"agent-3 is lost: agent-1 plays its agents through round {departure.round - 1}, then they depart"
    assert said in log(game, "coordinator")

    with (tmp_path / "run" / "metrics.csv").open() as file:
        playing_agents = [int(row["agents"]) for row in csv.DictReader(file)]
    assert playing_agents == [12] * (departure.round - 1) + [10] * (ROUNDS + 1 - departure.round)
    assert run.summary is not None
    assert run.summary["departures"] == [{"round": departure.round, "agents": departure.agents}]

    graph = Departing(build(run.spec.graph, 12, run.spec.run.seed), Attendance(12, run.spec.leaving))
    staying = np.setdiff1d(np.arange(12), departure.agents)
    for t in range(departure.round, ROUNDS + 1):
        block = graph.matrix(t).dense()[np.ix_(staying, staying)]
        np.testing.assert_allclose(block.sum(axis=0), 1, atol=1e-12)
        np.testing.assert_allclose(block.sum(axis=1), 1, atol=1e-12)


def test_a_host_that_is_replaced_leaves_no_trace_in_the_results(tmp_path: Path) -> None:
    with playing(write_spec(tmp_path, rounds=ROUNDS), tmp_path / "run", "--hosts", 3, *lost("replace")) as game:
        os.kill(game.under_way(100)["agent-2"], signal.SIGKILL)
        outcome = game.outcome()

    assert outcome.code == 0, outcome.err
    run = ends_as_its_simulation(outcome, tmp_path)
    assert run.spec.departures == []
    assert "agent-2 was killed by SIGKILL; the game goes on without it" in outcome.out


@pytest.mark.parametrize("policy", ["wait", "replace"])
def test_a_checkpoint_that_was_deleted_is_refused_or_rebuilt_from_the_journal(tmp_path: Path, policy: str) -> None:
    with playing(write_spec(tmp_path, rounds=400), tmp_path / "run", "--policy", policy) as game:
        victim = game.under_way(200)["agent-2"]  # nobody comes so far before all have a checkpoint
        os.kill(victim, signal.SIGSTOP)
        shutil.rmtree(tmp_path / "run" / "state" / "agent-2" / "checkpoints")
        os.kill(victim, signal.SIGKILL)
        outcome = game.outcome()

    if policy == "wait":
        assert outcome.code != 0
        assert "holds no checkpoint of round" in outcome.err + log(game, "agent-2")
    else:
        assert outcome.code == 0, outcome.err
        assert re.search(r"coming back .*recalling=[1-9]", log(game, "agent-2"))
        run = Run.open(tmp_path / "run")
        assert digest(run) == digest(simulated(run.spec, tmp_path / "simulated"))


def test_one_after_the_other_may_be_lost_while_one_is_left(tmp_path: Path) -> None:
    with playing(write_spec(tmp_path, rounds=ROUNDS), tmp_path / "run", "--hosts", 3, *lost("leave")) as game:
        children = game.under_way(30)
        os.kill(children["agent-2"], signal.SIGKILL)
        eventually(lambda: "then they depart" in log(game, "coordinator"))
        # the adopter, before or while it plays what it has adopted
        os.kill(children["agent-1"], signal.SIGKILL)
        outcome = game.outcome()

    assert outcome.code == DEGRADED, outcome.err
    run = ends_as_its_simulation(outcome, tmp_path)
    assert sum(len(each.agents) for each in run.spec.departures) == 4


def test_one_that_was_paused_for_too_long_is_refused_when_it_goes_on(tmp_path: Path) -> None:
    with playing(write_spec(tmp_path, rounds=ROUNDS), tmp_path / "run", "--hosts", 3, *lost("leave")) as game:
        paused = game.under_way(30)["agent-3"]
        os.kill(paused, signal.SIGSTOP)
        eventually(lambda: "then they depart" in log(game, "coordinator"))
        os.kill(paused, signal.SIGCONT)
        outcome = game.outcome()

    assert outcome.code == DEGRADED, outcome.err
    ends_as_its_simulation(outcome, tmp_path)
    assert "agent-3 was away for too long and is given up" in log(game, "agent-3")


def test_the_last_host_is_not_given_up_and_its_death_ends_the_run(tmp_path: Path) -> None:
    with playing(write_spec(tmp_path, rounds=None), tmp_path / "run", "--hosts", 2, *lost("leave")) as game:
        children = game.under_way(30)
        for name in ("agent-1", "agent-2"):
            os.kill(children[name], signal.SIGKILL)
        outcome = game.outcome()

    assert outcome.code == 3
    assert "was killed by SIGKILL" in outcome.err
