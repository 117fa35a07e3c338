"""How a game stands: what the coordinator remembers of it, and what each process must be told.

gathering   processes join; the adversary describes its plugin; hosts are seated when all are there
playing     W_t is published up to min(slowest host, last scored round, M + 2C) + L
stopping    nothing more is published; hosts say how far they are; the last round S is settled and told
over        every host has played the last round and the summary is written; all acknowledge and leave
failed      a process said that it cannot go on
"""

from collections.abc import Iterator
from enum import StrEnum

from slaternet.limits import LIMITS, Limits
from slaternet.model import Departure, Hold, Over, Progress, Status, StopAt
from slaternet_coordinator import standing
from slaternet_coordinator.blame import Waits, listed
from slaternet_coordinator.events import Effect, Keep, Tell
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.members import Member
from slaternet_coordinator.memory import Memory
from slaternet_coordinator.policy import Policy
from slaternet_coordinator.publication import Publication, slowest
from slaternet_coordinator.register import Register
from slaternet_coordinator.seatings import Seatings
from slaternet_coordinator.standing import NOTHING, Observed


class Phase(StrEnum):
    """Where the game stands."""

    GATHERING = "gathering"
    PLAYING = "playing"
    STOPPING = "stopping"
    OVER = "over"
    FAILED = "failed"

    @property
    def under_way(self) -> bool:
        """Whether rounds are played."""
        return self in (Phase.PLAYING, Phase.STOPPING)

    @property
    def ended(self) -> bool:
        """Whether nothing is played any more, however it went."""
        return self in (Phase.OVER, Phase.FAILED)


class Game:
    """The state of a game; whatever changes it is an event to the `Coordinator`."""

    def __init__(
        self,
        graph: Graph,
        register: Register,
        rounds: int | None,
        limits: Limits = LIMITS,
        *,
        policy: Policy = Policy.WAIT,
        departures: tuple[Departure, ...] = (),
        together: bool = False,
    ) -> None:
        self._register = register
        self._limits = limits
        self._seatings = Seatings(register, policy, departures, together=together)
        self._publication = Publication(graph, register.agents, limits)
        self._publication.depart(departures)
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
        return self._seatings.epoch

    @property
    def departures(self) -> tuple[Departure, ...]:
        """Which agents leave before the end, in ascending rounds."""
        return self._seatings.departures

    @property
    def departed(self) -> bool:
        """Whether agents have left the game that were to play it to its end."""
        return self._seatings.departed

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
        if memory.epoch:
            self._seatings.epoch, self._seatings.departures = memory.epoch, memory.departures
            self._publication.depart(memory.departures)

    def _keep(self, *members: Member) -> Keep:
        """Have it written down how the game stands, and what must be remembered of some processes."""
        memory = Memory(
            phase=self._phase,
            published=self.published,
            low_water=self.low_water,
            settled=self._last if self._settled else None,
            failure=self._failure,
            description=None if self._phase is Phase.GATHERING else self._register.description,
            epoch=self.epoch,
            departures=self.departures,
        )
        return Keep(memory, tuple(member.entry for member in members))

    def _place(self, member: Member) -> Tell:
        """Tell a process where it sits, or that there is no seat for it."""
        return Tell(member.name, self._seatings.place(member, self.low_water))

    def _recall(self, member: Member, have: int) -> Iterator[Effect]:
        """Say again all that a process must know, to one that holds the topology up to `have`."""
        if self._phase is Phase.GATHERING:
            if member.name in self._register.spares:
                yield self._place(member)
            return
        yield self._place(member)
        if member.seats.size:
            index = self._register.players.index(member)
            for topologies in self._publication.since(have, self._register.players):
                yield Tell(member.name, topologies[index])
        if self._settled and self._last is not None and member.plays:
            yield Tell(member.name, StopAt(self._last))
        elif member.seats.size and (self._phase is Phase.STOPPING or self._register.orphaned):
            yield Tell(member.name, Hold())
        if self._phase.ended:
            yield Tell(member.name, Over(self._failure))

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
        if not self._phase.under_way:
            return ""
        awaited = self._holds_up()
        culprits = Waits(self._register, awaited, seen.silent, self._limits).culprits()
        if culprits or not self._register.orphaned or not awaited:
            return culprits
        lost = [host.name for host in self._register.orphaned]
        return f"{listed(sorted(awaited))} to hold, because of {listed(lost)}, which the game goes on without"

    def _holds_up(self) -> set[str]:
        """Return those for whom the coordinator itself waits, before it publishes or tells more."""
        if (self._phase is Phase.STOPPING and not self._settled) or self._register.orphaned:
            return {host.name for host in self._register.survivors if host.holding is None}
        least = min(slowest(self._publication.awaited(self._register.players)), self._score.round)
        return {member.name for member in self._register if member.plays and member.round <= least}
