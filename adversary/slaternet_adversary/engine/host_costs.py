"""What a game costs its hosts: their reported usage, and the times at which their questions arrived."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import astuple, dataclass

from slaternet.model import Usage

Lags = Mapping[str, float]
"""By host: seconds from the first question of a round to this host's."""

_NOTHING = Usage(0)
_SPENT = {
    "frames": "frames",
    "bytes_sent": "bytes_sent",
    "bytes_received": "bytes_received",
    "rows_sent": "rows",
    "gossip_bytes": "gossip_bytes",
    "waited": "waited",
}
"""What the run folder calls the fields of a usage."""
COSTS = tuple(_SPENT)
"""What hosts report, as the run folder calls it."""


class HostCostBook:
    """When hosts asked, and up to which round each has reported its usage."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}  # by host the last round that it plays
        self._reported: dict[str, int] = {}  # by host the last round that its usage covers
        self._asked: defaultdict[int, dict[str, float]] = defaultdict(dict)

    def seat(self, last: Mapping[str, int]) -> None:
        """Expect usage of these hosts only, each up to the last round that it plays; all report again."""
        self._last = dict(last)
        self._reported = dict.fromkeys(last, 0)

    def __contains__(self, host: str) -> bool:
        return host in self._reported

    def ask(self, host: str, round: int, at: float) -> None:
        """Record when a host's question of a round arrived."""
        self._asked[round][host] = at

    def note_usage(self, host: str, round: int) -> bool:
        """Record that a host has reported its usage up to a round; return False where it had before."""
        new = round > self._reported[host]
        if new:
            self._reported[host] = round
        return new

    def complete(self, rounds: int) -> bool:
        """Whether every host has reported all its usage in a game of so many rounds."""
        return all(reported >= min(rounds, self._last[host]) for host, reported in self._reported.items())

    def settle(self, round: int) -> Lags:
        """Return the lags of a round, and forget it."""
        asked = self._asked.pop(round, {})
        first = min(asked.values(), default=0.0)
        return {host: at - first for host, at in asked.items()}


@dataclass(slots=True)
class Total:
    """The costs of a host so far, over all its incarnations."""

    frames: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    rows: int = 0
    gossip_bytes: int = 0
    waited: float = 0.0
    lag: float = 0.0
    incarnation: int = 0  # the newest that has reported usage
    newest: Usage = _NOTHING  # its last report

    def add_usage(self, incarnation: int, usage: Usage) -> None:
        """Add an incarnation's usage since its last report: reports are cumulative."""
        if incarnation < self.incarnation:
            return
        before = self.newest if incarnation == self.incarnation else _NOTHING
        self.incarnation, self.newest = incarnation, Usage(*map(max, astuple(before), astuple(usage)))
        for name in _SPENT.values():
            setattr(self, name, getattr(self, name) + (getattr(self.newest, name) - getattr(before, name)))


class NetworkTotals:
    """The costs of the game so far."""

    def __init__(self) -> None:
        self.rounds = 0
        self.skew = 0.0
        self.hosts: dict[str, Total] = {}
        self.spent: tuple[float, ...] = (0, 0, 0, 0, 0, 0.0)
        """The COSTS of all hosts together."""

    def add(self, lags: Lags) -> float:
        """Add a round; return the seconds from its first question to its last."""
        skew = max(lags.values(), default=0.0)
        self.rounds += 1
        self.skew += skew
        for host, lag in lags.items():
            self.hosts.setdefault(host, Total()).lag += lag
        return skew

    def add_usage(self, host: str, incarnation: int, usage: Usage) -> None:
        """Add a host's usage since its last report."""
        self.hosts.setdefault(host, Total()).add_usage(incarnation, usage)
        self.sum_up()

    def sum_up(self) -> None:
        """Add up the usage of all hosts."""
        totals = self.hosts.values()
        self.spent = tuple([sum([getattr(total, name) for total in totals]) for name in _SPENT.values()])

    def summary(self, seats: Mapping[str, int], row_width: int | None = None) -> dict[str, object]:
        """Return sums, and of lag and skew means over the rounds, in all and by host.

        Where rows were sent, also what one has cost; and, if it is known how many numbers it has, which share was saved
        against sending all of them, 8 bytes each: below 0 where rows travel as they are, with their messages' heads.
        """
        rounds = max(self.rounds, 1)
        hosts = {}
        for host in {**seats, **self.hosts}:  # also those that have left
            total = self.hosts.get(host, Total())
            costs = {key: getattr(total, name) for key, name in _SPENT.items()}
            hosts[host] = {"seats": seats.get(host, 0), **costs, "lag": total.lag / rounds}
        spent = dict(zip(COSTS, self.spent, strict=True))
        by_row = {}
        if rows := spent["rows_sent"]:
            by_row["bytes_per_row"] = spent["gossip_bytes"] / rows
            if row_width:
                by_row["saving"] = 1.0 - spent["gossip_bytes"] / (8 * row_width * rows)
        return {**spent, **by_row, "skew": self.skew / rounds, "hosts": hosts}
