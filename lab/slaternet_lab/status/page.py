"""The status of a running game: as a page, as a line, as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slaternet.model import HostStatus, Incident, Role, Status
from slaternet.texts import printable
from slaternet_lab.status.operator import GameStatus

_NAMED = 3
"""Names listed in one cell."""
_LAST = 3
"""Refusals and incidents shown where there is little room."""
_BESIDES = 11
"""Lines of a page that hold neither processes nor refusals nor incidents."""


def lags(status: Status) -> dict[str, int]:
    """Return how many rounds each process with seats, and the adversary, is behind the furthest host."""
    furthest = max((each.round for each in status.hosts if each.seats), default=0)
    playing = (each for each in status.hosts if each.seats or each.role is Role.ADVERSARY)
    return {each.name: max(0, furthest - each.round) for each in playing}


def as_json(game: GameStatus) -> dict[str, object]:
    """Return the whole status, for programs."""
    behind = lags(game.status)
    hosts = [{**asdict(each), "lag": behind.get(each.name)} for each in game.status.hosts]
    withheld = game.status.cumulative_loss is None
    return {"run": game.run, **asdict(game.status), "hosts": hosts, "scores_withheld": withheld}


def line(status: Status) -> str:
    """Return the status in one line, for logs."""
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


def incident_line(incident: Incident) -> str:
    """Return an incident and its time in one line."""
    return printable(f"{_ago(incident)}: {incident.what}")


def _ago(incident: Incident) -> str:
    seconds = round(incident.ago)
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


_DISTURBED = "some decisions do not follow from the rules; the digest need not be that of a simulation"


def page(status: Status, height: int | None = None) -> RenderableType:
    """Return the status as a page; in a given height, with the processes furthest behind and the last incidents."""
    parts: list[RenderableType] = [_fields(status)]
    shown: Sequence[HostStatus] = status.hosts
    if height is not None:
        status = replace(status, breaches=status.breaches[:_LAST], troubles=status.troubles[-_LAST:])
        others = sum(2 + len(each) for each in (status.breaches, status.troubles) if each)
        # those that are gone, then those furthest behind, in the order of joining
        ranked = sorted(shown, key=lambda each: (each.spare or each.lost, each.connected, each.round))
        kept = {each.name for each in ranked[: max(1, height - _BESIDES - others)]}
        shown = [each for each in shown if each.name in kept]
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
        ("phase", f"{status.phase} ({'sealed' if status.sealed else 'open'} game)"),
        ("round", f"{status.round}{total} (graphs published to {status.published})"),
        ("speed", f"{status.rounds_per_second:.1f} rounds/s" if status.rounds_per_second else ""),
        ("loss", _score(status.cumulative_loss)),
        ("violation", _score(status.cumulative_violation)),
        ("waiting for", status.waiting_for),
        ("disturbed", _DISTURBED if status.disturbed else ""),
        ("failure", status.failure),
    )
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in fields:
        if value:
            table.add_row(name, Text(printable(value)))
    return table


def _score(score: float | None) -> str:
    return "for the operator's certificate alone" if score is None else f"{score:.2f} (cumulative)"


def _row(host: HostStatus, lag: int | None, over: bool) -> tuple[str, ...]:
    heard = f"{host.silent:.0f} s ago" if host.silent >= 1 else "now"
    away = "left" if over else f"gone {host.silent:.0f} s"
    waits_for = list(host.waits_for)
    if len(waits_for) > _NAMED:
        waits_for = [f"{', '.join(waits_for[: _NAMED - 1])} and {len(waits_for) - _NAMED + 1} more"]
    return (
        host.name,
        "spare" if host.spare else str(host.role),
        str(host.seats or ""),
        "" if lag is None else str(host.round),
        "" if lag is None else str(lag),
        "lost" if host.lost else "shut out" if host.shut_out else heard if host.connected else away,
        ", ".join(waits_for),
        host.address,
    )


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> Table:
    table = Table(box=None, pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table
