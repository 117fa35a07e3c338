"""`slaternet adversaries`: which there are, and the options of one."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from slaternet_lab.commands.options import JsonOption
from slaternet_lab.commands.report import WIDE, print_fields, print_json, print_line, print_table

if TYPE_CHECKING:
    from slaternet_lab.tools.catalogue import Entry


def adversaries(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="A name, pkg.module:Class or path/file.py:Class of an adversary; absent: list all that have a name.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the adversaries that a spec can name, or show what one does and the options it takes.

    Its code is imported in this process.
    """
    from slaternet_lab.tools.catalogue import find, registered

    if target is None:
        _list(list(registered()), as_json)
    else:
        _show(find(target), as_json)


def _list(known: "list[Entry]", as_json: bool) -> None:
    if as_json:
        print_json([asdict(each) for each in known])
        return
    rows = [(each.target, "failed" if each.broken else "ok", *_declared(each).values(), each.title) for each in known]
    print_table(["name", "verdict", "m", "history", "rowwise", "about"], rows, width=WIDE)


def _show(found: "Entry", as_json: bool) -> None:
    if as_json:
        print_json(asdict(found))
        return
    print_fields([("adversary", found.target), ("code", found.code), *_declared(found).items()])
    print_line("")
    for line in (found.about or "It has no docstring.").splitlines():
        print_line(line)
    print_line("")
    options = [
        (each.name, each.type, "required" if each.required else each.default or "absent", each.about)
        for each in found.options
    ]
    print_table(["option", "what it may be", "if absent", "about"], options, width=WIDE)


def _declared(each: "Entry") -> dict[str, str]:
    """Return what the class says about its instances."""
    values = {"m": each.constraints, "history": each.history, "rowwise": each.rowwise}
    return {name: "" if value is None else str(value) for name, value in values.items()}
