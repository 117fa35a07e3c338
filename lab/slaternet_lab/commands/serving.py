"""One service each: what the laboratory adds to the services' own commands."""

import typer

from slaternet_adversary.command import (
    AdvertiseOption,
    CoordinatorOption,
    ForceOption,
    ListenOption,
    OutOption,
    serve_adversary,
)
from slaternet_coordinator.command import HostsOption, serve_coordinator
from slaternet_lab.commands.common import SetOption, SpecArgument


def coordinator(
    spec: SpecArgument = None,
    listen: ListenOption = "127.0.0.1:7000",
    hosts: HostsOption = 0,
    settings: SetOption = None,
) -> None:
    """Seat the hosts of a game, publish its graph round by round, end it."""
    from slaternet_lab.resolve import load

    raise typer.Exit(serve_coordinator(load(spec, settings or ()), listen, hosts))


def adversary(
    coordinator: CoordinatorOption,
    listen: ListenOption = "127.0.0.1:0",
    advertise: AdvertiseOption = "",
    out: OutOption = None,
    force: ForceOption = False,
) -> None:
    """Hold the functions of a game, reveal their values, score the decisions, write the run folder and its figures."""
    code, folder = serve_adversary(coordinator, listen, advertise, out, force=force)
    if code == 0 and folder is not None:
        from slaternet_lab.finish import finish

        finish(folder)
    raise typer.Exit(code)
