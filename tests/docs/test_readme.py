"""The README is short, begins with the two commands a stranger needs, and its code is what it says."""

import re
import runpy
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.docs.pages import PAGES, ROOT, anchors, blocks, first_cells, read, section
from typer.testing import CliRunner

from slaternet_lab.cli import app

README = "README.md"
GENERATED = {"docs/commands.md"}
"""Pages that `make docs` makes."""


def only_python(title: str) -> str:
    (code,) = (
        block.text for block in blocks(README) if block.language == "python" and block.text in section(README, title)
    )
    return code


def test_the_first_two_commands_are_the_two_a_stranger_needs() -> None:
    lines = [line.split("#")[0].strip() for block in blocks(README) for line in block.text.splitlines()]

    assert lines[:2] == ["make run", "make test"]
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_it_is_no_manual() -> None:
    assert len(read(README).splitlines()) <= 170


def test_it_counts_what_can_be_named_in_a_spec() -> None:
    groups = ("algorithms", "graphs", "adversaries")
    algorithms, graphs, adversaries = (len(entry_points(group=f"slaternet.{each}")) for each in groups)
    sets = len(first_cells(read("docs/sets.md")))

    said = f"{algorithms} algorithms, {graphs} graphs, {adversaries} adversaries and {sets} kinds of sets"
    assert said in " ".join(read(README).split())


def test_the_five_lines_of_python_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = only_python("From Python")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "five.py").write_text(code)

    runpy.run_path("five.py")

    assert len(code.splitlines()) == 5
    assert "(100, 20, 10)" in capsys.readouterr().out


def test_the_adversary_of_the_readme_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bowl.py").write_text(only_python("Your own adversary"))
    named = ["adversary.plugin=bowl.py:Bowl", "adversary.options={budget = 2.0}"]
    settings = [argument for each in [*named, "run.rounds=20"] for argument in ("--set", each)]

    outcome = CliRunner().invoke(app, ["simulate", "paper-short", *settings, "--out", "bowl"])

    assert outcome.exit_code == 0
    assert (tmp_path / "bowl" / "summary.json").exists()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", read(page)):
        target = ((folder / path) if path else ROOT / page).resolve()
        name = target.relative_to(ROOT).as_posix()
        assert target.exists() or name in GENERATED, path
        if anchor and name not in GENERATED:
            assert anchor in anchors(name), f"{path}#{anchor}"
