"""The report says what held, what failed and what was not tried, and why."""

import io
import json
from pathlib import Path

from rich.console import Console
from tests.reliability.report import Figures, Say, Skipped, show, summed_up, tried, write


def holds(figures: Figures, say: Say) -> None:
    figures["kills"] = {"agent": 3}


def fails(figures: Figures, say: Say) -> None:
    figures["seeds"] = 7
    raise AssertionError("seed 8 has ended in other bits")


def needs_root(figures: Figures, say: Say) -> None:
    raise Skipped("network namespaces need root")


def quiet(words: str) -> None:
    del words


def test_a_part_that_fails_keeps_its_figures_and_those_after_it_are_tried(tmp_path: Path) -> None:
    parts = [tried(part.__name__, part, quiet) for part in (fails, needs_root, holds)]
    write(summed_up(parts), tmp_path / "report.json")

    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["held"], report["complete"]) == (False, False)
    assert {name: part["verdict"] for name, part in report["parts"].items()} == {
        "fails": "failed",
        "needs_root": "skipped",
        "holds": "held",
    }
    assert report["parts"]["fails"]["failures"] == ["AssertionError: seed 8 has ended in other bits"]
    assert report["parts"]["fails"]["seeds"] == 7
    assert report["parts"]["needs_root"]["skipped"] == "network namespaces need root"
    assert report["parts"]["holds"]["kills"] == {"agent": 3}
    assert report["versions"]["slaternet"]


def test_a_report_in_which_everything_held_says_so() -> None:
    report = summed_up([tried("holds", holds, quiet)])

    assert report["held"]
    assert report["complete"]


def test_the_table_names_verdicts_reasons_and_figures() -> None:
    console = Console(record=True, width=200, file=io.StringIO())

    show([tried(part.__name__, part, quiet) for part in (fails, needs_root, holds)], console)

    text = console.export_text()
    for words in ("failed", "seed 8 has ended in other bits; seeds 7", "network namespaces need root", "kills agent 3"):
        assert words in text
