"""The coordinator as a state machine: who plays, which topology is published, when the game is over.

gathering   processes join; the adversary describes its plugin; hosts are seated when all are there
playing     W_t is published up to min(slowest host, last scored round) + L
stopping    nothing more is published; hosts say how far they are; the last round S is settled and told
over        every host has played the last round and the summary is written; all acknowledge and leave
failed      a process said that it cannot go on
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from slaternet.errors import BadSpec, Mismatch, NotSeated, NotYours, PluginFailed, RoundNotOpen
from slaternet.limits import LIMITS, Limits
from slaternet.model import (
    Acknowledged,
    Breach,
    ControlDown,
    Description,
    Failed,
    Finished,
    Hold,
    Holding,
    HostStatus,
    Join,
    LowWater,
    Opening,
    Over,
    Progress,
    Refusals,
    Role,
    Status,
    StopAt,
    Topology,
)
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.graphs.checks import check
from slaternet_coordinator.register import NAME, Member, Register
from slaternet_coordinator.topology import cut


class Phase(StrEnum):
    """Where the game stands."""

    GATHERING = "gathering"
    PLAYING = "playing"
    STOPPING = "stopping"
    OVER = "over"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Joined:
    """A process asks for a place."""

    name: str
    join: Join


@dataclass(frozen=True, slots=True)
class Opened:
    """A process opens its control stream."""

    name: str
    opening: Opening


@dataclass(frozen=True, slots=True)
class Closed:
    """The control stream of a process has ended."""

    name: str


Heard = Description | Progress | Holding | Finished | Failed | Acknowledged | Refusals


@dataclass(frozen=True, slots=True)
class Said:
    """A process says something on its control stream."""

    name: str
    body: Heard


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The operator ends the game."""


@dataclass(frozen=True, slots=True)
class HoldExpired:
    """Hosts had their time to answer Hold."""


Event = Joined | Opened | Closed | Said | StopAsked | HoldExpired


@dataclass(frozen=True, slots=True)
class Admit:
    """Answer to a join; a control stream of an older incarnation ends."""

    incarnation: int
    ticket: bytes


@dataclass(frozen=True, slots=True)
class Tell:
    """A message on a process's control stream; lost if there is none, and said again when one opens."""

    name: str
    body: ControlDown


@dataclass(frozen=True, slots=True)
class AwaitHolding:
    """Give hosts their time to answer Hold, then say HoldExpired."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Everyone has acknowledged: the coordinator may go."""


Effect = Admit | Tell | AwaitHolding | Leave


