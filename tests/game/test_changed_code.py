"""A module that an algorithm, an adversary or a graph imports is changed: commands notice it as if it were the file."""

import csv
import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.game.processes import DEADLINE, SLATERNET, Outcome, slaternet, write_spec

pytestmark = pytest.mark.slow  # whole comparisons, several times

ALGORITHM = """
from slaternet_agent.algorithms.zhang2024 import Zhang2024


class Mine(Zhang2024):
    def update(self, state, decision, seen, t):
        from {helper} import GAIN  # where nobody looks

        moved = super().update(state, decision, seen, t)
        return type(moved)(moved.agents, GAIN * moved.z)
"""
ADVERSARY = """
import helper
import numpy as np
from slaternet_adversary import Adversary


class Bowls:
    def loss(self, agents, points):
        return np.add.reduce((points - helper.GAIN) ** 2, axis=-1)

    def constraint(self, agents, points):
        return points[..., :1] - 1.0


class Mine(Adversary):
    constraints = 1

    def play(self, round, past):
        return Bowls()
"""
SMALL = [each for key in ("agents=6", "rounds=30", "dimension=3") for each in ("--set", f"run.{key}")]


def command(*arguments: object, path: Path) -> Outcome:
    """Run a command with a folder in PYTHONPATH."""
    told, environment = [SLATERNET, *map(str, arguments)], {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run(told, capture_output=True, text=True, timeout=DEADLINE, env=environment)
    return Outcome(done.returncode, done.stdout, done.stderr)


def loss(folder: Path) -> float:
    with (folder / "comparison.csv").open() as file:
        return float(next(csv.DictReader(file))["cumulative_loss"])


@pytest.mark.parametrize(
    ("target", "helper", "path"), [("{}/acme/mine.py:Mine", "helper", "acme"), ("acme.mine:Mine", ".helper", "")]
)
def test_a_comparison_is_not_continued_with_another_helper(target: str, helper: str, path: str, tmp_path: Path) -> None:
    package = tmp_path / "acme"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "mine.py").write_text(ALGORITHM.format(helper=helper))
    (package / "helper.py").write_text("GAIN = 1.0\n")
    common = ("compare", "--algorithms", target.format(tmp_path), "--seeds", 1, *SMALL, "--out")

    first = command(*common, tmp_path / "out", path=tmp_path / path)
    kept = command(*common, tmp_path / "out", path=tmp_path / path)
    before = loss(tmp_path / "out")
    (package / "helper.py").write_text("GAIN = 0.5\n")
    again = command(*common, tmp_path / "out", path=tmp_path / path)
    forced = command(*common, tmp_path / "out", "--force", path=tmp_path / path)
    fresh = command(*common, tmp_path / "fresh", path=tmp_path / path)

    assert (first.code, kept.code, forced.code, fresh.code) == (0, 0, 0, 0), first.err + forced.err + fresh.err
    assert "1 finished runs are kept" in kept.out
    assert again.code == 2
    assert "has another spec or other code now; choose another --out, or overwrite it with --force" in again.err
    assert loss(tmp_path / "out") == loss(tmp_path / "fresh") != before


def test_a_game_is_neither_extended_nor_audited_with_another_helper(tmp_path: Path) -> None:
    for name, text in (("algorithm", ALGORITHM.format(helper="helper")), ("adversary", ADVERSARY)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(text)
        (tmp_path / name / "helper.py").write_text("GAIN = 1.0\n")
    spec = write_spec(tmp_path, rounds=30, plugin=f"{tmp_path}/adversary/mine.py:Mine")
    mine, out = f"algorithm.name={tmp_path}/algorithm/mine.py:Mine", tmp_path / "run"

    played = slaternet("run", spec, "--set", mine, "--hosts", 2, "--out", out, "--json")
    sound = slaternet("audit", out)
    simulated = slaternet("simulate", out, "--out", tmp_path / "again", "--json")
    (tmp_path / "adversary" / "helper.py").write_text("GAIN = 1.5\n")
    audited = slaternet("audit", out)
    extended = slaternet("resume", out, "--rounds", 40)

    assert (played.code, sound.code, simulated.code) == (0, 0, 0), played.err + sound.out + simulated.err
    assert json.loads(played.out)["digest"] == json.loads(simulated.out)["digest"]
    assert "not checked" not in sound.out
    assert "has SHA-256 " in " ".join(audited.out.split())
    assert "not checked" in audited.out
    assert extended.code == 2
    assert "is not the one it was played with; put that back" in extended.err
