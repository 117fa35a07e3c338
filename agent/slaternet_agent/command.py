"""The command that starts an agent host."""

from typing import Annotated

import typer

from slaternet.options import stationed
from slaternet.process import run
from slaternet.station import Station


@stationed()
def agent(
    station: Station,
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
    from slaternet.seats import parse
    from slaternet_agent.service import HostService

    raise typer.Exit(run(HostService(station, seats=parse(seats)).run))
