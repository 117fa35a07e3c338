"""A referee's state after a round, and what the rounds up to it have cost: from there a journal can begin."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from slaternet_adversary.engine.events import RefereeSnapshot
from slaternet_adversary.engine.host_costs import NetworkTotals, Total
from slaternet_adversary.journal.entry_bytes import PayloadReader, name_bytes, usage_bytes

_STANDING = struct.Struct("<Q32s5d")
_TOTAL = struct.Struct("<QQQdd")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a fresh referee must know to go on after a round, but for who is seated where."""

    standing: RefereeSnapshot
    skew: float = 0.0
    hosts: dict[str, Total] = field(default_factory=dict)

    @classmethod
    def of(cls, standing: RefereeSnapshot, network: NetworkTotals) -> "Snapshot":
        """Return what there is to keep when the rounds up to that one, and no other, are in the network's sums."""
        copies = {name: replace(total) for name, total in network.hosts.items()}
        return cls(standing, network.skew, copies)

    @property
    def round(self) -> int:
        """The last round that is not needed any more."""
        return self.standing.round

    def network(self) -> NetworkTotals:
        """Return the costs of the rounds up to this one."""
        network = NetworkTotals()
        network.rounds, network.skew = self.round, self.skew
        network.hosts = {name: replace(total) for name, total in self.hosts.items()}
        if network.hosts:
            network.sum_up()
        return network


def snapshot_bytes(snapshot: Snapshot) -> bytes:
    """Return a snapshot as the payload of a record."""
    standing = snapshot.standing
    start = _STANDING.pack(standing.rounds or 0, standing.digest, *standing.totals, snapshot.skew)
    return b"".join((start, *(_total_bytes(name, total) for name, total in snapshot.hosts.items())))


def _total_bytes(name: str, total: Total) -> bytes:
    numbers = total.frames, total.bytes_sent, total.bytes_received, total.waited, total.lag
    return name_bytes(name) + _TOTAL.pack(*numbers) + usage_bytes(total.incarnation, total.newest)


def snapshot_of(round: int, rest: PayloadReader) -> Snapshot:
    """Return what a payload says."""
    rounds, digest, *totals, skew = rest.numbers(_STANDING)
    loss, violation, zero_loss, zero_violation = totals
    standing = RefereeSnapshot(round, rounds or None, digest, (loss, violation, zero_loss, zero_violation))
    return Snapshot(standing, skew, dict(_hosts(rest)))


def _hosts(rest: PayloadReader) -> Iterator[tuple[str, Total]]:
    while rest.at < len(rest.data):
        name, total = rest.name(), Total(*rest.numbers(_TOTAL))
        total.incarnation, total.newest = rest.usage()
        yield name, total
