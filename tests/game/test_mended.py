"""A plugin that fails pauses its game, which goes on when it is mended, and ends as if nothing had happened."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.game.processes import (
    Service,
    digest,
    eventually,
    playing,
    recorded,
    resuming,
    simulated,
    slaternet,
    write_spec,
)

from slaternet_adversary.engine.amendments import Amendment
from slaternet_adversary.journal.journal import read
from slaternet_adversary.shell.incident_file import read_incidents
from slaternet_lab import Run, load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # several games each

BUG = 250
PLUGIN = """
import numpy as np
from slaternet_adversary import Adversary


class Bowl:
    def __init__(self, round):
        self.round = round

    def loss(self, agents, points):
        if self.round == {bug}:
            raise ZeroDivisionError("a bug")
        return np.add.reduce((points - np.sin(self.round)) ** 2, axis=-1) * (1 + (agents == 4) * {apart})[:, None]

    def constraint(self, agents, points):
        return np.repeat(points[..., :1] - 1.0, {constraints}, axis=-1)


class Bowls(Adversary):
    constraints = {constraints}
    rowwise = True

    def play(self, round, past):
        return Bowl(round)
"""
SOUND = {"bug": 0, "apart": "0.0", "constraints": 1}


def plugin(folder: Path, **faults: object) -> str:
    """Write the plugin with some faults; return it as a target."""
    (folder / "bowls.py").write_text(PLUGIN.format(**{**SOUND, **faults}))
    return f"{folder / 'bowls.py'}:Bowls"


def undisturbed(folder: Path, spec: Path) -> str:
    """Return the digest of a game whose plugin never failed."""
    plugin(folder)
    return digest(simulated(load(str(spec)), folder / "undisturbed"))


@pytest.fixture
def due(tmp_path: Path) -> str:
    """Pause a game in RUN by a bug; return the digest that it should have."""
    spec = write_spec(tmp_path, rounds=BUG + 20, plugin=plugin(tmp_path))
    due, folder = undisturbed(tmp_path, spec), tmp_path / "run"
    plugin(tmp_path, bug=BUG)
    outcome = slaternet("run", spec, "--out", folder)
    assert outcome.code == 6
    assert f"round {BUG}" in outcome.err
    assert f"; then continue with `slaternet resume {folder}`; to ask that call again: " in outcome.err
    return due


def kept(folder: Path) -> dict[str, bytes]:
    """Return the files of a run folder beside the states of processes."""
    files = (file for file in folder.rglob("*") if file.is_file() and "state" not in file.relative_to(folder).parts)
    return {str(file): file.read_bytes() for file in files}


def test_a_bug_in_round_250_is_mended_and_the_game_ends_as_one_that_never_had_it(due: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    plugin(tmp_path)

    resumed = slaternet("resume", folder, "--json")
    with capture_logs() as logs:
        again = digest(simulated(load(str(folder)), tmp_path / "again"))
    audited = slaternet("audit", folder)
    longer = slaternet("resume", folder, "--rounds", BUG + 40, "--json")

    assert resumed.code == 0, resumed.err
    assert json.loads(resumed.out)["digest"] == again == due
    assert any("was changed within the game of this spec, from round " in each["event"] for each in logs)
    spec = Run.open(folder).spec
    first, second = spec.adversary.segments or []
    [amendment] = (each for each in read(folder) if isinstance(each, Amendment))
    assert (first.round, second.round) == (1, amendment.round)
    assert amendment.round >= BUG
    assert second.sha256 == spec.adversary.sha256 != first.sha256
    assert audited.code == 0, audited.out
    assert f"from round {second.round} on its functions could be chosen anew" in " ".join(audited.out.split())
    assert "not checked" not in audited.out
    assert [each.kind for each in read_incidents(folder)].count("amended") == 1
    assert longer.code == 0, longer.err
    assert json.loads(longer.out)["digest"] == digest(simulated(load(str(folder)), tmp_path / "longer")) != due


def test_a_plugin_that_contradicts_what_was_answered_is_refused_and_the_run_folder_stays_as_it_was(
    due: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    before = kept(folder)

    plugin(tmp_path, apart="1e-9")
    contradicting, after = slaternet("resume", folder), kept(folder)
    plugin(tmp_path, constraints=2)
    wider, later = slaternet("resume", folder), kept(folder)
    plugin(tmp_path)
    mended = slaternet("resume", folder, "--json")

    assert contradicting.code == 5, contradicting.err
    assert "it has another value for agent 4 in round 1 than the one that was given" in contradicting.err
    assert wider.code == 2, wider.err
    assert "has constraints = 2 now, and the game was begun with 1" in wider.err
    assert before == after == later
    assert json.loads(mended.out)["digest"] == due


def test_services_started_one_by_one_wait_for_a_mended_adversary(tmp_path: Path) -> None:
    target = plugin(tmp_path)
    spec = write_spec(tmp_path, rounds=60, plugin=target)
    due = undisturbed(tmp_path, spec)
    plugin(tmp_path, bug=25)
    state = ("--state", tmp_path / "state")
    coordinator = Service(tmp_path, "coordinator", "coordinator", spec, "--hosts", 1, "--listen", "127.0.0.1:0", *state)
    services = [coordinator]
    try:
        address = coordinator.says("listening on ").rpartition(" ")[2]
        common = ("--coordinator", address, *state)
        services.append(Service(tmp_path, "agent-1", "agent", "--name", "agent-1", *common))
        command = ("adversary", *common, "--out", tmp_path / "run")
        services.append(failing := Service(tmp_path, "failing", *command))
        failing.says("the game is paused; correct the plugin, then start the adversary again")
        assert failing.process.wait(30) == 6
        eventually(lambda: "adversary has gone; the game waits for it" in slaternet("status", address).out)
        plugin(tmp_path)
        services.append(mended := Service(tmp_path, "mended", *command))

        assert [each.process.wait(60) for each in (mended, *services[:2])] == [0, 0, 0]
    finally:
        for each in services:
            each.process.kill()
            each.process.wait()

    assert digest(Run.open(tmp_path / "run")) == due
    assert [each.kind for each in read_incidents(tmp_path / "run")].count("paused") == 1


@contextmanager
def foreign(target: str, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Serve a plugin by gRPC, as a program in another language would."""
    command = [sys.executable, "-m", "slaternet_adversary.plugin.worker", "--listen", f"127.0.0.1:{port}", target]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"ready ")
            yield process
        finally:
            process.kill()


