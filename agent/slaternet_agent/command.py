"""The command that starts an agent host."""

from typing import Annotated

import typer

from slaternet.process import run


def agent(
    name: Annotated[str, typer.Option(envvar="SLATERNET_NAME", help="A name of its own, such as agent-1.")],
    coordinator: Annotated[str, typer.Option(envvar="SLATERNET_COORDINATOR", help="Its HOST:PORT.")],
    seats: Annotated[
        int, typer.Option(envvar="SLATERNET_SEATS", min=0, help="How many agents to seat; 0: an even share.")
    ] = 0,
    listen: Annotated[
        str, typer.Option(envvar="SLATERNET_LISTEN", help="HOST:PORT; port 0 takes a free one.")
    ] = "127.0.0.1:0",
    advertise: Annotated[
        str, typer.Option(envvar="SLATERNET_ADVERTISE", help="HOST:PORT for others, where it differs from --listen.")
    ] = "",
) -> None:
    """Seat agents of a game and play until it is over."""
    from slaternet_agent.service import HostService

    service = HostService(coordinator, name, listen=listen, advertise=advertise, seats=seats)
    raise typer.Exit(run(service.run))
