"""Look before playing: shipped specs, and the theory's assumptions on it."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from slaternet.errors import BadSpec
from slaternet_lab import library
from slaternet_lab.commands.common import (
    JsonOption,
    SetOption,
    SpecArgument,
    console,
    print_fields,
    print_json,
)

_COLOURS = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "red"}


def specs(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The spec to print; absent: list all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the shipped specs, or print one to edit."""
    if name is not None:
        typer.echo(library.shipped(name).text, nl=False)
        return
    titles = [(each, library.shipped(each).title) for each in library.names()]
    if as_json:
        print_json([{"name": each, "title": title} for each, title in titles])
    else:
        print_fields(titles)


def check(spec: SpecArgument = None, settings: SetOption = None, as_json: JsonOption = False) -> None:
    """Validate a spec and the theory's assumptions on it; no agent plays. Errors end with exit code 2."""
    from slaternet_lab.assumptions.report import examine
    from slaternet_lab.parts import assemble
    from slaternet_lab.resolve import read

    report = examine(assemble(*read(spec, settings or ())), thorough=True)
    if as_json:
        print_json([asdict(each) for each in report])
    else:
        table = Table(box=None, pad_edge=False)
        for heading in ("verdict", "about", "figures"):
            table.add_column(heading)
        for each in report:
            table.add_row(f"[{_COLOURS[each.verdict]}]{each.verdict}[/]", each.about, each.text)
        console().print(table)
    for each in report:
        if each.verdict == "error":
            raise BadSpec(each.text)
