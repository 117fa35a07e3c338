"""The register of a game: which processes have joined, under which incarnation, with which tickets and seats."""

import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from slaternet import identity
from slaternet.errors import Mismatch, Superseded, Unknown
from slaternet.model import PROTOCOL, Agents, Breach, Description, Join, Opening, Peer, Role, Seating

NAME = "coordinator"


@dataclass(slots=True)
class Member:
    """A process of the game, as the coordinator knows it."""

    name: str
    role: Role
    address: str
    wanted: int
    incarnation: int
    connected: bool = False
    lost: bool = False  # it was connected, and is no more
    seats: Agents = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    round: int = 0  # finished; of the adversary: scored
    holding: int | None = None  # its answer to Hold
    finished: bool = False
    acknowledged: bool = False
    refused: tuple[Breach, ...] = ()  # at its own server


class Register:
    """Admits processes, knows who is missing, shares out the seats."""

    def __init__(
        self, agents: int, *, hosts: int | None, secret: bytes, fingerprint: str, reproducible: bool = True
    ) -> None:
        self.agents = agents
        self._expected = hosts
        self._secret = secret
        self._fingerprint = fingerprint
        self._reproducible = reproducible
        self._members: dict[str, Member] = {}
        self.description: Description | None = None

    def __getitem__(self, name: str) -> Member:
        return self._members[name]

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    @property
    def hosts(self) -> list[Member]:
        """The agent hosts, in the order of joining."""
        return [member for member in self if member.role is Role.HOST]

    @property
    def adversary(self) -> Member | None:
        """The adversary, once it has joined."""
        return next((member for member in self if member.role is Role.ADVERSARY), None)

    def admit(self, name: str, join: Join) -> Member:
        """Enter a process, or a new incarnation of one; refuse what could not play this game."""
        self._compare(name, join)
        known = self._members.get(name)
        if name == NAME or (known is not None and known.role is not join.role):
            raise Mismatch(f"the name {name} is taken by another role; choose another --name")
        if join.role is Role.HOST:
            self._check_seats(name, join.seats)
        elif self.adversary is not None and known is None:
            raise Mismatch("the game has its adversary already; stop one of the two")
        else:
            self.description = None  # that of an older incarnation
        incarnation = 1 if known is None else known.incarnation + 1
        member = self._members[name] = Member(name, join.role, join.address, join.seats, incarnation)
        return member

    def _compare(self, name: str, join: Join) -> None:
        if join.protocol != PROTOCOL:
            raise Mismatch(
                f"{name} speaks protocol {join.protocol} and the coordinator protocol {PROTOCOL}; "
                "install the same version of slaternet on both"
            )
        if self._reproducible and join.fingerprint != self._fingerprint:
            raise Mismatch(
                f"{name} has numerics fingerprint {join.fingerprint[:16]}, the coordinator {self._fingerprint[:16]}; "
                "use the same CPU architecture, numpy and scipy, or set run.reproducible = false"
            )

    def _check_seats(self, name: str, seats: int) -> None:
        others = [host for host in self.hosts if host.name != name]
        taken = sum(host.wanted for host in others) + seats
        left = self.agents - taken
        if left < 0:
            raise Mismatch(f"{name} asks for {seats} seats, but with it {taken} of {self.agents} would be taken")
        if self._expected is None:
            if not seats:
                raise Mismatch(f"say how many agents {name} seats (--seats K), or start the coordinator with --hosts N")
            return
        if len(others) >= self._expected:
            raise Mismatch(f"{name} is one host too many: the coordinator was started with --hosts {self._expected}")
        sharing = self._expected - sum(1 for host in others if host.wanted) - bool(seats)
        if left < sharing or (left and not sharing):
            raise Mismatch(
                f"with {name} asking for {seats} seats, {left} of {self.agents} agents are left for {sharing} hosts; "
                "every agent needs a host and every host an agent"
            )

    def missing(self) -> str:
        """Say who must still come before the game can begin; empty when all are there."""
        hosts = self.hosts
        if self.adversary is None:
            return "the adversary"
        if self.description is None:
            return "the adversary's plugin"
        if self._expected is not None:
            lacking = self._expected - len(hosts)
            return f"{lacking} of {self._expected} agent hosts" if lacking else ""
        left = self.agents - sum(host.wanted for host in hosts)
        return f"agent hosts for {left} of {self.agents} seats" if left else ""

    def share(self) -> None:
        """Give seats in the order of joining: as many as asked for, the rest in even shares."""
        sharing = [host for host in self.hosts if not host.wanted]
        left = self.agents - sum(host.wanted for host in self.hosts)
        share, extra = divmod(left, len(sharing)) if sharing else (0, 0)
        first = 0
        for host in self.hosts:
            count = host.wanted or share + (sharing.index(host) < extra)
            host.seats = np.arange(first, first + count, dtype=np.intp)
            first += count

    def ticket(self, member: Member, server: str = NAME) -> bytes:
        """Return the ticket that a process presents to a server, by default to the coordinator."""
        return identity.ticket(self._secret, member.name, member.incarnation, server)

    def identify(self, name: str, opening: Opening) -> Member:
        """Return the member whose newest incarnation presents its ticket."""
        member = self._members.get(name)
        if member is None:
            raise Unknown("a process must join the run before it opens a stream")
        if opening.incarnation < member.incarnation:
            raise Superseded(f"a newer incarnation of {name} has joined")
        if not hmac.compare_digest(opening.ticket, self.ticket(member)):
            raise Unknown("the ticket is not for this server")
        return member

    def seating(self, member: Member) -> Seating:
        """Return what a seated process must know of the others."""
        peers = tuple(self._peer(host, member) for host in self.hosts if host is not member)
        if member.role is Role.ADVERSARY or self.adversary is None:
            return Seating(member.seats, peers)
        return Seating(member.seats, peers, self._peer(self.adversary, member), self.description)

    def _peer(self, other: Member, receiver: Member) -> Peer:
        return Peer(
            other.name,
            other.address,
            other.incarnation,
            other.seats,
            present=self.ticket(receiver, other.name),
            accept=self.ticket(other, receiver.name),
        )
