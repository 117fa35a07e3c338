"""The command that starts the coordinator on a resolved spec."""

from pathlib import Path
from typing import Annotated

import typer

from slaternet.errors import BadSpec
from slaternet.process import run
from slaternet.spec import Spec

ListenOption = Annotated[str, typer.Option(envvar="SLATERNET_LISTEN", help="HOST:PORT; port 0 takes a free one.")]
HostsOption = Annotated[
    int,
    typer.Option(
        envvar="SLATERNET_HOSTS", min=0, help="Agent hosts to wait for; 0: until the seats they ask for are all."
    ),
]


def serve_coordinator(spec: Spec, listen: str, hosts: int) -> int:
    """Serve until the game is over; the address is the one line on standard output."""
    from slaternet_coordinator.service import CoordinatorService

    service = CoordinatorService(
        spec, listen=listen, hosts=hosts or None, ready=lambda address: print(f"listening on {address}", flush=True)
    )
    return run(service.run)


def coordinator(
    spec: Annotated[Path, typer.Argument(help="A resolved spec, as a run folder holds it.")],
    listen: ListenOption = "127.0.0.1:7000",
    hosts: HostsOption = 0,
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
    raise typer.Exit(serve_coordinator(parsed, listen, hosts))
