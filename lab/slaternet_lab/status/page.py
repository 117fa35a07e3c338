"""How a running game stands: as a page, as a line, as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slaternet.model import HostStatus, Incident, Role, Status
from slaternet.service.logs import printable
from slaternet_lab.status.operator import GameStatus

_NAMED = 3
"""How many are called by name in one cell."""
_LAST = 3
"""How many breaches and troubles are shown where there is little room."""
_BESIDES = 11
"""Lines of a page that hold neither processes nor breaches nor troubles."""


def lags(status: Status) -> dict[str, int]:
    """Return how many rounds each process is behind the furthest host; who has no part in them is left out."""
    furthest = max((each.round for each in status.hosts if each.seats), default=0)
    playing = (each for each in status.hosts if each.seats or each.role is Role.ADVERSARY)
    return {each.name: max(0, furthest - each.round) for each in playing}


def as_json(standing: GameStatus) -> dict[str, object]:
    """Return everything that is known, for programs."""
    behind = lags(standing.status)
    known: dict[str, object] = {"run": standing.run, **asdict(standing.status)}
    known["hosts"] = [{**asdict(each), "lag": behind.get(each.name)} for each in standing.status.hosts]
    return known


def line(status: Status) -> str:
    """Return how a game stands in one line, for logs."""
    behind = lags(status)
    slowest = max((each.name for each in status.hosts if each.seats), key=behind.__getitem__, default="")
    parts = (
        status.phase,
        f"round {status.round}/{status.rounds}" if status.rounds else f"round {status.round}",
        f"{status.rounds_per_second:.1f} rounds/s" if status.rounds_per_second else "",
        f"lag {behind[slowest]} ({slowest})" if slowest and behind[slowest] else "",
        f"waiting for {status.waiting_for}" if status.waiting_for else "",
        status.failure,
    )
    return printable("  ".join(part for part in parts if part))


def told(trouble: Incident) -> str:
    """Return what went wrong, and when, in one line."""
    return printable(f"{_ago(trouble)}: {trouble.what}")


def _ago(trouble: Incident) -> str:
    seconds = round(trouble.ago)
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def page(status: Status, height: int | None = None) -> RenderableType:
    """Return everything worth reading; in a given height, those furthest behind and what happened last."""
    parts: list[RenderableType] = [_fields(status)]
    shown: Sequence[HostStatus] = status.hosts
    if height is not None:
        status = replace(status, breaches=status.breaches[:_LAST], troubles=status.troubles[-_LAST:])
        others = sum(2 + len(each) for each in (status.breaches, status.troubles) if each)
        shown = _slowest(shown, height - _BESIDES - others)
    if shown:
        headings = ("process", "role", "agents", "round", "lag", "heard", "waits for", "address")
        behind, over = lags(status), status.phase == "over"
        rows = [_row(each, behind.get(each.name), over) for each in shown]
        parts += ["", _table(headings, rows, right=range(2, 5))]
    if left_out := len(status.hosts) - len(shown):
        parts.append(f"and {left_out} more, none of them further behind")
    if status.breaches:
        refused = [(each.kind, each.host or "unknown", each.server, str(each.count)) for each in status.breaches]
        parts += ["", _table(("breach", "caller", "refused by", "times"), refused)]
    if status.troubles:
        parts += ["", _table(("trouble", ""), ((_ago(each), each.what) for each in status.troubles))]
    return Group(*parts)


def _fields(status: Status) -> Table:
    total = f" of {status.rounds}" if status.rounds else ""
    fields = (
        ("phase", status.phase),
        ("round", f"{status.round}{total} (graphs published to {status.published})"),
        ("speed", f"{status.rounds_per_second:.1f} rounds/s" if status.rounds_per_second else ""),
        ("loss", f"{status.cumulative_loss:.2f} (cumulative)"),
        ("violation", f"{status.cumulative_violation:.2f} (cumulative)"),
        ("waiting for", status.waiting_for),
        ("failure", status.failure),
    )
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in fields:
        if value:
            table.add_row(name, Text(printable(value)))
    return table


def _slowest(hosts: Sequence[HostStatus], most: int) -> Sequence[HostStatus]:
    """Return that many processes in the order of joining: whoever is gone, then whoever is furthest behind."""
    ranked = sorted(hosts, key=lambda each: (each.spare or each.lost, each.connected, each.round))
    kept = {each.name for each in ranked[: max(1, most)]}
    return [each for each in hosts if each.name in kept]


def _row(host: HostStatus, lag: int | None, over: bool) -> tuple[str, ...]:
    heard = f"{host.silent:.0f} s ago" if host.silent >= 1 else "now"
    away = "left" if over else f"gone {host.silent:.0f} s"
    return (
        host.name,
        "spare" if host.spare else str(host.role),
        str(host.seats or ""),
        "" if lag is None else str(host.round),
        "" if lag is None else str(lag),
        "lost" if host.lost else heard if host.connected else away,
        _named(host.waits_for),
        host.address,
    )


def _named(names: Sequence[str]) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> Table:
    table = Table(box=None, pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table
