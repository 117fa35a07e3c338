"""What a game costs its hosts: what they say they have spent, and when their questions came."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import astuple, dataclass

from slaternet.model import Usage

Lags = Mapping[str, float]
"""Seconds by which a host's question came after the first of its round."""

_NOTHING = Usage(0)


class HostCostBook:
    """When hosts have asked, and up to which round each has told what it has spent."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}  # by host the last round that it plays
        self._told: dict[str, int] = {}  # by host the last round that its usage covers
        self._asked: defaultdict[int, dict[str, float]] = defaultdict(dict)

    def seat(self, last: Mapping[str, int]) -> None:
        """Expect usages of these hosts, and of no others, up to the last round that each plays.

        Hosts may play rounds once more in a new seating, so they tell again.
        """
        self._last = dict(last)
        self._told = dict.fromkeys(last, 0)

    def __contains__(self, host: str) -> bool:
        return host in self._told

    def ask(self, host: str, round: int, at: float) -> None:
        """Book when a host's question of a round came."""
        self._asked[round][host] = at

    def tell(self, host: str, round: int) -> bool:
        """Book that a host has told what it spent up to a round; False where that is no news."""
        if round <= self._told[host]:
            return False
        self._told[host] = round
        return True

    def complete(self, rounds: int) -> bool:
        """Whether every host has told what it spent in a game of so many rounds."""
        return all(told >= min(rounds, self._last[host]) for host, told in self._told.items())

    def settle(self, round: int) -> Lags:
        """Return when the questions of a round came, and forget it."""
        asked = self._asked.pop(round, {})
        first = min(asked.values(), default=0.0)
        return {host: at - first for host, at in asked.items()}


@dataclass(slots=True)
class Total:
    """What a host has cost so far, in all its incarnations."""

    frames: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    waited: float = 0.0
    lag: float = 0.0
    incarnation: int = 0  # the newest that has told anything
    newest: Usage = _NOTHING  # what that one has told last

    def tell(self, incarnation: int, usage: Usage) -> None:
        """Add what an incarnation has spent since it was last heard; what it said before counts once."""
        if incarnation < self.incarnation:
            return
        before = self.newest if incarnation == self.incarnation else _NOTHING
        self.incarnation, self.newest = incarnation, Usage(*map(max, astuple(before), astuple(usage)))
        self.frames += self.newest.frames - before.frames
        self.bytes_sent += self.newest.bytes_sent - before.bytes_sent
        self.bytes_received += self.newest.bytes_received - before.bytes_received
        self.waited += self.newest.waited - before.waited


class NetworkTotals:
    """What the game has cost so far, for everyone who wants to know."""

    def __init__(self) -> None:
        self.rounds = 0
        self.skew = 0.0
        self.hosts: dict[str, Total] = {}
        self.spent = (0, 0, 0, 0.0)
        """Frames, bytes sent and received, and seconds waited, of all hosts together."""

    def add(self, lags: Lags) -> float:
        """Add a round; return the seconds between its first and its last question."""
        skew = max(lags.values(), default=0.0)
        self.rounds += 1
        self.skew += skew
        for host, lag in lags.items():
            if host not in self.hosts:
                self.hosts[host] = Total()
            self.hosts[host].lag += lag
        return skew

    def tell(self, host: str, incarnation: int, usage: Usage) -> None:
        """Add what a host has spent since it was last heard."""
        self.hosts.setdefault(host, Total()).tell(incarnation, usage)
        self.sum_up()

    def sum_up(self) -> None:
        """Add up what the hosts have spent."""
        spent = [(each.frames, each.bytes_sent, each.bytes_received, each.waited) for each in self.hosts.values()]
        frames, sent, received, waited = zip(*spent, strict=True)
        self.spent = sum(frames), sum(sent), sum(received), sum(waited)

    def summary(self, seats: Mapping[str, int]) -> dict[str, object]:
        """Return sums, and means over the rounds of what is a delay, in all and by host."""
        rounds = max(self.rounds, 1)
        everyone = {**seats, **self.hosts}  # also those that have left
        totals = {host: self.hosts.get(host, Total()) for host in everyone}
        frames, sent, received, waited = self.spent
        return {
            "frames": frames,
            "bytes_sent": sent,
            "bytes_received": received,
            "waited": waited,
            "skew": self.skew / rounds,
            "hosts": {
                host: {
                    "seats": seats.get(host, 0),
                    "frames": total.frames,
                    "bytes_sent": total.bytes_sent,
                    "bytes_received": total.bytes_received,
                    "waited": total.waited,
                    "lag": total.lag / rounds,
                }
                for host, total in totals.items()
            },
        }
