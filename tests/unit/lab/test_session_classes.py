"""`simulate` and `examine` with a class: of a notebook's cell, of a script, of a file."""

import itertools
import linecache
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet_agent.algorithms.zhang2024 import Zhang2024
from slaternet_lab import examine, load, simulate
from slaternet_lab.runs.run import Run

FUNCTIONS = """
import numpy as np

class Functions:
    def __init__(self, centres, budget):
        self.centres, self.budget = centres, budget

    def loss(self, agents, points):
        return 0.5 * np.sum((points - self.centres[agents][:, None]) ** 2, axis=-1)

    def constraint(self, agents, points):
        return np.sum(points, axis=-1, keepdims=True) - self.budget
"""
BOWL = """
from slaternet_adversary import Adversary

class Bowl(Adversary):
    constraints = 1

    def __init__(self, game, *, budget=1.0):
        super().__init__(game)
        self.budget = budget

    def play(self, round, past):
        return Functions(np.ones((self.game.agents, self.game.dimension)), self.budget)
"""
SETTINGS = ("run.agents=4", "run.rounds=20")

Cell = Callable[..., Any]

NUMBERS = itertools.count(1)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """Execute cells as a notebook does: in `__main__`, their texts in linecache; return what a name stands for."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)

    def run(*texts: str, name: str = "Bowl", remembered: bool = True) -> Any:
        for text in texts:
            file = f"<cell {next(NUMBERS)}>"  # of all tests: linecache keeps the texts of earlier ones
            if remembered:
                linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            exec(compile(text, file, "exec"), vars(main))
        return vars(main)[name]

    return run


@pytest.fixture
def spec() -> Spec:
    return load("paper-short", SETTINGS)


def digest(run: Run) -> str:
    return str(run.summary["digest"])


def test_a_class_of_a_cell_plays_the_game_of_the_same_class_in_a_file(cell: Cell, spec: Spec, tmp_path: Path) -> None:
    (tmp_path / "bowl.py").write_text(FUNCTIONS + BOWL)
    file = ("adversary.isolation=none", f"adversary.plugin={tmp_path / 'bowl.py'}:Bowl", "adversary.options.budget=2.0")

    of_cell = simulate(spec, adversary=cell(FUNCTIONS, BOWL), options={"budget": 2.0}, out=tmp_path / "a")
    of_file = simulate(load("paper-short", [*SETTINGS, *file]), out=tmp_path / "b")

    assert digest(of_cell) == digest(of_file)
    assert of_cell.spec.adversary.plugin == "session:Bowl"
    assert of_cell.spec.adversary.options == {"budget": 2.0}
    assert (of_cell.folder / "loss.png").exists()


def test_a_changed_cell_has_a_class_of_its_own(cell: Cell, spec: Spec, tmp_path: Path) -> None:
    first = simulate(spec, adversary=cell(FUNCTIONS, BOWL), out=tmp_path / "a", finished=False)
    second = simulate(spec, adversary=cell(BOWL.replace("1.0", "3.0")), out=tmp_path / "b", finished=False)
    again = simulate(spec, adversary=cell(BOWL), out=tmp_path / "c", finished=False)

    assert digest(first) == digest(again) != digest(second)
    assert first.spec.adversary.sha256 == again.spec.adversary.sha256 != second.spec.adversary.sha256


def test_the_hash_covers_the_other_cells_that_a_class_uses(cell: Cell, spec: Spec, tmp_path: Path) -> None:
    first = simulate(spec, adversary=cell(FUNCTIONS, BOWL), out=tmp_path / "a", finished=False)
    second = simulate(spec, adversary=cell(FUNCTIONS.replace("0.5", "0.7")), out=tmp_path / "b")
    third = simulate(spec, adversary=cell("unused = 1"), out=tmp_path / "c", finished=False)

    assert first.spec.adversary.sha256 != second.spec.adversary.sha256 == third.spec.adversary.sha256


def test_a_class_without_a_known_source_has_no_hash_and_that_is_said(
    cell: Cell, spec: Spec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = simulate(spec, adversary=cell(FUNCTIONS, BOWL, remembered=False), out=tmp_path / "a", finished=False)

    assert run.spec.adversary.sha256 == ""
    assert "the source of Bowl is not known" in "".join(capsys.readouterr())


def test_what_a_session_has_played_is_played_by_no_other(cell: Cell, spec: Spec, tmp_path: Path) -> None:
    simulate(spec, adversary=cell(FUNCTIONS, BOWL), out=tmp_path / "a", finished=False)

    command = (Path(sys.executable).with_name("slaternet"), "simulate", tmp_path / "a", "--out", tmp_path / "b")
    ended = subprocess.run(command, capture_output=True, text=True)

    assert ended.returncode == 2
    assert ended.stderr == (
        "slaternet: adversary.plugin names Bowl, a class that lived in a Python session which is over; write it into a "
        'file, and name "path/file.py:Bowl"\n'
    )


def test_a_class_of_a_script_is_played_and_the_script_is_not_run_again(spec: Spec, tmp_path: Path) -> None:
    script, file = tmp_path / "study.py", tmp_path / "bowl.py"
    file.write_text(FUNCTIONS + BOWL)
    play = f"""
