"""What hosts remember beside an algorithm's state, as processes that die: memos, neighbours' rows and public copies."""

import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from tests.game.processes import digest, playing, recorded, simulated, write_spec

from slaternet.service.main import DEGRADED
from slaternet_lab import Run

pytestmark = pytest.mark.slow

ROUNDS = 260
GAMES = {
    "tracking": ("algorithm.name=tracking",),
    "clipped": ("algorithm.name=clipped",),
    "top-k": ("gossip.code=top-k", "gossip.keep=2"),
    "grid, triggered": ("gossip.code=grid", "gossip.width=0.5", "gossip.trigger=5.0"),
    "tracking in levels": ("algorithm.name=tracking", "gossip.code=levels", "gossip.levels=8"),
}
"""By name: what is set in the spec."""


def settings(name: str) -> list[str]:
    """Return the options of a command that set up a game."""
    return [word for setting in GAMES[name] for word in ("--set", setting)]


def ends_as_its_simulation(folder: Path) -> Run:
    """Require that a game was played to its end, to the bits of simulating its resolved spec, and audits clean."""
    run = Run.open(folder / "run")
    assert recorded(folder / "run") == ROUNDS
    assert digest(run) == digest(simulated(run.spec, folder / "simulated"))
    report = run.audit()
    assert report.verdict == "ok", report.sentences()
    return run


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize(
    "victims", [("coordinator",), ("adversary",), ("agent-2",), ()], ids=lambda each: "+".join(each)
)
def test_whoever_is_killed_is_started_again_and_the_game_ends_in_the_same_bits(
    victims: tuple[str, ...], name: str, tmp_path: Path
) -> None:
    spec = write_spec(tmp_path, rounds=ROUNDS)
    with playing(spec, tmp_path / "run", *settings(name)) as game:
        pids = game.under_way(100)
        for victim in victims or sorted(pids):  # none named: all of them
            os.kill(pids[victim], signal.SIGKILL)
        outcome = game.outcome()

    assert outcome.code == 0, outcome.err
    ends_as_its_simulation(tmp_path)


@pytest.mark.parametrize("name", GAMES)
def test_who_adopts_agents_has_all_of_them_from_the_journal(name: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, rounds=ROUNDS)
    options = ("--policy", "replace", "--lost-after", 1, "--no-restart", *settings(name))
    with playing(spec, tmp_path / "run", "--hosts", 3, *options) as game:
        os.kill(game.under_way(150)["agent-2"], signal.SIGKILL)
        outcome = game.outcome()

    assert outcome.code == 0, outcome.err
    assert ends_as_its_simulation(tmp_path).spec.departures == []


@pytest.mark.parametrize("name", GAMES)
def test_agents_leave_and_the_others_go_on_in_the_bits_of_the_simulation(name: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, rounds=ROUNDS, agents=9)
    options = ("--policy", "leave", "--lost-after", 1, "--no-restart", *settings(name))
    with playing(spec, tmp_path / "run", "--hosts", 3, *options) as game:
        os.kill(game.under_way(100)["agent-2"], signal.SIGKILL)
        outcome = game.outcome()

    assert outcome.code == DEGRADED, outcome.err
    assert ends_as_its_simulation(tmp_path).spec.departures


@pytest.mark.parametrize("name", ["tracking", "top-k", "tracking in levels"])
def test_a_host_whose_checkpoints_are_gone_rebuilds_them(name: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, rounds=ROUNDS)
    with playing(spec, tmp_path / "run", "--policy", "replace", *settings(name)) as game:
        victim = game.under_way(150)["agent-2"]
        os.kill(victim, signal.SIGSTOP)
        shutil.rmtree(tmp_path / "run" / "state" / "agent-2" / "checkpoints")
        os.kill(victim, signal.SIGKILL)
        outcome = game.outcome()

    assert outcome.code == 0, outcome.err
    assert re.search(r"recalling=[1-9]", (tmp_path / "run" / "state" / "agent-2" / "log").read_text())
    ends_as_its_simulation(tmp_path)
