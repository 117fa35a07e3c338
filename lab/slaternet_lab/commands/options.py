"""Arguments and options that several commands have."""

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
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="The folder for results; a new one in runs/ if absent.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite what is there already.")]
JobsOption = Annotated[int | None, typer.Option("--jobs", min=1, help="Games at a time; all cores if absent.")]
SEEDS_HELP = "How many seeds: the spec's and the next ones."
