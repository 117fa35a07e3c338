"""Ask or end a running game."""

from typing import Annotated

import typer

from slaternet.options import InsecureOption, TlsOption
from slaternet_lab.commands.common import AddressArgument, JsonOption, console, print_json


def status(
    address: AddressArgument,
    watch: Annotated[bool, typer.Option("--watch", help="Show it anew every second, until the game is over.")] = False,
    tls: TlsOption = None,
    insecure: InsecureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Ask a coordinator how its game stands: how far each host is, who waits for whom, what went wrong."""
    from slaternet_lab import remote, standing

    security = remote.secured(tls, insecure=insecure)
    if watch:
        from slaternet_lab import watch as watching

        plain = watching.Objects if as_json else watching.Lines
        screen = console()
        view = watching.Screen(screen) if screen.is_terminal and not as_json else plain(typer.echo)
        watching.watch(address, security, view)
        return
    answer = remote.standing(address, security)
    if as_json:
        print_json(standing.as_json(answer))
    else:
        console().print(standing.page(answer.status))


def stop(
    address: AddressArgument, tls: TlsOption = None, insecure: InsecureOption = False, as_json: JsonOption = False
) -> None:
    """End a running game with the round that its fastest host has entered; the run folder is completed."""
    from slaternet_lab import remote

    last = remote.stop(address, remote.secured(tls, insecure=insecure))
    if as_json:
        print_json({"last_round": last})
    elif last is None:
        typer.echo("stopping; the hosts are being asked how far they are")
    else:
        typer.echo(f"stopping; the last round is {last}")


def health(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="HOST:PORT of any service.")],
    identity: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="With --tls: whose certificate to expect, by name or role; host stands for any agent host.",
        ),
    ] = "coordinator",
    tls: TlsOption = None,
    insecure: InsecureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Ask a service whether it serves; exit code 0 if so, 4 if not."""
    from slaternet_lab import remote

    remote.health(address, identity, remote.secured(tls, insecure=insecure))
    if as_json:
        print_json({"serving": True})
    else:
        typer.echo("serving")
