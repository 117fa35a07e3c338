"""The command that starts the adversary."""

from pathlib import Path
from typing import Annotated

import typer

from slaternet.limits import LIMITS
from slaternet.service.config import ProcessConfig
from slaternet.service.main import run
from slaternet.service.options import with_process_options

OutOption = Annotated[
    Path | None, typer.Option(envvar="SLATERNET_OUT", help="The run folder; runs/NAME-TIME if absent.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite a run in that folder.")]
KeepOption = Annotated[
    int | None,
    typer.Option(
        "--journal-keep",
        envvar="SLATERNET_JOURNAL_KEEP",
        metavar="ROUNDS",
        help="Cut the journal of a game without end to its newest rounds; all if absent.",
    ),
]
MetricsValuesOption = Annotated[
    bool,
    typer.Option(
        "--metrics-values", envvar="SLATERNET_METRICS_VALUES", help="Show losses and violations in /metrics, too."
    ),
]
ServedOption = Annotated[
    str,
    typer.Option(
        "--served",
        envvar="SLATERNET_SERVED",
        metavar="HOST:PORT",
        help="Where `slaternet adversary-serve` serves the spec's plugin; it is started here if absent.",
    ),
]
PatienceOption = Annotated[
    float,
    typer.Option(
        "--plugin-patience",
        envvar="SLATERNET_PLUGIN_PATIENCE",
        metavar="SECONDS",
        min=0.0,
        help="How long the server of a grpc:// plugin is dialled again before the game pauses.",
    ),
]

adversary_options = with_process_options(name="adversary")
"""Gives a command the options of an adversary's process."""


def serve_adversary(
    config: ProcessConfig,
    out: Path | None,
    *,
    force: bool,
    journal_keep: int | None,
    metrics_values: bool,
    plugin_patience: float,
    served: str,
) -> tuple[int, Path | None]:
    """Serve until the game is over; return the exit code and the run folder."""
    from slaternet_adversary.shell.service import AdversaryService

    service = AdversaryService(
        config,
        out,
        force=force,
        journal_keep=journal_keep,
        metrics_values=metrics_values,
        plugin_patience=plugin_patience,
        served=served,
    )
    return run(service.run), service.folder


@adversary_options
def adversary(
    config: ProcessConfig,
    out: OutOption = None,
    force: ForceOption = False,
    journal_keep: KeepOption = None,
    metrics_values: MetricsValuesOption = False,
    plugin_patience: PatienceOption = LIMITS.plugin_patience,
    served: ServedOption = "",
) -> None:
    """Hold the functions of a game, reveal their values, score the decisions, write the run folder."""
    code, _ = serve_adversary(
        config,
        out,
        force=force,
        journal_keep=journal_keep,
        metrics_values=metrics_values,
        plugin_patience=plugin_patience,
        served=served,
    )
    raise typer.Exit(code)
