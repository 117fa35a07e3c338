"""The command that starts the adversary."""

from pathlib import Path
from typing import Annotated

import typer

from slaternet.process import run

CoordinatorOption = Annotated[str, typer.Option(envvar="SLATERNET_COORDINATOR", help="Its HOST:PORT.")]
ListenOption = Annotated[str, typer.Option(envvar="SLATERNET_LISTEN", help="HOST:PORT; port 0 takes a free one.")]
AdvertiseOption = Annotated[
    str, typer.Option(envvar="SLATERNET_ADVERTISE", help="HOST:PORT for others, where it differs from --listen.")
]
OutOption = Annotated[
    Path | None, typer.Option(envvar="SLATERNET_OUT", help="The run folder; runs/NAME-TIME if absent.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite a run in that folder.")]


def serve_adversary(
    coordinator: str, listen: str, advertise: str, out: Path | None, *, force: bool
) -> tuple[int, Path | None]:
    """Serve until the game is over; return the exit code and the run folder."""
    from slaternet_adversary.service import AdversaryService

    service = AdversaryService(coordinator, out, listen=listen, advertise=advertise, force=force)
    return run(service.run), service.folder


def adversary(
    coordinator: CoordinatorOption,
    listen: ListenOption = "127.0.0.1:0",
    advertise: AdvertiseOption = "",
    out: OutOption = None,
    force: ForceOption = False,
) -> None:
    """Hold the functions of a game, reveal their values, score the decisions, write the run folder."""
    code, _ = serve_adversary(coordinator, listen, advertise, out, force=force)
    raise typer.Exit(code)
