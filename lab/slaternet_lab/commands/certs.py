"""`slaternet certs`: the certificates of a game over mutual TLS."""

import shlex
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.network.certificates import CA
from slaternet_lab.commands.options import JsonOption
from slaternet_lab.commands.report import bar, print_fields, print_json

_HOSTS = 32
_DAYS = 365


def certs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where they are made; what is there is kept.")],
    hosts: Annotated[
        int | None,
        typer.Option(min=1, max=LIMITS.hosts, help=f"For hosts agent-1, agent-2, ... up to this; {_HOSTS} if absent."),
    ] = None,
    names: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="For hosts called so, instead of --hosts.", show_default=False)
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long new ones are valid.")] = _DAYS,
    as_json: JsonOption = False,
) -> None:
    """Make a CA and a certificate for everyone in a game, for --tls; run it again to add hosts."""
    from slaternet_lab.tools.certificates import ALWAYS, make

    if hosts is not None and names is not None:
        raise BadSpec("--hosts and --names say the same thing in two ways; give one of them")
    numbered = (f"agent-{number}" for number in range(1, (hosts or _HOSTS) + 1))
    called = list(numbered) if names is None else [name.strip() for name in names.split(",")]
    with bar() as shown:
        made = make(folder, called, days, lambda missing: shown.track(missing, "making", len(missing)))
    kept = [each for each in (CA, *(each.name for each in ALWAYS), *called) if each not in set(made)]
    if as_json:
        print_json({"folder": str(folder), "made": made, "kept": kept})
    else:
        _explain(folder, called, made, kept)


def _explain(folder: Path, hosts: Sequence[str], made: Sequence[str], kept: Sequence[str]) -> None:
    """Print what was made and kept, and where each folder belongs."""
    print_fields([("made", _listed(made) or "nothing"), *([("kept", _listed(kept))] if kept else [])])
    typer.echo("Copy each folder, under its name, to the machine of its process:")
    for name, where in (
        ("coordinator", "to the coordinator's"),
        ("adversary", "to the adversary's"),
        (hosts[0], f"to that of the agent with --name {hosts[0]}" + (", and so on" if len(hosts) > 1 else "")),
        ("operator", "to where slaternet status and slaternet stop are used"),
    ):
        typer.echo(f"  {folder / name}  {where}")
    typer.echo(f"Say --tls {shlex.quote(str(folder))} in every command there, or wherever you put them.")
    typer.echo(f"{folder / CA / 'key.pem'} stays here: whoever has it can let anybody in.")


def _listed(names: Iterable[str]) -> str:
    """Return the names with commas; a row of numbered ones by its ends."""

    def row_of(each: tuple[int, str]) -> tuple[str, int | None]:
        """Return what a name shares with its neighbours in a row of numbered names, and with no other."""
        stem, _, number = each[1].rpartition("-")
        return (stem, each[0] - int(number)) if number.isdecimal() else (each[1], None)

    rows = []
    for _, numbered in groupby(enumerate(names), key=row_of):
        row = [name for _, name in numbered]
        rows += [f"{row[0]} to {row[-1]}"] if len(row) > 2 else row
    return ", ".join(rows)
