"""Print the results of commands: as a table, as pairs of names and values, or as JSON."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slaternet.texts import printable
from slaternet_lab.games.progress import ProgressDisplay

_COLOURS = {
    "note": "cyan",
    "ok": "green",
    **dict.fromkeys(("warning", "untested", "not tested", "not checked"), "yellow"),
    **dict.fromkeys(("error", "failed", "differs"), "red"),
}
"""Of the cells in a column "verdict" that are one of these words."""

WIDE = 200
"""Columns that a wide table may take where no terminal cuts it."""


def console() -> Console:
    """Return the console of results, for the current standard output."""
    return Console(highlight=False)


def bar() -> ProgressDisplay:
    """Return a progress bar on a terminal, removed when the work is done; nothing elsewhere."""
    return ProgressDisplay(None, Console(stderr=True), brief=True)


def print_line(text: str) -> None:
    """Print a line of text, parts of which others may have chosen."""
    console().print(printable(text), soft_wrap=True, markup=False)


def print_json(result: object) -> None:
    """Print a result for programs."""
    typer.echo(json.dumps(result, indent=2))


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str] = (), width: int = 0
) -> None:
    """Print a table; the columns `numbers` are aligned to the right, long cells are folded, never cut.

    Elsewhere than on a terminal it may take `width` columns at least.
    """
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left", overflow="fold")
    for row in rows:
        cells = zip(headings, row, strict=True)
        # not strings: rich would take brackets in them for its markup
        table.add_row(
            *(Text(printable(cell), _COLOURS.get(cell, "") if name == "verdict" else "") for name, cell in cells)
        )
    screen = console()
    if not screen.is_terminal:
        screen.width = max(screen.width, width)
    screen.print(table)


def print_findings(report: Iterable[Any], columns: Mapping[str, str], *, as_json: bool) -> None:
    """Print a report whose lines are dataclasses; `columns` are the table's headings, each with its field."""
    lines = [asdict(each) for each in report]
    if as_json:
        print_json(lines)
    else:
        print_table(list(columns), [[line[field] for field in columns.values()] for line in lines])


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair a line; long values are folded, never cut."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in fields:
        table.add_row(name, Text(printable(value)))
    console().print(table)