def test_a_foreign_plugin_that_is_killed_and_started_again_goes_on_without_help(tmp_path: Path) -> None:
    target = plugin(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    spec = write_spec(tmp_path, rounds=2000, plugin=target)
    due = undisturbed(tmp_path, spec)
    spec = write_spec(tmp_path, rounds=2000, plugin=f"grpc://127.0.0.1:{port}")
    log = tmp_path / "run" / "state" / "adversary" / "log"

    with foreign(target, port) as first, playing(spec, tmp_path / "run", "--json") as game:
        game.under_way(100)
        first.kill()
        first.wait()
        eventually(lambda: "dialling the plugin's server again" in log.read_text())
        with foreign(target, port):
            outcome = game.outcome()

    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["digest"] == due
    assert log.read_text().count("dialling the plugin's server again") == 1


def test_a_foreign_plugin_that_stays_away_pauses_the_game_until_it_is_back(tmp_path: Path) -> None:
    target = plugin(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    spec = write_spec(tmp_path, rounds=2000, plugin=target)
    due = undisturbed(tmp_path, spec)
    spec = write_spec(tmp_path, rounds=2000, plugin=f"grpc://127.0.0.1:{port}")

    with foreign(target, port) as first, playing(spec, tmp_path / "run", "--plugin-patience", 0.5) as game:
        game.under_way(100)
        first.kill()
        first.wait()
        away = game.outcome()
    plugin(tmp_path, bug=BUG * 100)  # other code, which agrees
    with foreign(target, port), resuming(tmp_path / "run", "--json") as resumed:
        outcome = resumed.outcome()

    assert away.code == 6
    assert f"found no one at 127.0.0.1:{port}" in away.err
    assert "it was dialled again for 0.5 seconds" in away.err
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["digest"] == due


def test_a_plugin_that_answers_otherwise_once_its_worker_was_killed_is_stopped_with_round_and_agent(
    tmp_path: Path,
) -> None:
    spec = write_spec(
        tmp_path, rounds=None, plugin=plugin(tmp_path, apart="(__import__('os').getpid() + id(np)) % 1000")
    )
    with playing(spec, tmp_path / "run") as game:
        game.under_way(20)
        for worker in workers(game.children()["adversary"]):
            os.kill(worker, signal.SIGKILL)
        outcome = game.outcome()

    assert outcome.code == 5, outcome.err
    assert "is not reproducible: played again, it has another value for agent 4 in round " in outcome.err
    assert recorded(tmp_path / "run") >= 20


def workers(parent: int) -> list[int]:
    """Return the process ids of the plugin's processes below the adversary's."""
    found = []
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        for pid in map(int, task.read_text().split()):
            found += [pid, *workers(pid)]
    return found
