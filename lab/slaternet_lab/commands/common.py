"""What the commands share: their arguments, and how results are shown."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

SpecArgument = Annotated[
    str | None,
    typer.Argument(metavar="SPEC", help="A shipped name, a file or a run folder; the paper's example if absent."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the spec, as in run.rounds=200; repeatable."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
AddressArgument = Annotated[str, typer.Argument(metavar="ADDRESS", help="HOST:PORT of the coordinator.")]


def console() -> Console:
    """Return the console of results; made when needed, so that it writes where standard output is then."""
    return Console(highlight=False)


def bars() -> Progress:
    """Return bars for a terminal, gone when the work is done, and nothing elsewhere."""
    screen = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20), TimeRemainingColumn())
    return Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)


def print_json(result: object) -> None:
    """Print a result for programs."""
    typer.echo(json.dumps(result, indent=2))


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair a line; long values are folded, never cut."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in fields:
        table.add_row(name, value)
    console().print(table)
