"""The services of a game: start one, ask a running one, end the game."""

from typing import Annotated

import typer

from slaternet.limits import LIMITS
from slaternet.service.config import ProcessConfig
from slaternet.service.options import InsecureOption, TlsOption
from slaternet_adversary.shell import command as adversary_command
from slaternet_coordinator.engine.rules import LOST_AFTER, Policy
from slaternet_coordinator.shell import command
from slaternet_lab.commands.options import AdversaryOption, JsonOption, SetOption, SpecArgument, overrides
from slaternet_lab.commands.report import console, print_json

AddressArgument = Annotated[str, typer.Argument(metavar="ADDRESS", help="HOST:PORT of the coordinator.")]


@command.coordinator_options
def coordinator(
    config: ProcessConfig,
    spec: SpecArgument = None,
    hosts: command.HostsOption = None,
    policy: command.PolicyOption = Policy.WAIT,
    lost_after: command.LostAfterOption = LOST_AFTER,
    adversary: AdversaryOption = None,
    settings: SetOption = None,
) -> None:
    """Seat the hosts of a game, publish its graph round by round, end it."""
    from slaternet_lab.specs.resolve import load_for_all

    game = load_for_all(spec, overrides(settings, adversary))
    raise typer.Exit(command.serve_coordinator(game, config, hosts, policy, lost_after))


@adversary_command.adversary_options
def adversary(
    config: ProcessConfig,
    out: adversary_command.OutOption = None,
    force: adversary_command.ForceOption = False,
    journal_keep: adversary_command.KeepOption = None,
    metrics_values: adversary_command.MetricsValuesOption = False,
    plugin_patience: adversary_command.PatienceOption = LIMITS.plugin_patience,
    served: adversary_command.ServedOption = "",
) -> None:
    """Hold the functions of a game, reveal their values, score the decisions, write the run folder and its figures."""
    code, folder = adversary_command.serve_adversary(
        config,
        out,
        force=force,
        journal_keep=journal_keep,
        metrics_values=metrics_values,
        plugin_patience=plugin_patience,
        served=served,
    )
    if code == 0 and folder is not None:
        from slaternet_lab.games.finish import finish

        finish(folder)
    raise typer.Exit(code)


def status(
    address: AddressArgument,
    watch: Annotated[bool, typer.Option("--watch", help="Show it anew every second, until the game is over.")] = False,
    tls: TlsOption = None,
    insecure: InsecureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Ask a coordinator how its game stands: how far each host is, who waits for whom, what went wrong."""
    from slaternet_lab.status import operator, page

    security = operator.secured(tls, insecure=insecure)
    if watch:
        from slaternet_lab.status.watch import Lines, Objects, Screen
        from slaternet_lab.status.watch import watch as watch_game

        plain = Objects if as_json else Lines
        screen = console()
        watch_game(address, security, Screen(screen) if screen.is_terminal and not as_json else plain(typer.echo))
        return
    game = operator.ask(operator.ask_status, address, security)
    if as_json:
        print_json(page.as_json(game))
    else:
        console().print(page.page(game.status))


def stop(
    address: AddressArgument, tls: TlsOption = None, insecure: InsecureOption = False, as_json: JsonOption = False
) -> None:
    """End a running game with the round that its fastest host has entered; the run folder is completed."""
    from slaternet_lab.status import operator

    last = operator.ask(operator.ask_stop, address, operator.secured(tls, insecure=insecure))
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
    from slaternet_lab.status import operator

    operator.ask(operator.ask_health, address, operator.secured(tls, insecure=insecure), identity)
    if as_json:
        print_json({"serving": True})
    else:
        typer.echo("serving")
