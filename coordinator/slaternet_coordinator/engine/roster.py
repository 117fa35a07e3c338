"""The register of a game: which processes have joined, under which incarnation, with which tickets and seats."""

import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields

import numpy as np

from slaternet import tickets as identity
from slaternet.errors import Mismatch, Superseded, Unknown
from slaternet.limits import LIMITS, Limits
from slaternet.model import (
    COORDINATOR,
    PROTOCOL,
    Agents,
    Departure,
    Description,
    Join,
    Opening,
    Peer,
    Refusal,
    Role,
    Seating,
)
from slaternet.spec.seat_request import SeatRequest
from slaternet_coordinator.engine.rules import Rules
from slaternet_coordinator.engine.saved import SavedMember
from slaternet_coordinator.engine.seat_allocation import SeatAllocation

_KEPT = tuple(each.name for each in fields(SavedMember))
"""What of a `Member` survives the coordinator."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """One process of the game at one moment."""

    name: str
    role: Role
    seats: int
    round: int
    connected: bool
    gone: bool
    lost: bool
    spare: bool


@dataclass(slots=True, eq=False)
class Member:
    """A process of the game, as the coordinator knows it."""

    name: str
    role: Role
    address: str
    wish: SeatRequest
    incarnation: int
    durable: bool = False  # it can come back after its death
    connected: bool = False
    gone: bool = False  # it was connected, and is no more
    lost: bool = False  # given up: it is never let in again
    seats: Agents = field(default_factory=lambda: np.empty(0, np.intp))
    round: int = 0  # finished; of the adversary: scored
    mark: int = 0  # the round of its newest checkpoint
    reached: int = 0  # nobody in its seats has entered a round beyond this one before
    waits_in: int = 0  # the round that it cannot play yet
    waits_for: tuple[str, ...] = ()
    holding: int | None = None  # its answer to Hold
    finished: bool = False
    acknowledged: bool = False
    refused: tuple[Refusal, ...] = ()  # at its own server

    @property
    def plays(self) -> bool:
        """Whether the game needs it; once the seats are shared out, a host without one is a spare."""
        return self.role is Role.ADVERSARY or bool(self.seats.size)

    @property
    def entry(self) -> SavedMember:
        """What must be remembered of it."""
        return SavedMember(**{name: getattr(self, name) for name in _KEPT})

    def view(self, *, spare: bool) -> MemberView:
        """Return how it stands now; the register knows whether it is a spare."""
        there = self.connected, self.gone, self.lost
        return MemberView(self.name, self.role, len(self.seats), self.round, *there, spare)

    def go_back(self, mark: int, reached: int) -> None:
        """Let a host play again from a mark, up to a round that was entered before."""
        self.round = self.mark = mark
        self.reached = max(self.reached, reached)
        self.waits_in, self.waits_for, self.holding, self.finished = 0, (), None, False


def check_kept(member: Member) -> None:
    """Refuse a process that was given up: others play its agents, and two must not."""
    if member.lost:
        raise Mismatch(
            f"{member.name} was away for too long and is given up: its agents are played elsewhere, or have departed; "
            "start a host under another --name as a spare"
        )


class Roster:
    """Admits processes, knows who is missing, shares out the seats; who then has none is a spare."""

    def __init__(self, rules: Rules, secret: bytes, limits: Limits = LIMITS) -> None:
        self._rules = rules
        self._secret = secret
        self._limits = limits
        self._members: dict[str, Member] = {}
        self._seats = SeatAllocation(rules.agents, rules.hosts)
        self._quiet = False
        self._begun = False
        self.description: Description | None = None
        self.arrivals = 0
        """How often a host has joined."""
        self.players: list[Member] = []
        """The hosts that have seats, in the order of joining."""

    def __getitem__(self, name: str) -> Member:
        return self._members[name]

    def get(self, name: str) -> Member | None:
        """Return the process of a name, if there is one."""
        return self._members.get(name)

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._members.values()))  # as they are now: another thread reads them for the metrics

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def hosts(self) -> list[Member]:
        """The agent hosts, in the order of joining, with seats or without."""
        return [member for member in self if member.role is Role.HOST]

    @property
    def adversary(self) -> Member | None:
        """The adversary, once it has joined."""
        return next((member for member in self if member.role is Role.ADVERSARY), None)

    @property
    def spares(self) -> set[str]:
        """The hosts for which there is no seat."""
        seated = {host.name for host in self.players} if self._begun else set(self._seats.seated)
        return {host.name for host in self.hosts if not host.lost} - seated

    def is_spare(self, member: Member) -> bool:
        """Whether a process is a host for which there is no seat."""
        if member.role is not Role.HOST or member.lost:
            return False
        return not member.seats.size if self._begun else member.name not in self._seats.seated

    @property
    def orphaned(self) -> list[Member]:
        """The hosts that are lost while their seats have not been given to others."""
        return [host for host in self.players if host.lost]

    @property
    def survivors(self) -> list[Member]:
        """The hosts that have seats and are not lost."""
        return [host for host in self.players if not host.lost]

    def known(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of some names that stand for a process of the game, as many as are worth remembering."""
        return tuple(name for name in names if name in self or name == COORDINATOR)[: self._limits.awaited]

    def admit(self, name: str, join: Join) -> Member:
        """Enter a process, or a new incarnation of one; refuse what could not play this game.

        A process that comes back into a game that has begun keeps its seats.
        """
        self.compare(name, join)
        known = self._members.get(name)
        if known is not None:
            check_kept(known)
        elsewhere = {COORDINATOR, Role.ADVERSARY} if join.role is Role.HOST else {COORDINATOR}
        if name in elsewhere or (known is not None and known.role is not join.role):
            raise Mismatch(f"the name {name} is taken by another role; choose another --name")
        if known is not None and self._begun and known.plays:
            return self._readmit(known, join)
        wish = SeatRequest(join.seats, join.agents)
        if join.role is Role.HOST:
            self._check_host(name, wish)
        elif self.adversary is not None and known is None:
            raise Mismatch("the game has its adversary already; stop one of the two")
        else:
            self.description = None  # that of an older incarnation
        incarnation = 1 if known is None else known.incarnation + 1
        member = self._members[name] = Member(name, join.role, join.address, wish, incarnation, join.durable)
        if join.role is Role.HOST:
            self._await_others(member, anew=known is not None)
        return member

    def _readmit(self, known: Member, join: Join) -> Member:
        life = known.incarnation + 1
        member = Member(known.name, known.role, join.address, known.wish, life, join.durable, seats=known.seats)
        self._members[known.name] = member
        self.players = [member if host is known else host for host in self.players]
        return member

    def compare(self, name: str, join: Join) -> None:
        """Refuse a process that speaks, plays or computes otherwise than this game."""
        if join.protocol != PROTOCOL:
            raise Mismatch(
                f"{name} speaks protocol {join.protocol} and the coordinator protocol {PROTOCOL}; "
                "install the same version of slaternet on both"
            )
        spec, fingerprint = self._rules.spec, self._rules.fingerprint
        if join.spec and join.spec != spec:
            raise Mismatch(
                f"{name} has begun a game of spec {join.spec[:16]}, but the coordinator plays spec {spec[:16]}; "
                "start it with --fresh, or with another --state"
            )
        if self._rules.reproducible and join.fingerprint != fingerprint:
            raise Mismatch(
                f"{name} has numerics fingerprint {join.fingerprint[:16]}, the coordinator {fingerprint[:16]}; "
                "use the same CPU architecture, numpy and scipy, or set run.reproducible = false"
            )

    def _check_host(self, name: str, wish: SeatRequest) -> None:
        """Refuse a host that could be neither seated nor a spare."""
        there = sum(not host.lost for host in self.hosts)
        if name not in self and there >= min(self._rules.agents + self._limits.spares, self._limits.hosts):
            raise Mismatch(f"{name} is one host too many: {there} have joined; end some that have no seats")
        others = self._granted(without=name) if name in self else self._seats
        if not self._begun and not others.full and (objection := others.objection(name, wish)):
            raise Mismatch(objection)

    def _await_others(self, host: Member, *, anew: bool) -> None:
        """Let a host that has come hold others up: it may not be the last."""
        self.arrivals += 1
        self._quiet = False
        if anew:
            self._seats = self._granted()
        else:
            self._seats.offer(host.name, host.wish)

    def _granted(self, without: str = "") -> SeatAllocation:
        """Return the seats as those ask for them who are there; who is gone holds none before the game has begun."""
        seats = SeatAllocation(self._rules.agents, self._rules.hosts)
        for host in self.hosts:
            if not host.gone and host.name != without:
                seats.offer(host.name, host.wish)
        return seats

    def note(self, member: Member, *, connected: bool) -> None:
        """Record that a process's control stream is open, or has ended."""
        before, member.connected, member.gone = member.gone, connected, not connected
        if self._begun or member.gone == before:
            return
        if member.role is Role.HOST:
            self._seats = self._granted()
        elif member.gone:
            self.description = None  # it is said again when the adversary is back

    def calm(self, arrivals: int) -> None:
        """Record that no host has joined for a while, unless another has since the `arrivals` that were counted.

        A host that has joined and opened no stream in that time has died, and holds no seats.
        """
        self._quiet = arrivals == self.arrivals
        if self._quiet and not self._begun:
            for host in self.hosts:
                host.gone = not host.connected
            self._seats = self._granted()

    def missing(self) -> str:
        """Say who must still come before the game can begin; empty when all are there."""
        if self.adversary is None or self.adversary.gone:
            return "the adversary"
        if self.description is None:
            return "the adversary's plugin"
        if missing := self._seats.missing():
            return missing
        if not (self._seats.settled or self._quiet):
            return f"further agent hosts, until none has come for {self._limits.gathering_seconds:g} s"
        # in a game that has begun no process can be started again
        unheard = [name for name in self._seats.seated if not self[name].connected]
        if len(unheard) > 1:
            return f"{len(unheard)} agent hosts to connect"
        return f"{unheard[0]} to connect" if unheard else ""

    def begin(self) -> None:
        """Share out the seats."""
        self._begun = True
        for name, agents in self._seats.shared().items():
            self[name].seats = agents
        self.players = [host for host in self.hosts if host.seats.size]

    def reseat(self, adopter: Member) -> None:
        """Give the seats of those who are lost to another host."""
        for host in self.orphaned:
            adopter.seats = np.union1d(adopter.seats, host.seats)
            host.seats = host.seats[:0]
        self.players = [host for host in self.hosts if host.seats.size]

    def restore(self, secret: bytes, entries: Iterable[SavedMember], *, begun: bool) -> None:
        """Take up what is remembered; who was there before the game has begun holds no seats until it is back."""
        self._secret = secret
        self._begun = begun
        for each in entries:
            self._members[each.name] = Member(**{name: getattr(each, name) for name in _KEPT}, gone=not begun)
        self.players = [host for host in self.hosts if host.seats.size]
        self.arrivals = len(self.hosts)

    def ticket(self, member: Member, server: str = COORDINATOR) -> bytes:
        """Return the ticket that a process presents to a server, by default to the coordinator."""
        return identity.ticket(self._secret, member.name, member.incarnation, server)

    def identify(self, name: str, opening: Opening) -> Member:
        """Return the member whose newest incarnation presents its ticket."""
        member = self._members.get(name)
        if member is None:
            raise Unknown("a process must join the run before it opens a stream")
        if opening.incarnation < member.incarnation:
            raise Superseded(f"another process has joined as {name}; give each a --name of its own")
        if not hmac.compare_digest(opening.ticket, self.ticket(member)):
            raise Unknown("the ticket is not for this server")
        check_kept(member)
        return member

    def seating(
        self, member: Member, departures: tuple[Departure, ...] = (), low_water: int = 0, *, recall: bool = False
    ) -> Seating:
        """Return what a seated process must know of the others, and of how the game is taken up."""
        peers = tuple(self._peer(host, member) for host in self.players if host is not member)
        adversary, description = None, None
        if member.role is Role.HOST and self.adversary is not None:
            adversary, description = self._peer(self.adversary, member), self.description
        return Seating(member.seats, peers, adversary, description, departures, low_water, recall)

    def _peer(self, other: Member, receiver: Member) -> Peer:
        return Peer(
            other.name,
            other.address,
            other.incarnation,
            other.seats,
            present=self.ticket(receiver, other.name),
            accept=self.ticket(other, receiver.name),
        )
