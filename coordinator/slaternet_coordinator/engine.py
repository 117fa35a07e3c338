"""The coordinator as a state machine: who plays, which topology is published, when the game is over.

gathering   processes join; the adversary describes its plugin; hosts are seated when all are there
playing     W_t is published up to min(slowest host, last scored round, M + 2C) + L
stopping    nothing more is published; hosts say how far they are; the last round S is settled and told
over        every host has played the last round and the summary is written; all acknowledge and leave
failed      a process said that it cannot go on

Hosts without seats are spares: they are told so, and when the game is over; nobody waits for them.

A process that dies in the middle of a game may come back as another incarnation with the same seats. So may the
coordinator: what others must not see before it would survive stands behind a `Keep`, and `restore` takes it up again.
"""

from collections.abc import Iterator
from enum import StrEnum

from slaternet.errors import BadSpec, Diverged, Mismatch, NotSeated, NotYours, PluginFailed, RoundNotOpen
from slaternet.limits import LIMITS, Limits
from slaternet.model import (
    Acknowledged,
    Checkpointed,
    Description,
    Failed,
    Finished,
    Hold,
    Holding,
    Join,
    LowWater,
    Over,
    Progress,
    Refusals,
    Role,
    Spare,
    Status,
    StopAt,
    Waiting,
)
from slaternet_coordinator import standing
from slaternet_coordinator.blame import Waits
from slaternet_coordinator.events import (
    Admit,
    AwaitHolding,
    AwaitQuiet,
    Closed,
    Effect,
    Event,
    Heard,
    HoldExpired,
    Joined,
    Keep,
    Leave,
    Opened,
    Quiet,
    Said,
    StopAsked,
    Tell,
)
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.memory import Memory
from slaternet_coordinator.publication import Publication, slowest
from slaternet_coordinator.register import Member, Register
from slaternet_coordinator.standing import NOTHING, Observed


class Phase(StrEnum):
    """Where the game stands."""

    GATHERING = "gathering"
    PLAYING = "playing"
    STOPPING = "stopping"
    OVER = "over"
    FAILED = "failed"


