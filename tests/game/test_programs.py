"""A program that the game starts is killed in mid-game: nobody needs to help, and nothing of it is left behind."""

import json
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from tests.game.processes import (
    PLUGINS,
    Playing,
    alive,
    below,
    digest,
    eventually,
    playing,
    recorded,
    simulated,
    slaternet,
    write_spec,
)
from tests.game.test_workers import Worker

from slaternet_adversary.plugin.sandbox import namespaces
from slaternet_lab import Run

EXAMPLE = Path(__file__).parents[2] / "adversary" / "examples" / "node"
WALK = (
    f"exec:{shlex.quote(sys.executable)} -m slaternet_adversary.plugin.worker --listen 127.0.0.1:{{port}} "
    f"{PLUGINS}/walks.py:Walk"
)
DEPTH = 1 if namespaces() else 2
"""Of the program itself, below the processes around it."""


def everything_below(pid: int) -> list[int]:
    """Return the process ids of the children of a process, and of theirs."""
    return [each for child in below(pid) for each in (child, *everything_below(child))]


@pytest.fixture(params=["python", "javascript"])
def plugin(request: pytest.FixtureRequest) -> tuple[str, int]:
    """Return a program, and how many rounds take it long enough to be killed in."""
    if request.param == "python":
        return WALK, 200
    if shutil.which("node") is None or not (EXAMPLE / "node_modules" / "@grpc" / "grpc-js").is_dir():
        pytest.skip("node or the packages of the example are not installed")
    return f"exec:node {EXAMPLE}/server.js --listen 127.0.0.1:{{port}}", 1500


def outcome_without_leftovers(game: Playing, program: list[int]) -> None:
    """Require that the game ends well and that no process of its program is alive."""
    outcome = game.outcome()
    assert outcome.code == 0, outcome.err
    eventually(lambda: not any(map(alive, program)))


@pytest.mark.slow
def test_a_game_whose_program_is_killed_ends_in_the_bits_of_its_simulation(
    plugin: tuple[str, int], tmp_path: Path
) -> None:
    target, rounds = plugin
    spec = write_spec(tmp_path, rounds=rounds, plugin=target)
    with playing(spec, tmp_path / "run") as game:
        program = Worker(game)
        game.under_way(20)
        program.kill(DEPTH)
        game.under_way(recorded(game.folder) + 10)
        left = everything_below(game.children()["adversary"])
        outcome_without_leftovers(game, left)

    assert left
    assert recorded(game.folder) == rounds
    assert "the plugin is played again" in (game.folder / "state" / "adversary" / "log").read_text()
    run = Run.open(game.folder)
    assert digest(run) == digest(simulated(run.spec, tmp_path / "simulated"))


def test_no_program_outlives_an_adversary_that_is_killed_for_good(tmp_path: Path) -> None:
    with playing(write_spec(tmp_path, rounds=200, plugin=WALK), tmp_path / "run", "--no-restart") as game:
        adversary = game.under_way(20)["adversary"]
        left = [adversary, *everything_below(adversary)]
        game.switch_off(20)

    assert len(left) > DEPTH
    eventually(lambda: not any(map(alive, left)))


@pytest.mark.slow
def test_what_a_program_prints_is_in_the_log_and_never_in_the_results(tmp_path: Path) -> None:
    noisy = tmp_path / "noisy"
    noisy.write_text(f"#!/bin/sh\necho '{{\"digest\": 1}}'\nexec {WALK.partition(':')[2].replace('{port}', '$1')}\n")
    noisy.chmod(0o755)
    spec = write_spec(tmp_path, rounds=5, plugin="exec:./noisy {port}")

    played = slaternet("run", spec, "--out", tmp_path / "run", "--json")
    simulation = slaternet("simulate", spec, "--out", tmp_path / "simulated", "--json")

    assert (played.code, simulation.code) == (0, 0), played.err + simulation.err
    assert json.loads(played.out)["digest"] == json.loads(simulation.out)["digest"]
    assert '{"digest": 1}' in (tmp_path / "run" / "state" / "adversary" / "log").read_text()
    assert '{"digest": 1}' in simulation.err
    written = Run.open(tmp_path / "run").spec.adversary
    assert written.plugin == f"exec:{noisy} '{{port}}'"


@pytest.mark.slow
def test_code_that_has_changed_is_a_warning_where_the_resolved_spec_is_played_again(tmp_path: Path) -> None:
    shell = tmp_path / "walks"
    text = f"#!/bin/sh\nexec {WALK.partition(':')[2].replace('{port}', '$1')}\n"
    shell.write_text(text)
    shell.chmod(0o755)
    spec = write_spec(tmp_path, rounds=5, plugin="exec:./walks {port}")
    first = slaternet("simulate", spec, "--out", tmp_path / "first")
    again = slaternet("simulate", tmp_path / "first", "--out", tmp_path / "again")
    shell.write_text(text + "# changed\n")
    changed = slaternet("simulate", tmp_path / "first", "--out", tmp_path / "changed")

    assert (first.code, again.code, changed.code) == (0, 0, 0), first.err + again.err + changed.err
    warning = "is not the code the spec was resolved with"
    assert warning not in again.err
    assert warning in changed.err
