"""What a game has cost its network, in words and in a table of its hosts."""

from collections.abc import Iterator
from typing import Any

from rich.filesize import decimal
from rich.table import Table

from slaternet_lab.commands.common import console
from slaternet_lab.folder import Run

_MOST = 12
"""Hosts of the table: more would hide what stands above it."""


def network_fields(run: Run) -> Iterator[tuple[str, str]]:
    """Name what the network carried; nothing of a simulation, nor of a run that has not said."""
    network = _network(run)
    if not network:
        return
    sent, received = decimal(network["bytes_sent"]), decimal(network["bytes_received"])
    yield "network", f"{network['frames']} frames; hosts sent {sent} and received {received}"
    yield "waiting", f"{network['waited']:.2f} s, summed over hosts; skew {1e3 * network['skew']:.2f} ms a round"


def print_hosts(run: Run) -> None:
    """Print a line for each host, where there are several; of many, those that came latest."""
    hosts: dict[str, dict[str, float]] = _network(run).get("hosts", {})
    if len(hosts) < 2:
        return
    latest = sorted(hosts, key=lambda name: -hosts[name]["lag"])[:_MOST]
    table = Table("host", box=None, pad_edge=False)
    for column in ("seats", "frames", "sent", "received", "waited", "lag a round"):
        table.add_column(column, justify="right")
    for name in (name for name in hosts if name in latest):
        host = hosts[name]
        sizes = (decimal(int(host[name])) for name in ("bytes_sent", "bytes_received"))
        times = (f"{host['waited']:.2f} s", f"{1e3 * host['lag']:.2f} ms")
        table.add_row(name, str(host["seats"]), str(host["frames"]), *sizes, *times)
    console().print("", table)
    if len(hosts) > _MOST:
        console().print(f"and {len(hosts) - _MOST} hosts that came earlier: all are in summary.json")


def _network(run: Run) -> dict[str, Any]:
    network: dict[str, Any] = run.summary.get("network", {})
    return network if network.get("bytes_sent") else {}
