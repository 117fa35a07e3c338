"""Processes die: the operator hears one sentence, nothing recorded is lost, nothing is left running."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.game.processes import PLUGINS, alive, eventually, playing, recorded, write_spec

from slaternet_adversary.shell.incident_file import read_incidents
from slaternet_lab.specs.resolve import load

STOPS_WITHIN = 5.0


@pytest.mark.parametrize("victim", ["coordinator", "adversary", "agent-2"])
def test_a_killed_child_is_named_in_one_sentence_and_nothing_recorded_is_lost(victim: str, tmp_path: Path) -> None:
    with playing(write_spec(tmp_path, rounds=None), tmp_path / "run", "--no-restart") as game:
        children = game.under_way()
        os.kill(children[victim], signal.SIGKILL)
        before = recorded(game.folder)
        outcome = game.outcome()

    assert set(children) == {"coordinator", "adversary", "agent-1", "agent-2"}
    assert outcome.code == 3
    assert outcome.err.startswith(f"slaternet: {victim} was killed by SIGKILL; its last words: ")
    assert outcome.err.count("\n") == 1
    assert not any(alive(pid) for pid in children.values())
    assert recorded(game.folder) >= before
    assert (game.folder / "metrics.csv").read_text().endswith("\n")
    for name in children:
        assert "Traceback" not in (game.folder / "state" / name / "log").read_text()


def test_no_child_outlives_a_killed_parent(tmp_path: Path) -> None:
    with playing(write_spec(tmp_path, rounds=None), tmp_path / "run") as game:
        children, server = game.under_way(), game.fork_server()
        game.process.kill()
        game.process.wait()

        eventually(lambda: not any(alive(pid) for pid in (server, *children.values())))

    assert len(children) == 4
    assert recorded(game.folder) >= 5


def test_the_fork_server_owns_no_thread_and_nothing_of_grpc(tmp_path: Path) -> None:
    with playing(write_spec(tmp_path, rounds=None), tmp_path / "run") as game:
        children, server = game.under_way(), game.fork_server()
        threads = {pid: len(os.listdir(f"/proc/{pid}/task")) for pid in (server, *children.values())}
        files = {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in (server, *children.values())}

    # gRPC starts threads and opens descriptors as soon as it is initialised
    assert (threads.pop(server), files.pop(server)) == (1, 3)
    assert min(threads.values()) > 1
    assert min(files.values()) > 3


@pytest.mark.parametrize("plugin", ["WhilePlaying", "WhileAnswering"])
def test_a_plugin_that_raises_is_named_to_the_operator_and_its_words_to_nobody_else(
    plugin: str, tmp_path: Path
) -> None:
    spec = write_spec(tmp_path, rounds=100, plugin=f"{PLUGINS / 'raises_in_round_5.py'}:{plugin}")
    with playing(spec, tmp_path / "run") as game:
        outcome = game.outcome()

    assert outcome.code == 6
    lines = outcome.err.splitlines()
    assert "has not been examined since its last change" in lines[0]
    assert [line.startswith("slaternet: ") for line in lines] == [True, True, *([False] * (len(lines) - 2))]
    assert not any(line.startswith("Traceback") for line in lines)  # the author's part of it, no more
    for word in ("adversary", plugin, "5", "ArithmeticError", "raises_in_round_5.py", "the hidden value is 42.4242"):
        assert word in outcome.err
    for agent in ("agent-1", "agent-2"):
        assert "42.4242" not in (game.folder / "state" / agent / "log").read_text()
    assert recorded(game.folder) <= 4
    assert f"then continue with `slaternet resume {game.folder}`" in outcome.err
    [incident] = read_incidents(game.folder)
    assert (incident.process, incident.kind) == ("adversary", "paused")
    assert "42.4242" not in (game.folder / "state" / "coordinator" / "log").read_text()


@pytest.mark.slow
def test_a_plugin_may_print_more_than_a_pipe_holds(tmp_path: Path) -> None:
    talkative = PLUGINS / "prints_much.py"
    spec = write_spec(tmp_path, rounds=5, plugin=f"{talkative}:Adversary")
    settings = ("--set", f"graph.name={talkative}:Graph", "--set", "graph.rho=")
    with playing(spec, tmp_path / "run", "--hosts", 1, "--json", *settings) as game:
        outcome = game.outcome()

    assert outcome.code == 0, outcome.err
    for talker in ("adversary", "coordinator"):
        assert (game.folder / "state" / talker / "log").read_text().count("so much to say\n") == 70_000


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_processes_start_ends_them_all_at_once(sent: signal.Signals, tmp_path: Path) -> None:
    with playing(write_spec(tmp_path, rounds=None), tmp_path / "run") as game:
        eventually((game.folder / "state" / "coordinator" / "log").exists)
        children = game.children()
        game.process.send_signal(sent)
        outcome = game.outcome(STOPS_WITHIN)

    assert outcome.code == 130
    assert "Traceback" not in outcome.err
    assert not any(alive(pid) for pid in children.values())


@pytest.mark.slow
def test_a_process_that_stays_when_the_game_is_over_is_named(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, rounds=5, plugin=f"{PLUGINS / 'stays.py'}:Stays", more='isolation = "none"\n')
    with playing(spec, tmp_path / "run", "--hosts", 1) as game:
        outcome = game.outcome()

    assert outcome.code == 3
    last = outcome.err.splitlines()[-1]
    assert last.startswith("slaternet: the game is over, but adversary did not end; see the logs in ")
    assert (game.folder / "summary.json").exists()


@contextmanager
def service(package: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """Start one service by itself."""
    command = [sys.executable, "-m", f"slaternet_{package}", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_services_started_alone_play_and_each_ends_soon_after_sigterm(tmp_path: Path) -> None:
    resolved = tmp_path / "resolved.toml"
    resolved.write_text(load(str(write_spec(tmp_path, rounds=None))).to_toml())
    with ExitStack() as stack:
        coordinator = stack.enter_context(service("coordinator", resolved, "--hosts", 1, "--listen", "127.0.0.1:0"))
        assert coordinator.stdout is not None
        where = ("--coordinator", coordinator.stdout.readline().split()[-1])
        host = stack.enter_context(service("agent", "--name", "lonely", *where))
        adversary = stack.enter_context(service("adversary", *where, "--out", tmp_path / "alone"))
        eventually(lambda: recorded(tmp_path / "alone") >= 5)

        for process in (host, adversary, coordinator):
            process.terminate()
            _, words = process.communicate(timeout=STOPS_WITHIN)
            assert process.returncode == 130
            assert "leaves" in words.splitlines()[-1]
            assert "Traceback" not in words
