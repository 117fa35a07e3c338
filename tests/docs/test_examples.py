"""What examples/ has to show: three games that play and pass the exam, and a notebook that gives what it shows."""

import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from tests.docs.pages import ROOT

from slaternet_adversary.testing import examine
from slaternet_lab import load, simulate

EXAMPLES = ROOT / "examples"
GAMES = ("bowl", "portfolio", "tolls")


@pytest.mark.parametrize("name", GAMES)
def test_a_game_plays_and_its_adversary_passes_the_exam(name: str, tmp_path: Path) -> None:
    spec = load(str(EXAMPLES / f"{name}.toml"), ["run.rounds=20"])

    run = simulate(spec, out=tmp_path / "run", figures=False)

    assert run.rounds == 20
    assert [line for line in examine(spec, clock=time.process_time) if line.verdict in ("failed", "warning")] == []


def outputs(notebook: Any) -> list[str]:  # of nbformat, which has no types
    """Return what the cells print or show as text."""
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.get("text") or output["data"]["text/plain"] for output in shown]


@pytest.mark.filterwarnings("ignore")  # of Jupyter's own
def test_the_notebook_runs_to_the_outputs_that_are_committed(tmp_path: Path) -> None:
    committed = nbformat.read(EXAMPLES / "paper.ipynb", as_version=4)
    played = nbformat.read(EXAMPLES / "paper.ipynb", as_version=4)

    NotebookClient(played, timeout=100, resources={"metadata": {"path": str(tmp_path)}}).execute()

    assert outputs(played) == outputs(committed)
    assert len(outputs(committed)) == 3
