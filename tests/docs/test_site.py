"""The site is built without a warning, has every command, and fetches nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.docs.pages import ROOT

from slaternet_lab.cli import app

QUIET = {"NO_MKDOCS_2_WARNING": "1"}
"""Its theme advertises a successor."""
FETCHING = re.compile(
    r"<(?:script|img|link|iframe|source|video|audio)\b[^>]*?\b(?:src|href|srcset)=[\"']?(?:https?:)?//[^>]*>"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, env={**os.environ, **QUIET}, capture_output=True, text=True, timeout=100)
    assert (built.returncode, built.stderr) == (0, ""), built.stderr
    return folder


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))

    assert len(pages) > 25
    assert [found[0] for page in pages for found in FETCHING.finditer(page.read_text(encoding="utf-8"))] == []
    styles = (style.read_text(encoding="utf-8") for style in site.rglob("*.css"))
    assert [style for style in styles if re.search(r"url\([\"']?(?:https?:)?//|@import", style)] == []


def test_the_reference_has_every_command_and_every_algorithm_its_rule(site: Path) -> None:
    commands = (site / "commands.html").read_text(encoding="utf-8")
    algorithms = (site / "algorithms.html").read_text(encoding="utf-8")

    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert [name for name in known if f">slaternet {name}<" not in commands] == []
    assert "x_t     = W_t z_t" in algorithms
    assert (site / "architecture.html").is_file()
