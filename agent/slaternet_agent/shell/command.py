"""The command that starts an agent host."""

from typing import Annotated

import typer

from slaternet.service.config import ProcessConfig
from slaternet.service.main import run
from slaternet.service.options import with_process_options


@with_process_options()
def agent(
    config: ProcessConfig,
    seats: Annotated[
        str,
        typer.Option(
            envvar="SLATERNET_SEATS",
            metavar="K|IDS",
            help="How many agents to seat (12), or which (0-11 or 3,7,9). Absent: an even share.",
        ),
    ] = "",
) -> None:
    """Seat agents of a game and play until it is over."""
    from slaternet.spec.seat_request import parse
    from slaternet_agent.shell.service import HostService

    raise typer.Exit(run(HostService(config, seats=parse(seats)).run))
