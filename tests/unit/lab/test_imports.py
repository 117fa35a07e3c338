"""Commands import no more than they use: a user waits for every import."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"clarabel", "grpc", "matplotlib", "numpy", "pydantic", "scipy", "scipy.linalg", "scipy.optimize"}
COMMAND = "import json, sys; from slaternet_lab.cli import main; main(sys.argv[1:])"
SHOWN = f"import atexit, json, sys; atexit.register(lambda: print(json.dumps(sorted({HEAVY} & set(sys.modules)))));"


def imported(code: str, *arguments: object, **variables: str) -> set[str]:
    """Return which heavy modules a process has imported when it exits."""
    command = [sys.executable, "-P", "-c", SHOWN + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("module", ["slaternet_lab", "slaternet_lab.cli", "slaternet_lab.games.fork_server"])
def test_importing_the_command_line_loads_nothing_heavy(module: str) -> None:
    assert imported(f"import {module}") == set()


def test_what_reads_runs_and_what_draws_them_load_neither_figures_nor_grpc() -> None:
    assert imported("import slaternet_lab.runs.run, slaternet_lab.runs.plots") == {"numpy", "pydantic"}


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("agent", "--help")])
def test_help_loads_nothing_heavy_but_what_typer_does(arguments: tuple[str, ...]) -> None:
    assert imported(COMMAND, *arguments) <= {"pydantic"}


def test_a_status_loads_what_the_wire_needs() -> None:
    assert imported(COMMAND, "status", "127.0.0.1:1") == {"grpc", "numpy", "pydantic"}


def test_a_service_loads_what_a_game_needs() -> None:
    services = ", ".join(f"slaternet_{name}.shell.service" for name in ("agent", "adversary", "coordinator"))

    assert imported(f"import {services}") == {"grpc", "numpy", "pydantic", "scipy"}


def test_a_simulation_shows_its_summary_before_it_loads_what_draws(tmp_path: Path) -> None:
    small = ("--set", "run.rounds=5", "--set", "run.agents=3", "--out", tmp_path / "run", "--json")
    # with that variable matplotlib cannot be imported
    command = [sys.executable, "-P", "-m", "slaternet_lab", "simulate", "paper-short", *map(str, small)]
    environment = {**os.environ, "MPLBACKEND": "none"}

    done = subprocess.run(command, capture_output=True, text=True, env=environment)

    assert json.loads(done.stdout)["rounds"] == 5
    assert "backend" in done.stderr
    assert done.returncode == 1


def test_a_simulation_needs_no_grpc(tmp_path: Path) -> None:
    small = ("--set", "run.rounds=5", "--set", "run.agents=3", "--out", tmp_path / "run")

    assert "grpc" not in imported(COMMAND, "simulate", "paper-short", *small)