class Coordinator:
    """Seats the hosts, publishes the graph, settles the end."""

    def __init__(self, graph: Graph, register: Register, rounds: int | None, limits: Limits = LIMITS) -> None:
        self._register = register
        self._limits = limits
        self._publication = Publication(graph, limits)
        self._last = rounds
        self._settled = False  # the last round was settled by a stop
        self._score = Progress(0)
        self._phase = Phase.GATHERING
        self._failure = ""

    @property
    def phase(self) -> Phase:
        """Where the game stands."""
        return self._phase

    @property
    def scored(self) -> int:
        """The last round scored."""
        return self._score.round

    @property
    def published(self) -> int:
        """The last round whose topology is published."""
        return self._publication.last

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
        """M, as it was last announced: nobody asks again for what came before it."""
        return self._publication.low_water

    def restore(self, memory: Memory) -> None:
        """Take up a game where an older incarnation of the coordinator has left it."""
        self._phase = Phase(memory.phase)
        self._publication.last, self._publication.low_water = memory.published, memory.low_water
        if memory.settled is not None:
            self._last, self._settled = memory.settled, True
        self._failure = memory.failure
        self._register.description = memory.description

    def resume(self) -> list[Effect]:
        """Return what must be done for a game that was taken up, before anyone is back."""
        if self._phase is Phase.GATHERING and not self._register.expected:
            return [AwaitQuiet(self._register.arrivals)]
        if self._phase is Phase.STOPPING and not self._settled:
            return [AwaitHolding()]
        return self._publish() + self._leave_if_alone()

    def _keep(self, *members: Member) -> Keep:
        """Have it written down how the game stands, and what must be remembered of some processes."""
        memory = Memory(
            phase=self._phase,
            published=self.published,
            low_water=self.low_water,
            settled=self._last if self._settled else None,
            failure=self._failure,
            description=None if self._phase is Phase.GATHERING else self._register.description,
        )
        return Keep(memory, tuple(member.entry for member in members))

    def handle(self, event: Event) -> list[Effect]:
        """Take one event in and return what must now be done, in order."""
        match event:
            case Said(name, body):
                return self._hear(self._register[name], body)
            case Joined(name, join):
                return self._admit(name, join)
            case Opened(name, opening):
                member = self._register.identify(name, opening)
                self._check_told(name, opening.round)
                self._register.note(member, connected=True)
                return self._begin_if_ready() or list(self._recall(member, opening.round))
            case Closed(name):
                self._register.note(self._register[name], connected=False)
                return self._leave_if_alone()
            case StopAsked():
                return self._hold()
            case HoldExpired():
                return self._settle(self.published)
            case Quiet(arrivals):
                self._register.calm(arrivals)
                return self._begin_if_ready()

    def _admit(self, name: str, join: Join) -> list[Effect]:
        known = self._register.get(name)
        # one that died before it could write down that the game is over is told so again
        if self._phase is Phase.FAILED or (self._phase is Phase.OVER and known is None):
            ended = "is over" if self._phase is Phase.OVER else "has failed"
            raise Mismatch(f"{name} comes too late: the game {ended}; start the coordinator anew for another")
        if known is not None and known.plays and self._phase in (Phase.PLAYING, Phase.STOPPING):
            return self._readmit(known, join)
        member = self._register.admit(name, join)
        effects = self._welcome(member)
        if self._phase is Phase.GATHERING and member.role is Role.HOST:
            effects.append(AwaitQuiet(self._register.arrivals))
        return effects + self._begin_if_ready()

    def _readmit(self, known: Member, join: Join) -> list[Effect]:
        """Let a process come back into the middle of a game: the others hear where it is now, and so will it."""
        if not (known.durable and join.durable):
            raise Mismatch(
                f"{known.name} has its part in a game that is under way, and has kept nothing to take it up again; "
                "stop the game, and start it anew with --state DIR for every process"
            )
        member = self._register.admit(known.name, join)
        # A host plays again from M: until it is as far as before, others must not forget what it asks for again. So its
        # newer checkpoints do not count, though it has them.
        member.mark = self.low_water
        member.round = self.low_water if member.role is Role.HOST else self._score.round
        member.reached = self.published
        others = (each for each in self._register if each.plays and each is not member)
        return [*self._welcome(member), *map(self._place, others)]

    def _welcome(self, member: Member) -> list[Effect]:
        return [self._keep(member), Admit(member.incarnation, self._register.ticket(member))]

    def _begin_if_ready(self) -> list[Effect]:
        if self._phase is not Phase.GATHERING or self._register.missing():
            return []
        self._register.begin()
        self._phase = Phase.PLAYING
        places: list[Effect] = [self._place(member) for member in self._register]
        return [self._keep(*self._register), *places, *self._publish()]

    def _place(self, member: Member) -> Tell:
        """Tell a process where it sits, or that there is no seat for it."""
        return Tell(member.name, self._register.seating(member) if member.plays else Spare())

    def _recall(self, member: Member, have: int) -> Iterator[Effect]:
        """Say again all that a process must know, to one that holds the topology up to `have`."""
        if self._phase is Phase.GATHERING:
            if member.name in self._register.spares:
                yield Tell(member.name, Spare())
            return
        yield self._place(member)
        if member.seats.size:
            index = self._register.players.index(member)
            for topologies in self._publication.since(have, self._register.players):
                yield Tell(member.name, topologies[index])
        if self._settled and self._last is not None and member.plays:
            yield Tell(member.name, StopAt(self._last))
        elif self._phase is Phase.STOPPING and member.seats.size:
            yield Tell(member.name, Hold())
        if self._phase in (Phase.OVER, Phase.FAILED):
            yield Tell(member.name, Over(self._failure))

    def _hear(self, member: Member, body: Heard) -> list[Effect]:  # noqa: C901 - one case for each kind of message
        match body:
            case Progress():
                return self._advance(member, body)
            case Waiting():
                return self._wait(member, body)
            case Description():
                return self._describe(member, body)
            case Checkpointed(round):
                return self._checkpoint(member, round)
            case Holding(entered):
                self._check_part(member)
                self._check_published(entered)
                member.holding = max(entered, member.reached)
                return self._settle(None)
            case Finished():
                self._check_part(member)
                member.finished, member.waits_for = True, ()
                return self._end(Phase.OVER) if all(each.finished for each in self._register if each.plays) else []
            case Failed(reason):
                return self._fail(member, reason)
            case Acknowledged():
                member.acknowledged = True
                ended = self._phase in (Phase.OVER, Phase.FAILED)
                return [self._keep(member), *self._leave_if_alone()] if ended else []
            case Refusals(breaches):
                member.refused = breaches
                return []

    def _describe(self, member: Member, description: Description) -> list[Effect]:
        if member.role is not Role.ADVERSARY:
            raise NotYours("only the adversary describes the plugin")
        if self._phase is Phase.GATHERING:
            self._register.description = description
        elif description != self._register.description:
            raise Mismatch(
                f"{member.name} has come back with another plugin: it was {self._register.description}, and is now "
                f"{description}; start it as it was started first"
            )
        return self._begin_if_ready()

    def _checkpoint(self, member: Member, round: int) -> list[Effect]:
        """Take down that a host can come back from a round, which it has finished then."""
        if member.role is not Role.HOST:
            raise NotYours("only hosts write checkpoints")
        self._check_part(member)
        self._check_published(round)
        member.mark = max(member.mark, round)
        return self._advance(member, Progress(round))

    def _advance(self, member: Member, progress: Progress) -> list[Effect]:
        self._check_part(member)
        self._check_published(progress.round)
        member.round = max(member.round, progress.round)
        if member.role is Role.ADVERSARY and progress.round >= self._score.round:
            self._score = progress
        if member.round >= member.waits_in:
            member.waits_for = ()
        return self._publish()

    def _wait(self, member: Member, waiting: Waiting) -> list[Effect]:
        """Take down whom a host waits for; that it waits in a round says that it has finished the one before."""
        if member.role is not Role.HOST:
            raise NotYours("only hosts say whom they wait for")
        effects = self._advance(member, Progress(waiting.round - 1))
        if waiting.round > member.round:
            member.waits_in, member.waits_for = waiting.round, self._register.known(waiting.names)
        return effects

    def _fail(self, member: Member, reason: str) -> list[Effect]:
        failure = f"{member.name}: {reason}"
        if member.name in self._register.spares:
            return [Tell(member.name, Over(failure))]  # the game needs it no more than before
        return self._end(Phase.FAILED, failure)

    def _check_part(self, member: Member) -> None:
        if self._phase is Phase.GATHERING:
            raise NotSeated("nothing can be played before the seating")
        if not member.plays:
            raise NotSeated("a spare plays nothing")

    def _check_published(self, round: int) -> None:
        if round > self.published:
            raise RoundNotOpen("nobody can have come to a round whose topology is not published")

    def _check_told(self, name: str, have: int) -> None:
        """Refuse to go on where more was told than is remembered: what else is forgotten, nobody knows."""
        if have > self.published:
            raise Diverged(
                f"{name} holds the topology up to round {have} and the coordinator remembers none after round "
                f"{self.published}: its state is not its newest; put that back, or begin the whole game anew"
            )

    def _publish(self) -> list[Effect]:
        if self._phase is not Phase.PLAYING:
            return []
        players, before = self._register.players, self.low_water
        try:
            batches = self._publication.extend(players, self._score.round, self._last)
        except (BadSpec, PluginFailed) as error:
            return self._end(Phase.FAILED, str(error))
        if not batches:
            return []
        grown = self.low_water > before
        effects: list[Effect] = [self._keep(*(host for host in players if grown and host.durable))]
        for topologies in batches:
            effects += [Tell(host.name, topology) for host, topology in zip(players, topologies, strict=True)]
        if self._register.adversary is not None:
            effects.append(Tell(self._register.adversary.name, LowWater(self.low_water)))
        return effects

    def _hold(self) -> list[Effect]:
        if self._phase is Phase.GATHERING:
            raise NotSeated("the game has not begun; end its processes instead")
        if self._phase is not Phase.PLAYING:
            return []
        self._phase = Phase.STOPPING
        return [self._keep(), *(Tell(host.name, Hold()) for host in self._register.players), AwaitHolding()]

    def _settle(self, silent: int | None) -> list[Effect]:
        """Settle the last round: the furthest that any host has entered, a silent one counting as `silent`."""
        if self._phase is not Phase.STOPPING or self._settled:
            return []
        entered = [silent if host.holding is None else host.holding for host in self._register.players]
        answers = [answer for answer in entered if answer is not None]
        if len(answers) < len(entered):
            return []
        self._settled = True
        self._last = max(1, *answers)  # at least one round is played, so that there is something to sum up
        told = [Tell(member.name, StopAt(self._last)) for member in self._register if member.plays]
        return [self._keep(), *told]

    def _end(self, phase: Phase, failure: str = "") -> list[Effect]:
        if self._phase in (Phase.OVER, Phase.FAILED):
            return []
        self._phase, self._failure = phase, failure
        return [self._keep(), *(Tell(member.name, Over(failure)) for member in self._register)]

    def _leave_if_alone(self) -> list[Effect]:
        if self._phase not in (Phase.OVER, Phase.FAILED):
            return []
        # after a failure nobody is waited for who may be the one that failed, but whoever has yet to come is
        forgiving = self._phase is Phase.FAILED
        gone = (each.acknowledged or (each.lost and (forgiving or not each.plays)) for each in self._register)
        return [Leave()] if all(gone) else []

    def status(self, seen: Observed = NOTHING) -> Status:
        """Return how the game stands, and what a shell has seen besides."""
        return Status(
            round=self._score.round,
            phase=self._phase,
            agents=self._register.agents,
            rounds=self._last or 0,
            published=self.published,
            cumulative_loss=self._score.cumulative_loss,
            cumulative_violation=self._score.cumulative_violation,
            hosts=standing.processes(self._register, seen, self._limits),
            waiting_for=self._waiting_for(seen),
            failure=self._failure,
            breaches=standing.breaches(self._register, seen, self._limits),
            rounds_per_second=seen.rounds_per_second,
            troubles=seen.troubles,
        )

    def _waiting_for(self, seen: Observed) -> str:
        if self._phase is Phase.GATHERING:
            return self._register.missing()
        if self._phase not in (Phase.PLAYING, Phase.STOPPING):
            return ""
        return Waits(self._register, self._holds_up(), seen.silent, self._limits).culprits()

    def _holds_up(self) -> set[str]:
        """Return those for whom the coordinator itself waits, before it publishes or tells more."""
        if self._phase is Phase.STOPPING and not self._settled:
            return {host.name for host in self._register.players if host.holding is None}
        least = min(slowest(self._register.players), self._score.round)
        return {member.name for member in self._register if member.plays and member.round <= least}
