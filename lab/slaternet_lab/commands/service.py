"""Ask or end a running game."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from slaternet_lab.commands.common import AddressArgument, JsonOption, console, print_fields, print_json

if TYPE_CHECKING:
    from slaternet.model import Breach


def status(address: AddressArgument, as_json: JsonOption = False) -> None:
    """Ask a coordinator how its game stands."""
    from slaternet_lab import remote

    answer = remote.status(address)
    if as_json:
        print_json(asdict(answer))
        return
    total = f" of {answer.rounds}" if answer.rounds else ""
    fields = [
        ("phase", answer.phase),
        ("round", f"{answer.round}{total} (graphs published to {answer.published})"),
        ("loss", f"{answer.cumulative_loss:.2f} (cumulative)"),
        ("violation", f"{answer.cumulative_violation:.2f} (cumulative)"),
        ("waiting for", answer.waiting_for),
        ("failure", answer.failure),
    ]
    print_fields((name, value) for name, value in fields if value)
    table = Table(box=None, pad_edge=False)
    for heading in ("process", "address", "agents", "round", "connected"):
        table.add_column(heading)
    for host in answer.hosts:
        connected = "yes" if host.connected else "no"
        table.add_row(host.name, host.address, str(host.seats), str(host.round), connected)
    console().print(table)
    if answer.breaches:
        console().print(_breaches(answer.breaches))


def _breaches(breaches: "tuple[Breach, ...]") -> Table:
    """Return who was refused what, by whom, and how often."""
    table = Table(box=None, pad_edge=False)
    for heading in ("breach", "caller", "refused by", "times"):
        table.add_column(heading)
    for each in breaches:
        table.add_row(each.kind, each.host or "unknown", each.server, str(each.count))
    return table


def stop(address: AddressArgument, as_json: JsonOption = False) -> None:
    """End a running game with the round that its fastest host has entered; the run folder is completed."""
    from slaternet_lab import remote

    last = remote.stop(address)
    if as_json:
        print_json({"last_round": last})
    elif last is None:
        typer.echo("stopping; the hosts are being asked how far they are")
    else:
        typer.echo(f"stopping; the last round is {last}")
