"""The roster of a game: which processes have joined, under which incarnation, with which tickets and seats."""

import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from slaternet import tickets
from slaternet.errors import Mismatch, Superseded, Unknown
from slaternet.limits import LIMITS, Limits
from slaternet.model import COORDINATOR, PROTOCOL, Description, HostStatus, Join, Opening, Peer, Refusal, Role
from slaternet.spec.seat_request import SeatRequest
from slaternet_coordinator.engine.rules import Rules
from slaternet_coordinator.engine.saved import SavedMember
from slaternet_coordinator.engine.seat_allocation import SeatAllocation

_KEPT = tuple(each.name for each in fields(SavedMember))
"""The fields of a `Member` that are stored."""


@dataclass(slots=True, eq=False)
class Member(SavedMember):
    """A process of the game, with what it reports again after a restart of the coordinator."""

    connected: bool = False
    gone: bool = False  # its control stream has ended
    round: int = 0  # finished; of the adversary: scored
    waits_in: int = 0  # the round that it cannot play yet
    waits_for: tuple[str, ...] = ()
    holding: int | None = None  # its answer to Hold
    finished: bool = False
    refused: tuple[Refusal, ...] = ()  # at its own server
    complaints: int = 0  # how often it has accused others, or disputed their rows, in all its incarnations
    disturbed: bool = False  # whether it has reported that its decisions do not follow from the rules

    @property
    def plays(self) -> bool:
        """Whether the game needs it: once the seats are assigned, a host without one is a spare."""
        return self.role is Role.ADVERSARY or bool(self.seats.size)

    @property
    def entry(self) -> SavedMember:
        """What is stored of it."""
        return SavedMember(**{name: getattr(self, name) for name in _KEPT})

    def status(self, *, spare: bool) -> HostStatus:
        """Return its state now; the roster knows whether it is a spare."""
        return HostStatus(
            self.name,
            self.address,
            len(self.seats),
            self.round,
            self.connected,
            self.role,
            spare=spare,
            lost=self.lost,
            shut_out=self.shut_out,
        )

    def go_back(self, mark: int, reached: int) -> None:
        """Make a host play again from a mark; rounds up to `reached` were entered before."""
        self.round = self.mark = mark
        self.reached = max(self.reached, reached)
        self.waits_in, self.waits_for, self.holding, self.finished = 0, (), None, False


def check_kept(member: Member) -> None:
    """Refuse a process that was given up, where others play its agents or they have departed, or that is shut out."""
    if member.shut_out and not member.lost:
        raise Mismatch(f"{member.name} is shut out ({member.shut_out}); start another process under its name")
    if member.lost:
        raise Mismatch(
            f"{member.name} was away for too long and is given up: its agents are played elsewhere, or have departed; "
            "start a host under another --name as a spare"
        )


