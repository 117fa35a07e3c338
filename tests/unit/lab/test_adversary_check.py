import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from slaternet.spec import Spec
from slaternet_lab.assumptions.sampling import QUICK, measure
from slaternet_lab.cli import main
from slaternet_lab.commands.adversary import examine

BUILT_IN = sorted(entry.name for entry in entry_points(group="slaternet.adversaries"))

MINE = '''
import numpy as np
from slaternet_adversary import Adversary


class Functions:
    """f = 1/2 |x|^2, g = sum x - budget."""

    def __init__(self, budget):
        self.budget = budget

    def loss(self, agents, points):
        return 0.5 * np.sum(points * points, axis=-1)

    def constraint(self, agents, points):
        return np.sum(points, axis=-1)[..., None] - self.budget


class Mine(Adversary):
    constraints = 1

    def __init__(self, game, *, budget=1.0):
        super().__init__(game)
        self.budget = budget

    def play(self, round, past):
        return Functions(self.budget)


class Flat(Mine):
    def play(self, round, past):
        functions = super().play(round, past)
        functions.loss = lambda agents, points: points[..., 0, 0]
        return functions
'''

SPEC = """
[run]
agents = 3
dimension = 2
rounds = 4

[set]
kind = "ball"
radius = 1.0

[algorithm]
name = "zinkevich2003"

[feedback]
loss_gradient = true

[graph]
name = "complete"

[adversary]
plugin = "mine.py:Mine"
options = { budget = -4.0 }
"""


PRINTING = """

class Printing(Mine):
    def play(self, round, past):
        print("[], 17")
        return super().play(round, past)
"""


def slaternet(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(each) for each in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def lines(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return {each["about"]: each for each in json.loads(capsys.readouterr().out)}


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "replay"])
def test_every_built_in_adversary_passes_in_its_own_game(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert slaternet("adversary-check", name, "--set", "run.rounds=4", "--json") == 0

    report = lines(capsys)
    assert {each["verdict"] for about, each in report.items() if about != "time"} <= {"ok", "note"}
    assert report["rowwise"]["verdict"] == report["feasible"]["verdict"] == "ok"
    assert "the functions are what Theorems 1" in report["theorems"]["text"]


def test_the_margin_is_that_of_the_conic_solver() -> None:
    game = Spec.parse(SPEC, source="test").replace(
        **{"adversary.plugin": "linear-regression", "adversary.options": {"b": 0.5}, "feedback": None}
    )
    found = measure(game, QUICK).slater
    line = next(each for each in examine(game) if each.about == "feasible")

    assert found is not None
    assert float(line.text.partition("g <= -")[2].split()[0]) == pytest.approx(found.margin, rel=1e-2)


def test_a_replay_passes_as_what_it_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    game = ["--set", "run.agents=4", "--set", "run.rounds=4"]
    assert slaternet("record", "paper", "--out", tmp_path / "trace.npz", *game) == 0
    capsys.readouterr()

    path = f"adversary.options.path={tmp_path / 'trace.npz'}"
    assert slaternet("adversary-check", "replay", "--spec", "paper", *game, "--set", path, "--json") == 0
    assert lines(capsys)["plays"]["text"].startswith("rounds 1 to 4 with 4 agents")


def test_the_report_is_a_table_of_line_verdict_and_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "mine.py").write_text(MINE)

    assert slaternet("adversary-check", f"{tmp_path}/mine.py:Mine") == 0

    rows = [line.rstrip().split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["line", "verdict", "figure"]
    assert rows[1][:2] == ["plays", "ok"]
    assert rows[1][2].startswith("rounds 1 to 12 with 6 agents in 5 dimensions, 1 constraint(s) each")
    assert ["modulus", "note"] in [row[:2] for row in rows]


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_failure_ends_with_its_line_and_the_exit_code_of_plugins(
    isolation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    where = f"adversary.isolation={isolation}"

    assert slaternet("adversary-check", f"{tmp_path}/mine.py:Flat", "--set", where) == 6

    error = capsys.readouterr().err.splitlines()[-1]
    assert f"adversary {tmp_path}/mine.py:Flat fails the exam:" in error
    assert "(1, 2)" in error


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_what_a_plugin_prints_is_not_in_the_json(
    isolation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(MINE + PRINTING)
    where = f"adversary.isolation={isolation}"

    assert slaternet("adversary-check", f"{tmp_path}/mine.py:Printing", "--rounds", 4, "--json", "--set", where) == 0

    printed = capsys.readouterr()
    report = {each["about"]: each for each in json.loads(printed.out)}
    assert report["plays"]["text"].startswith("rounds 1 to 4 with 6 agents")
    assert report["prints"]["verdict"] == "note"
    assert "[], 17" in printed.err


def test_a_line_that_has_failed_names_the_line_of_the_author(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    line = 1 + MINE.splitlines().index("        functions.loss = lambda agents, points: points[..., 0, 0]")

    assert slaternet("adversary-check", f"{tmp_path}/mine.py:Flat", "--json") == 6

    printed = capsys.readouterr()
    failed = next(each for each in json.loads(printed.out) if each["verdict"] == "failed")
    assert failed["where"] == f"{tmp_path}/mine.py:{line}"
    assert failed["where"] in printed.err


def test_a_spec_that_is_about_the_adversary_brings_its_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "mine.toml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)

    assert slaternet("adversary-check", "mine.py:Mine", "--spec", "mine.toml", "--json") == 6
    assert "no point of X is feasible" in lines(capsys)["feasible"]["text"]

    budget = ["--set", "adversary.options.budget=0.5"]
    assert slaternet("adversary-check", "mine.py:Mine", "--spec", "mine.toml", *budget, "--json") == 0
    report = lines(capsys)
    assert report["feasible"]["verdict"] == "ok"
    assert report["plays"]["text"] == "rounds 1 to 4 with 3 agents in 2 dimensions, 1 constraint(s) each"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["moving"], 'adversary.plugin = "moving" is not known; did you mean moving-target?'),
        (
            ["moving-target", "--set", "adversary.options.mus=1"],
            "adversary.options.mus is not an option",
        ),
        (["moving-target", "--set", "adversary.options.mu=-1"], "adversary.options.mu must be"),
        (["moving-target", "--spec", "papers"], "papers is neither a file nor a shipped spec"),
    ],
)
def test_what_the_user_can_correct_is_said_in_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slaternet("adversary-check", *arguments) == 2

    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
