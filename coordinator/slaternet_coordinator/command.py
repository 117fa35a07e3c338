"""The command that starts the coordinator on a resolved spec."""

from pathlib import Path
from typing import Annotated

import typer

from slaternet.errors import BadSpec
from slaternet.options import stationed
from slaternet.process import run
from slaternet.spec import Spec
from slaternet.station import Station

HostsOption = Annotated[
    int | None,
    typer.Option(
        envvar="SLATERNET_HOSTS", min=1, help="Agent hosts to wait for. Absent: until nobody new comes any more."
    ),
]

at_the_centre = stationed(name="coordinator", listen="127.0.0.1:7000", without=("coordinator", "advertise"))
"""Gives a command the options of a coordinator's station."""


def serve_coordinator(spec: Spec, station: Station, hosts: int | None) -> int:
    """Serve until the game is over; the address is the one line on standard output."""
    from slaternet_coordinator.service import CoordinatorService

    service = CoordinatorService(
        spec, station, hosts=hosts, ready=lambda address: print(f"listening on {address}", flush=True)
    )
    return run(service.run)


@at_the_centre
def coordinator(
    spec: Annotated[Path, typer.Argument(help="A resolved spec, as a run folder holds it.")],
    station: Station,
    hosts: HostsOption = None,
) -> None:
    """Seat the hosts of a game, publish its graph round by round, end it."""
    try:
        text = spec.read_text(encoding="utf-8")
    except OSError as error:
        raise BadSpec(f"cannot read the spec {spec}: {error.strerror}; correct the path") from None
    parsed = Spec.parse(text, source=str(spec))
    if parsed.feedback is None:
        raise BadSpec(
            f"{spec} is not resolved, because it lacks [feedback]; start it with `slaternet coordinator` instead"
        )
    raise typer.Exit(serve_coordinator(parsed, station, hosts))
