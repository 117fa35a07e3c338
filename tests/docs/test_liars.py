"""The example with liars: what docs/algorithms.md says of it, and that its figure can be drawn again."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import ROOT

from slaternet_lab import Run

EXAMPLE: dict[str, Any] = runpy.run_path(str(ROOT / "examples" / "draw_liars.py"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder, play = tmp_path_factory.mktemp("liars"), EXAMPLE["play"]
    games = enumerate(EXAMPLE["GAMES"].items())
    return {label: play(algorithm, folder / str(number)) for number, (label, (algorithm, *_)) in games}


@pytest.fixture(scope="module")
def lost(runs: dict[str, Run]) -> dict[str, float]:
    """Return what the agents that do not lie have lost in each game."""
    return {label: EXAMPLE["others_losses"](run).sum() for label, run in runs.items()}


def test_two_liars_of_twenty_cost_the_others_nothing_with_clipping_and_much_without(lost: dict[str, float]) -> None:
    assert abs(lost["clipped, two agents lie"] / lost["clipped"] - 1.0) < 0.1
    assert abs(lost["clipped, two agents lie"] / lost["zhang2024"] - 1.0) < 0.1
    assert lost["zhang2024, two agents lie"] > 1.2 * lost["zhang2024"]


def test_the_page_says_what_was_measured(runs: dict[str, Run], lost: dict[str, float]) -> None:
    page = " ".join((ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8").split())

    for name in ("zhang2024", "clipped"):
        lies = f"{name}, two agents lie"
        violations = [runs[label].summary["cumulative_violation"] for label in (name, lies)]
        assert f"| `{name}` | {lost[name]:.0f} | {lost[lies]:.0f} |" in page
        assert "from {:.0f} to {:.0f}".format(*violations) in page


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    EXAMPLE["draw"](tmp_path / "liars.png")

    assert (tmp_path / "liars.png").read_bytes()[:8] == (ROOT / "docs/images/liars.png").read_bytes()[:8]
