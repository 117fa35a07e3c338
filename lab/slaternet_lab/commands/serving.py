"""One service each: what the laboratory adds to the services' own commands."""

import typer

from slaternet.station import Station
from slaternet_adversary.command import ForceOption, KeepOption, OutOption, opposite, serve_adversary
from slaternet_coordinator.command import (
    HostsOption,
    LostAfterOption,
    PolicyOption,
    at_the_centre,
    serve_coordinator,
)
from slaternet_coordinator.rules import LOST_AFTER, Policy
from slaternet_lab.commands.common import SetOption, SpecArgument


@at_the_centre
def coordinator(
    station: Station,
    spec: SpecArgument = None,
    hosts: HostsOption = None,
    policy: PolicyOption = Policy.WAIT,
    lost_after: LostAfterOption = LOST_AFTER,
    settings: SetOption = None,
) -> None:
    """Seat the hosts of a game, publish its graph round by round, end it."""
    from slaternet_lab.resolve import load_for_all

    raise typer.Exit(serve_coordinator(load_for_all(spec, settings or ()), station, hosts, policy, lost_after))


@opposite
def adversary(
    station: Station, out: OutOption = None, force: ForceOption = False, journal_keep: KeepOption = None
) -> None:
    """Hold the functions of a game, reveal their values, score the decisions, write the run folder and its figures."""
    code, folder = serve_adversary(station, out, force=force, journal_keep=journal_keep)
    if code == 0 and folder is not None:
        from slaternet_lab.finish import finish

        finish(folder)
    raise typer.Exit(code)