class Coordinator:
    """Seats the hosts, publishes the graph, settles the end."""

    def __init__(self, graph: Graph, register: Register, rounds: int | None, limits: Limits = LIMITS) -> None:
        self._graph = graph
        self._register = register
        self._limits = limits
        self._last = rounds
        self._settled = False  # the last round was settled by a stop
        self._published = 0
        self._batch = 1  # rounds per topology message, until their size is known
        self._score = Progress(0)
        self._phase = Phase.GATHERING
        self._failure = ""

    @property
    def phase(self) -> Phase:
        """Where the game stands."""
        return self._phase

    @property
    def last(self) -> int | None:
        """The last round of the game; None while a game without end goes on."""
        return self._last

    @property
    def settled(self) -> int | None:
        """The last round, once it can no longer change; None while the game may still be stopped."""
        return self._last if self._settled or self._phase is Phase.OVER else None

    @property
    def epoch(self) -> int:
        """How many seatings there have been."""
        return 0 if self._phase is Phase.GATHERING else 1

    @property
    def low_water(self) -> int:
        """M, the slowest host's last finished round: nobody asks again for what came before it."""
        return min((host.round for host in self._register.hosts), default=0)

    def handle(self, event: Event) -> list[Effect]:
        """Take one event in and return what must now be done, in order."""
        match event:
            case Said(name, body):
                return self._hear(self._register[name], body)
            case Joined(name, join):
                return self._admit(name, join)
            case Opened(name, opening):
                member = self._register.identify(name, opening)
                member.connected, member.lost = True, False
                return list(self._recall(member, opening.round))
            case Closed(name):
                member = self._register[name]
                member.connected, member.lost = False, True
                return self._leave_if_alone()
            case StopAsked():
                return self._hold()
            case HoldExpired():
                return self._settle(self._published)

    def _admit(self, name: str, join: Join) -> list[Effect]:
        if self._phase is not Phase.GATHERING:
            raise Mismatch(f"{name} comes too late: the game is {self._phase} and every seat is taken")
        member = self._register.admit(name, join)
        return [Admit(member.incarnation, self._register.ticket(member)), *self._begin_if_ready()]

    def _begin_if_ready(self) -> list[Effect]:
        if self._phase is not Phase.GATHERING or self._register.missing():
            return []
        self._register.share()
        self._phase = Phase.PLAYING
        seatings: list[Effect] = [Tell(member.name, self._register.seating(member)) for member in self._register]
        return seatings + self._publish()

    def _recall(self, member: Member, have: int) -> Iterator[Effect]:
        """Say again all that a process must know, to one that holds the topology up to `have`."""
        if self._phase is Phase.GATHERING:
            return
        yield Tell(member.name, self._register.seating(member))
        if member.role is Role.HOST:
            index = self._register.hosts.index(member)
            for topologies in self._topologies(have + 1, self._published):
                yield Tell(member.name, topologies[index])
        if self._settled and self._last is not None:
            yield Tell(member.name, StopAt(self._last))
        elif self._phase is Phase.STOPPING and member.role is Role.HOST:
            yield Tell(member.name, Hold())
        if self._phase in (Phase.OVER, Phase.FAILED):
            yield Tell(member.name, Over(self._failure))

    def _hear(self, member: Member, body: Heard) -> list[Effect]:  # noqa: C901 - one case for each kind of message
        match body:
            case Progress():
                return self._advance(member, body)
            case Description():
                if member.role is not Role.ADVERSARY:
                    raise NotYours("only the adversary describes the plugin")
                self._register.description = body
                return self._begin_if_ready()
            case Holding(entered):
                self._check_published(entered)
                member.holding = entered
                return self._settle(None)
            case Finished():
                self._check_seated()
                member.finished = True
                return self._end(Phase.OVER) if all(each.finished for each in self._register) else []
            case Failed(reason):
                return self._end(Phase.FAILED, f"{member.name}: {reason}")
            case Acknowledged():
                member.acknowledged = True
                return self._leave_if_alone()
            case Refusals(breaches):
                member.refused = breaches
                return []

    def _advance(self, member: Member, progress: Progress) -> list[Effect]:
        self._check_seated()
        self._check_published(progress.round)
        member.round = max(member.round, progress.round)
        if member.role is Role.ADVERSARY and progress.round >= self._score.round:
            self._score = progress
        return self._publish()

    def _check_seated(self) -> None:
        if self._phase is Phase.GATHERING:
            raise NotSeated("nothing can be played before the seating")

    def _check_published(self, round: int) -> None:
        if round > self._published:
            raise RoundNotOpen("nobody can have come to a round whose topology is not published")

    def _publish(self) -> list[Effect]:
        if self._phase is not Phase.PLAYING:
            return []
        mark = self.low_water
        frontier = min(mark, self._score.round) + self._limits.window
        if self._last is not None:
            frontier = min(frontier, self._last)
        # A quarter of the window at a time: few messages, and nobody waits for them.
        step = frontier - self._published
        if step <= 0 or (step < self._limits.window // 4 and frontier != self._last):
            return []
        effects: list[Effect] = []
        try:
            for topologies in self._topologies(self._published + 1, frontier):
                pairs = zip(self._register.hosts, topologies, strict=True)
                effects += [Tell(host.name, topology) for host, topology in pairs]
        except (BadSpec, PluginFailed) as error:
            return self._end(Phase.FAILED, str(error))
        self._published = frontier
        if self._register.adversary is not None:
            effects.append(Tell(self._register.adversary.name, LowWater(mark)))
        return effects

    def _topologies(self, first: int, last: int) -> Iterator[list[Topology]]:
        """Yield the topologies of all hosts, as many rounds at a time as fit into one message (at least one)."""
        seats = [host.seats for host in self._register.hosts]
        while first <= last:
            matrix = self._graph.matrices(first, min(self._batch, last + 1 - first))
            check(matrix, first)
            yield cut(first, matrix, seats, self.low_water)
            first += matrix.rounds
            # an entry takes 12 bytes and, off the diagonal, at most 12 more as a debt; a row 4
            fitting = self._limits.part_bytes * matrix.rounds // (24 * len(matrix.columns))
            self._batch = max(1, min(fitting, self._limits.window // 4))

    def _hold(self) -> list[Effect]:
        if self._phase is Phase.GATHERING:
            raise NotSeated("the game has not begun; end its processes instead")
        if self._phase is not Phase.PLAYING:
            return []
        self._phase = Phase.STOPPING
        return [*(Tell(host.name, Hold()) for host in self._register.hosts), AwaitHolding()]

    def _settle(self, silent: int | None) -> list[Effect]:
        """Settle the last round: the furthest that any host has entered, a silent one counting as `silent`."""
        if self._phase is not Phase.STOPPING or self._settled:
            return []
        entered = [silent if host.holding is None else host.holding for host in self._register.hosts]
        answers = [answer for answer in entered if answer is not None]
        if len(answers) < len(entered):
            return []
        self._settled = True
        self._last = max(1, *answers)  # at least one round is played, so that there is something to sum up
        return [Tell(member.name, StopAt(self._last)) for member in self._register]

    def _end(self, phase: Phase, failure: str = "") -> list[Effect]:
        if self._phase in (Phase.OVER, Phase.FAILED):
            return []
        self._phase, self._failure = phase, failure
        return [Tell(member.name, Over(failure)) for member in self._register]

    def _leave_if_alone(self) -> list[Effect]:
        if self._phase not in (Phase.OVER, Phase.FAILED):
            return []
        # after a failure nobody is waited for who may be the one that failed, but whoever has yet to come is
        failed = self._phase is Phase.FAILED
        gone = all(member.acknowledged or (failed and member.lost) for member in self._register)
        return [Leave()] if gone else []

    def status(self, refused: tuple[Breach, ...] = ()) -> Status:
        """Return how the game stands; `refused` is what the coordinator's own server has refused."""
        return Status(
            round=self._score.round,
            phase=self._phase,
            agents=self._register.agents,
            rounds=self._last or 0,
            published=self._published,
            cumulative_loss=self._score.cumulative_loss,
            cumulative_violation=self._score.cumulative_violation,
            hosts=tuple(HostStatus(m.name, m.address, len(m.seats), m.round, m.connected) for m in self._register),
            waiting_for=self._register.missing() if self._phase is Phase.GATHERING else "",
            failure=self._failure,
            breaches=self._breaches(refused),
        )

    def _breaches(self, refused: tuple[Breach, ...]) -> tuple[Breach, ...]:
        """Return what every process has refused, as far as it fits; those whom all must trust come first."""
        members = sorted(self._register, key=lambda member: member.role is Role.HOST)
        servers = [(NAME, refused), *((member.name, member.refused) for member in members)]
        breaches = (replace(each, server=server) for server, theirs in servers for each in theirs)
        return tuple(itertools.islice(breaches, self._limits.breaches))