from pathlib import Path
from slaternet_lab import load, simulate

run = simulate(load("paper-short", {list(SETTINGS)}), adversary=Bowl, out=Path("run"), finished=False)
print(run.summary["digest"], run.spec.adversary.sha256)
"""
    script.write_text(FUNCTIONS + BOWL + play)

    ended = subprocess.run((sys.executable, script), capture_output=True, text=True, cwd=tmp_path)

    assert ended.stderr == ""
    of_script, sha256 = ended.stdout.split()
    assert of_script == digest(simulate(spec, adversary=f"{file}:Bowl", out=tmp_path / "file", finished=False))
    assert len(sha256) == 64


def test_a_class_of_an_imported_file_is_named_by_the_file_and_played_as_saved(
    spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "bowl_of_a_file.py"
    path.write_text(FUNCTIONS + BOWL)
    bowl = __import__("bowl_of_a_file").Bowl

    first = simulate(spec, adversary=bowl, out=tmp_path / "a", finished=False)
    path.write_text(FUNCTIONS + BOWL.replace("1.0", "3.0"))
    second = simulate(spec, adversary=bowl, out=tmp_path / "b", finished=False)

    assert first.spec.adversary.plugin == f"{path}:Bowl"
    assert first.spec.adversary.isolation == "none"
    assert digest(first) != digest(second)


def test_an_algorithm_is_a_class_too(cell: Cell, spec: Spec, tmp_path: Path) -> None:
    mine = cell(
        "from slaternet_agent.algorithms.zhang2024 import Zhang2024\n\nclass Mine(Zhang2024):\n    pass", name="Mine"
    )
    assert issubclass(mine, Zhang2024)

    run = simulate(spec, algorithm=mine, out=tmp_path / "a", finished=False)

    assert run.spec.algorithm.name == "session:Mine"
    assert digest(run) == digest(simulate(spec, out=tmp_path / "b", finished=False))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"budgte": 2.0}, "adversary.options.budgte"), ({"budget": None}, "adversary.options.budget")],
)
def test_wrong_options_of_a_class_are_refused(
    cell: Cell, spec: Spec, tmp_path: Path, options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(BadSpec, match=sentence):
        simulate(spec, adversary=cell(FUNCTIONS, BOWL), options=options, out=tmp_path / "a")


def test_a_class_of_a_session_plays_in_no_worker(cell: Cell, spec: Spec, tmp_path: Path) -> None:
    played = simulate(spec, adversary=cell(FUNCTIONS, BOWL), out=tmp_path / "a", finished=False).spec

    with pytest.raises(BadSpec, match="session:Bowl is in none"):
        simulate(played.replace(**{"adversary.isolation": "process"}), out=tmp_path / "b")


def test_a_class_takes_the_exam(cell: Cell) -> None:
    exam = examine(cell(FUNCTIONS, BOWL), budget=2.0)

    assert "failed" not in {line.verdict for line in exam}
    assert len(str(exam).splitlines()) == len(exam)
    assert exam._repr_html_().count("<tr>") == len(exam)


def test_a_broken_class_fails_the_exam_in_the_game_of_a_spec(cell: Cell) -> None:
    broken = cell(FUNCTIONS.replace("0.5 *", "-0.5 *"), BOWL)

    verdicts = {line.about: line for line in examine(broken, "paper-short")}

    assert verdicts["convex f"].verdict == "failed"
    assert "20 agents in 10 dimensions" in verdicts["plays"].text
    assert "&lt;" in examine(broken)._repr_html_()
