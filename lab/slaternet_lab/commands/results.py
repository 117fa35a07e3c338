"""After a game: show, draw, export and compare run folders."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slaternet.errors import BadSpec, Diverged
from slaternet_lab.commands.common import JsonOption, RunArgument, print_json
from slaternet_lab.commands.playing import show_summary
from slaternet_lab.folder import Run
from slaternet_lab.folder import diff as find_difference


def show(run: RunArgument, as_json: JsonOption = False) -> None:
    """Show how a game ended, or how far it has come."""
    show_summary(Run.open(run), as_json=as_json)


def plot(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders; several are drawn together.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the figures; the run folder if there is one run.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw loss.png and violation.png: cumulative loss and violation over the rounds, with the zero baseline."""
    from slaternet_lab.plots import draw

    opened = [Run.open(each) for each in runs]
    if out is None and len(opened) > 1:
        raise BadSpec("--out is missing; say where the figures of several runs go, for example --out figures")
    paths = [str(path) for path in draw(opened, out or opened[0].folder)]
    if as_json:
        print_json(paths)
    else:
        typer.echo("\n".join(paths))


def export(
    run: RunArgument,
    formats: Annotated[
        str, typer.Option("--format", metavar="FORMAT,...", help="Of csv, parquet and npz; parquet needs pyarrow.")
    ] = "csv",
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the files; RUN-export if absent.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there already.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write metrics and recorded decisions as tables for other tools."""
    from slaternet_lab import export as exporting

    opened = Run.open(run)
    names = [name.strip() for name in formats.split(",")]
    folder = out or opened.folder.resolve().with_name(f"{opened.name}-export")
    paths = [str(path) for path in exporting.export(opened, names, folder, force=force)]
    if as_json:
        print_json(paths)
    else:
        typer.echo("\n".join(paths))
    if opened.decisions is None:
        when = (
            "follow when the game is over" if opened.spec.record.decisions else "are kept with record.decisions = true"
        )
        typer.echo(f"without decisions: they {when}", err=True)


def diff(a: RunArgument, b: RunArgument, as_json: JsonOption = False) -> None:
    """Name the first round where two runs part, and the agent where decisions are recorded; exit code 5 if they do."""
    first, second = Run.open(a), Run.open(b)
    found = find_difference(first, second)
    if as_json:
        print_json({"same": found is None, **(asdict(found) if found else {"common": first.rounds})})
        raise typer.Exit(Diverged.exit_code if found else 0)
    if found is None:
        typer.echo(f"the same to the bit: {first.rounds} rounds")
        return
    typer.echo(_sentence(found.round, found.agent, found.common))
    raise typer.Exit(Diverged.exit_code)


def _sentence(round: int | None, agent: int | None, common: int) -> str:
    if round is None:
        return f"the same through round {common}, where one of the two ends"
    who = f", at agent {agent}" if agent is not None else " (record.decisions = true would name the agent)"
    return f"they part in round {round}{who}"
