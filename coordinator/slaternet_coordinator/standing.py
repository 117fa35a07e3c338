"""How a game stands, process by process: what the register knows, and what only a shell can have seen."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slaternet.limits import Limits
from slaternet.model import COORDINATOR, Breach, HostStatus, Role, Trouble
from slaternet_coordinator.register import Register


@dataclass(frozen=True, slots=True)
class Observed:
    """What a shell has seen of a game: it has a clock, and a server of its own."""

    silent: Mapping[str, float] = field(default_factory=dict)
    """Seconds since each process was last heard."""
    rounds_per_second: float = 0.0
    troubles: tuple[Trouble, ...] = ()
    refused: tuple[Breach, ...] = ()
    """At the coordinator's own server."""


NOTHING = Observed()


def processes(register: Register, seen: Observed, limits: Limits) -> tuple[HostStatus, ...]:
    """Return every process of the game, in the order of joining."""
    members, spares = list(register), register.spares
    most = max(1, limits.hosts // max(1, len(members)))  # names of others each, so that a status fits a message
    return tuple(
        HostStatus(
            member.name,
            member.address,
            len(member.seats),
            member.round,
            member.connected,
            role=member.role,
            silent=seen.silent.get(member.name, 0.0),
            waits_for=member.waits_for[:most],
            spare=member.name in spares,
            lost=member.lost,
        )
        for member in members
    )


def breaches(register: Register, seen: Observed, limits: Limits) -> tuple[Breach, ...]:
    """Return what every process has refused, as far as it fits; those whom all must trust come first."""
    members = sorted(register, key=lambda member: member.role is Role.HOST)
    servers = [(COORDINATOR, seen.refused), *((member.name, member.refused) for member in members)]
    named = (replace(each, server=server) for server, theirs in servers for each in theirs)
    return tuple(itertools.islice(named, limits.breaches))
