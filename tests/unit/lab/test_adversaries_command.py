"""`slaternet adversaries`: all that have a name, and the options of one in words."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slaternet.errors import PluginFailed
from slaternet.spec import plugins
from slaternet_lab.cli import app
from slaternet_lab.tools import catalogue

MINE = '''
"""Markets of the lowlands."""
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, PositiveInt

from slaternet_adversary import Adversary

print("imported")

class Market(Adversary):
    """Prices as they come.

    The rest of it.
    """

    constraints = 2

    def __init__(
        self, game, rows: PositiveInt, *,
        share: Annotated[float, Field(gt=0, lt=1), "between 0 and 1"] = 0.5,
        season: Literal["dry", "wet"] = "dry",
        pair: tuple[float, bool] | None = None,
        steps: Annotated[list[int], Field(description="of the ladder")] = [1],
        data: Path | None = None,
        table: np.ndarray | None = None,
        plain={},
    ): ...

    def play(self, round, past): ...

class Bare(Adversary):
    def play(self, round, past): ...
'''


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["adversaries", *arguments])
    assert result.exception is None, result.output
    return result.stdout


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return f"{tmp_path / 'mine.py'}:Market"


def test_an_adversary_is_shown_with_its_docstring_and_its_options_in_words(mine: str) -> None:
    found = json.loads(shown(mine, "--json"))

    assert (found["target"], found["constraints"], found["history"], found["rowwise"]) == (mine, 2, None, None)
    assert found["about"] == "Prices as they come.\n\nThe rest of it.\n\nMarkets of the lowlands."
    assert [tuple(each.values()) for each in found["options"]] == [
        ("rows", "a whole number above 0", "", True, ""),
        ("share", "a number above 0 and below 1", "0.5", False, "between 0 and 1"),
        ("season", '"dry" or "wet"', '"dry"', False, ""),
        ("pair", "a list of a number and true or false", "", False, ""),
        ("steps", "a list, each a whole number", "[1]", False, "of the ladder"),
        ("data", "a file", "", False, ""),
        ("table", "anything (numpy.ndarray | None)", "", False, ""),
        ("plain", "anything", "{}", False, ""),
    ]


def test_the_table_for_people_has_the_same(mine: str) -> None:
    lines = [" ".join(line.split()) for line in shown(mine).splitlines()]

    assert lines[0].startswith("adversary /")
    assert {
        "The rest of it.",
        "rows a whole number above 0 required",
        "share a number above 0 and below 1 0.5 between 0 and 1",
        "data a file absent",
    } <= set(lines)


def test_a_class_without_docstring_and_options_has_neither(mine: str) -> None:
    found = catalogue.find(mine.replace("Market", "Bare"))

    assert (found.about, found.options, found.constraints) == ("Markets of the lowlands.", (), None)


def test_all_that_have_a_name_are_listed_and_a_broken_one_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "broken-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(
        "[slaternet.adversaries]\nbroken = broken_market:Market\nabsent = nowhere_at_all:Market\n"
    )
    (tmp_path / "broken_market.py").write_text("raise KeyError('prices')\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins._registered.cache_clear()
    try:
        found = {each["target"]: each for each in json.loads(shown("--json"))}
        table = shown()
    finally:
        plugins._registered.cache_clear()

    assert "raised KeyError: 'prices', at " in found["broken"]["about"]
    assert "nowhere_at_all, which is not installed" in found["absent"]["about"]
    assert [name for name, each in found.items() if each["broken"]] == ["absent", "broken"]
    assert [line.split()[:2] for line in table.splitlines() if line.startswith(("moving", "broken"))] == [
        ["broken", "failed"],
        ["moving-target", "ok"],
    ]


def test_what_cannot_be_loaded_is_one_sentence_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0\n")

    with pytest.raises(PluginFailed, match=r"ZeroDivisionError: division by zero, at /.*/bad\.py:1 "):
        catalogue.find(f"{tmp_path / 'bad.py'}:Bad")
