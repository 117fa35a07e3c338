"""Go on with a run that was cut short, or play a finished one on."""

from typing import Annotated

import typer
from rich.console import Console

from slaternet.process import DEGRADED
from slaternet_lab.commands.common import JsonOption, RunArgument
from slaternet_lab.commands.playing import NoRestartOption, show_summary
from slaternet_lab.progress import Progress


def resume(
    run: RunArgument,
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", min=1, metavar="N", help="Play to round N, also where the run is finished."),
    ] = None,
    no_restart: NoRestartOption = False,
    as_json: JsonOption = False,
) -> None:
    """Go on with a run whose processes were all cut off; with --rounds, play a finished one on."""
    from slaternet_lab.resumption import prepare

    resumption = prepare(run, rounds=rounds)
    with Progress(resumption.launch.rounds, Console(stderr=as_json)) as progress:
        played = resumption.play(progress, restart=not no_restart)
    show_summary(played, as_json=as_json)
    if played.spec.departures != resumption.spec.departures:
        raise typer.Exit(DEGRADED)
