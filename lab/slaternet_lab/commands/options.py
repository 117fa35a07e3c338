"""Arguments and options that several commands have."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

SpecArgument = Annotated[
    str | None,
    typer.Argument(metavar="SPEC", help="A shipped name, a file or a run folder; the paper's example if absent."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the spec, as in run.rounds=200; repeatable."),
]
AdversaryOption = Annotated[
    str | None,
    typer.Option(
        "--adversary",
        metavar="TARGET",
        help="Another adversary than the spec's: a name, pkg.module:Class, path/file.py:Class, exec:COMMAND or "
        "grpc://HOST:PORT.",
    ),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="The folder for results; a new one in runs/ if absent.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite what is there already.")]
NoFiguresOption = Annotated[bool, typer.Option("--no-figures", help="Draw no figures; `slaternet plot` can later.")]
JobsOption = Annotated[int | None, typer.Option("--jobs", min=1, help="Games at a time; all cores if absent.")]
SEEDS_HELP = "How many seeds: the spec's and the next ones."


def overrides(settings: Sequence[str] | None, adversary: str | None) -> list[str]:
    """Return the settings of --set and --adversary; another adversary than the spec's does not get its options."""
    return [*([] if adversary is None else [f"adversary.plugin={adversary}"]), *(settings or ())]
