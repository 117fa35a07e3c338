"""The referee's state after a round, and the costs of the rounds up to it: a journal can begin there."""

from dataclasses import dataclass, field, replace

from slaternet_adversary.engine.events import RefereeSnapshot
from slaternet_adversary.engine.host_costs import NetworkTotals, Total


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a new referee must know to continue after a round, except the seating."""

    standing: RefereeSnapshot
    skew: float = 0.0
    hosts: dict[str, Total] = field(default_factory=dict)

    @classmethod
    def of(cls, standing: RefereeSnapshot, network: NetworkTotals) -> "Snapshot":
        """Return the snapshot; `network` must hold exactly the rounds up to that one."""
        return cls(standing, network.skew, {name: replace(total) for name, total in network.hosts.items()})

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
