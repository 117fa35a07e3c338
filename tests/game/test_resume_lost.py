"""A run that has given up a host and was switched off goes on without it, and so does one that is played on."""

import os
import signal
from pathlib import Path

import pytest
from tests.game.processes import digest, eventually, playing, recorded, simulated, slaternet, write_spec

from slaternet.service.main import DEGRADED
from slaternet_lab import Run

pytestmark = pytest.mark.slow


def ends_as_its_simulation(folder: Path, rounds: int) -> Run:
    run = Run.open(folder)
    assert (run.summary["rounds"], recorded(folder), run.spec.run.rounds) == (rounds, rounds, rounds)
    assert digest(run) == digest(simulated(run.spec, folder.parent / f"simulated-{rounds}"))
    report = run.audit()
    assert report.verdict == "ok", report.sentences()
    return run


@pytest.mark.parametrize(("policy", "code"), [("leave", DEGRADED), ("replace", 0)])
def test_a_host_that_was_given_up_stays_so(policy: str, code: int, tmp_path: Path) -> None:
    folder, options = tmp_path / "run", ("--policy", policy, "--lost-after", 1, "--no-restart")
    log = folder / "state" / "agent-2" / "log"
    with playing(write_spec(tmp_path, rounds=400), folder, "--hosts", 3, *options) as game:
        os.kill(game.under_way(60)["agent-2"], signal.SIGKILL)
        coordinator = folder / "state" / "coordinator" / "log"
        eventually(lambda: "plays its agents" in coordinator.read_text())
        game.switch_off(recorded(folder) + 20)
    assert not (folder / "summary.json").exists()
    said = log.read_bytes()

    resumed = slaternet("resume", folder)

    assert resumed.code == code, resumed.err
    partings = ends_as_its_simulation(folder, 400).spec.departures
    assert [len(each.agents) for each in partings] == ([2] if policy == "leave" else [])
    assert log.read_bytes() == said  # it was not even started

    resumed = slaternet("resume", folder, "--rounds", 460)

    assert resumed.code == code, resumed.err
    assert ends_as_its_simulation(folder, 460).spec.departures == partings
    assert log.read_bytes() == said


def test_a_run_that_is_switched_off_while_it_gives_up_a_host_does_so_when_it_goes_on(tmp_path: Path) -> None:
    folder, options = tmp_path / "run", ("--policy", "leave", "--lost-after", 1, "--no-restart")
    with playing(write_spec(tmp_path, rounds=150), folder, "--hosts", 3, *options) as game:
        children = game.under_way(40)
        for name in ("agent-1", "agent-3"):  # they cannot say which round they have entered
            os.kill(children[name], signal.SIGSTOP)
        os.kill(children["agent-2"], signal.SIGKILL)
        coordinator = folder / "state" / "coordinator" / "log"
        eventually(lambda: "agent-2 is lost" in coordinator.read_text())
        game.switch_off(40)
    assert "plays its agents" not in coordinator.read_text()

    resumed = slaternet("resume", folder)

    assert resumed.code == DEGRADED, resumed.err
    [parting] = ends_as_its_simulation(folder, 150).spec.departures
    assert len(parting.agents) == 2