class Roster:
    """Admits processes, finds what is missing, assigns the seats; a host that then has none is a spare."""

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

    def __getitem__(self, name: str) -> Member:
        return self._members[name]

    def get(self, name: str) -> Member | None:
        """Return the process of a name, if it has joined."""
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
    def players(self) -> list[Member]:
        """The hosts that have seats, in the order of joining."""
        return [host for host in self.hosts if host.seats.size]

    @property
    def adversary(self) -> Member | None:
        """The adversary, once it has joined."""
        return next((member for member in self if member.role is Role.ADVERSARY), None)

    @property
    def spares(self) -> set[str]:
        """The hosts for which there is no seat."""
        seated = {host.name for host in self.players} if self._begun else set(self._seats.seated)
        return {host.name for host in self.hosts if not host.lost} - seated

    @property
    def lost_with_seats(self) -> list[Member]:
        """The hosts that are lost while no other host has their seats."""
        return [host for host in self.hosts if host.lost and host.seats.size]

    @property
    def survivors(self) -> list[Member]:
        """The hosts that have seats and are not lost."""
        return [host for host in self.players if not host.lost]

    def admit(self, name: str, join: Join) -> Member:
        """Enter a process, or a new incarnation of one; refuse a process that cannot play this game.

        A process that returns to a game that has begun keeps its seats.
        """
        self.compare(name, join)
        known = self._members.get(name)
        if known is not None and known.lost:
            check_kept(known)
        elsewhere = {COORDINATOR, Role.ADVERSARY} if join.role is Role.HOST else {COORDINATOR}
        if name in elsewhere or (known is not None and known.role is not join.role):
            raise Mismatch(f"the name {name} is taken by another role; choose another --name")
        incarnation, wish = 1 if known is None else known.incarnation + 1, SeatRequest(join.seats, join.agents)
        member = Member(name, join.role, join.address, incarnation, join.durable, wish)
        if known is not None:
            member.complaints, member.disturbed = known.complaints, known.disturbed
        if known is not None and self._begun and known.plays:
            member.wish, member.seats = known.wish, known.seats
        elif join.role is Role.HOST:
            self._check_host(name, wish)
        elif self.adversary is not None and known is None:
            raise Mismatch("the game has its adversary already; stop one of the two")
        else:
            self.description = None  # that of an older incarnation
        self._members[name] = member
        if join.role is Role.HOST:
            self.arrivals += 1
            self._quiet = False
            if known is None:
                self._seats.offer(name, member.wish)
            else:
                self._seats = self._granted()
        return member

    def describe(self, name: str, description: Description) -> bool:
        """Record what the adversary says of its plugin; return whether the code is another within a game.

        Mismatch where more than that has changed: the game could not go on.
        """
        before = self.description
        if self._begun and before is not None and not description.replaces(before):
            raise Mismatch(
                f"{name} has come back with another plugin: it was {before}, and is now {description}; start it as it "
                "was started first"
            )
        self.description = description
        return self._begun and before not in (None, description)

    @property
    def spec_tag(self) -> str:
        """By which the processes of this run know its spec again."""
        return tickets.spec_tag(self._secret, self._rules.spec)

    def compare(self, name: str, join: Join) -> None:
        """Refuse a process whose protocol, spec or arithmetic differs from that of this game."""
        if join.protocol != PROTOCOL:
            raise Mismatch(
                f"{name} speaks protocol {join.protocol} and the coordinator protocol {PROTOCOL}; "
                "install the same version of slaternet on both"
            )
        if join.spec_tag and join.spec_tag != self.spec_tag:
            raise Mismatch(
                f"{name} has begun a game of another spec than the coordinator's, or another run of the same; start it "
                "with --fresh, or with another --state"
            )
        fingerprint = self._rules.fingerprint
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

    def _granted(self, without: str = "") -> SeatAllocation:
        """Return the seats that the hosts request; before the game has begun a host that is gone holds none."""
        seats = SeatAllocation(self._rules.agents, self._rules.hosts)
        for host in self.hosts:
            if not host.gone and host.name != without:
                seats.offer(host.name, host.wish)
        return seats

    def set_connected(self, member: Member, *, connected: bool) -> None:
        """Record that a process's control stream is open, or has ended."""
        before, member.connected, member.gone = member.gone, connected, not connected
        if self._begun or member.gone == before:
            return
        if member.role is Role.HOST:
            self._seats = self._granted()
        elif member.gone:
            self.description = None  # the adversary sends it again when it returns

    def mark_quiet(self, arrivals: int) -> None:
        """Mark gathering as quiet if no host has joined after arrival `arrivals`.

        Hosts that have joined but opened no control stream in that time lose their seats.
        """
        self._quiet = arrivals == self.arrivals
        if self._quiet and not self._begun:
            for host in self.hosts:
                host.gone = not host.connected
            self._seats = self._granted()

    def missing(self) -> str:
        """Return what must still arrive before the game can begin; empty when nothing must."""
        if self.adversary is None or self.adversary.gone:
            return "the adversary"
        if self.description is None:
            return "the adversary's plugin"
        if missing := self._seats.missing():
            return missing
        if not (self._seats.settled or self._quiet):
            return f"further agent hosts, until none has come for {self._limits.gathering_seconds:g} s"
        # once the game has begun, a process without --state cannot be restarted
        unconnected = [name for name in self._seats.seated if not self[name].connected]
        if len(unconnected) > 1:
            return f"{len(unconnected)} agent hosts to connect"
        return f"{unconnected[0]} to connect" if unconnected else ""

    def begin(self) -> None:
        """Assign the seats."""
        self._begun = True
        for name, agents in self._seats.assigned().items():
            self[name].seats = agents

    def restore(self, secret: bytes, entries: Iterable[SavedMember], *, begun: bool) -> None:
        """Restore the processes that were stored; before the game has begun they hold no seats until they return."""
        self._secret = secret
        self._begun = begun
        for each in entries:
            self._members[each.name] = Member(**{name: getattr(each, name) for name in _KEPT}, gone=not begun)
        self.arrivals = len(self.hosts)

    def ticket(self, member: Member, server: str = COORDINATOR) -> bytes:
        """Return the ticket that a process presents to a server, by default to the coordinator."""
        return tickets.ticket(self._secret, member.name, member.incarnation, server)

    def challenge(self, name: str, shown: bytes) -> bytes | None:
        """Return the ticket that joins under a taken name, unless it is the one shown or the name is free.

        It changes only when a process has joined under the name. So a delayed Join of a dead process cannot displace
        its successor, and a process that asks for tickets again and again does not spoil that of another.
        """
        member = self._members.get(name)
        if member is None:
            return None
        expected = self.ticket(member, server="")  # no server has this name: it opens no stream
        return None if hmac.compare_digest(shown, expected) else expected

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

    def peer(self, other: Member, receiver: Member) -> Peer:
        """Return what one process must know of another, with the tickets between the two; none of one shut out."""
        if other.shut_out:
            return Peer(other.name, "", other.incarnation, other.seats)
        present, accept = self.ticket(receiver, other.name), self.ticket(other, receiver.name)
        return Peer(other.name, other.address, other.incarnation, other.seats, present=present, accept=accept)
