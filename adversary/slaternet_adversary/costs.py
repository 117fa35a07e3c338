"""What a game costs its hosts: what they say they have spent on each round, and when their questions came."""

from collections import defaultdict
from collections.abc import Container, Mapping
from dataclasses import dataclass

from slaternet.departures import FOREVER
from slaternet.model import Effort


@dataclass(frozen=True, slots=True)
class Costs:
    """What one round has cost, by host."""

    efforts: Mapping[str, Effort]
    lags: Mapping[str, float]  # seconds by which a host's question came after the first of the round

    @property
    def effort(self) -> Effort:
        """What all hosts together have spent."""
        frames = sent = received = 0
        waited = 0.0
        for one in self.efforts.values():
            frames += one.frames
            sent += one.bytes_sent
            received += one.bytes_received
            waited += one.waited
        return Effort(frames, sent, waited, received)

    @property
    def skew(self) -> float:
        """Seconds between the first and the last host's question."""
        return max(self.lags.values(), default=0.0)


class Accounts:
    """Books every host's effort of every round, once, and when it asked; a round is settled when all have told."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}  # per host the last round whose effort is known
        self._last: dict[str, int] = {}  # per host the last round whose effort it will tell
        self._even = True  # all hosts tell of the same rounds
        self._settled = 0  # the last round that had been settled when the books were opened
        self._spent: defaultdict[int, dict[str, Effort]] = defaultdict(dict)
        self._asked: defaultdict[int, dict[str, float]] = defaultdict(dict)

    def restore(self, round: int) -> None:
        """Begin after a round that is settled; before any host is expected to tell anything."""
        self._settled = round

    def open(self, host: str, told: int = 0, last: int = FOREVER) -> None:
        """Expect a host to tell its efforts of the rounds beyond one, and none beyond the last that it plays."""
        self._told[host] = max(self._told.get(host, self._settled), told)
        self._last[host] = last
        self._even = self._even and self._told[host] == self._settled and last >= FOREVER - 1

    def keep(self, hosts: Container[str]) -> None:
        """Expect nothing any more of hosts other than these."""
        for gone in [host for host in self._told if host not in hosts]:
            del self._told[gone], self._last[gone]
            self._even = False

    def __contains__(self, host: str) -> bool:
        return host in self._told

    def ask(self, host: str, round: int, at: float) -> None:
        """Book when a host's question of a round came."""
        self._asked[round][host] = at

    def expects(self, host: str, round: int) -> bool:
        """Whether it is this round's effort that a host has to tell next."""
        return round == self._told[host] + 1

    def spend(self, host: str, round: int, effort: Effort) -> None:
        """Book what a host has spent on a round."""
        if self.expects(host, round):
            self._told[host] = round
            self._spent[round][host] = effort

    def complete(self, round: int) -> bool:
        """Whether every host has told what it spent on a round."""
        if self._even:
            return len(self._spent.get(round, ())) == len(self._told)
        return all(told >= min(round, self._last[host]) for host, told in self._told.items())

    def settle(self, round: int) -> Costs:
        """Return the costs of a round and forget it."""
        asked = self._asked.pop(round, {})
        first = min(asked.values(), default=0.0)
        return Costs(self._spent.pop(round, {}), {host: at - first for host, at in asked.items()})


@dataclass(slots=True)
class Total:
    """What a host has cost so far."""

    frames: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    waited: float = 0.0
    lag: float = 0.0


class Network:
    """The costs of all rounds so far, for whoever wants to know."""

    def __init__(self) -> None:
        self.rounds = 0
        self.skew = 0.0
        self.hosts: dict[str, Total] = {}

    def add(self, costs: Costs) -> None:
        """Add a round."""
        self.rounds += 1
        self.skew += costs.skew
        for host, effort in costs.efforts.items():
            total = self.hosts.get(host)
            if total is None:
                total = self.hosts[host] = Total()
            total.frames += effort.frames
            total.bytes_sent += effort.bytes_sent
            total.bytes_received += effort.bytes_received
            total.waited += effort.waited
            total.lag += costs.lags.get(host, 0.0)

    def summary(self, seats: Mapping[str, int]) -> dict[str, object]:
        """Return sums, and means over the rounds of what is a delay, in all and by host."""
        rounds = max(self.rounds, 1)
        everyone = {**seats, **self.hosts}  # also those that have left
        totals = {host: self.hosts.get(host, Total()) for host in everyone}
        return {
            "frames": sum(total.frames for total in totals.values()),
            "bytes_sent": sum(total.bytes_sent for total in totals.values()),
            "bytes_received": sum(total.bytes_received for total in totals.values()),
            "waited": sum(total.waited for total in totals.values()),
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
