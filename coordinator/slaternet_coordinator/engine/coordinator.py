"""The coordinator as a state machine: who plays, which topology is published, when the game is over.

Hosts without seats are spares: they are told so, and when the game is over; nobody waits for them, but one of them may
be given the seats of a host that is lost. While such seats have no host, those who play hold.

A process that dies in the middle of a game may come back as another incarnation with the same seats. So may the
coordinator: what others must not see before it would survive stands behind a `Keep`, and `restore` takes it up again.
"""

from collections.abc import Iterator

from slaternet.errors import BadSpec, Diverged, Mismatch, NotSeated, NotYours, PluginFailed, RoundNotOpen
from slaternet.limits import LIMITS, Limits
from slaternet.model import (
    Acknowledged,
    Checkpointed,
    Description,
    Failed,
    Finished,
    GameOver,
    Hold,
    Holding,
    Join,
    LowWater,
    Opening,
    Progress,
    Refusals,
    Role,
    Status,
    StopAt,
    Waiting,
)
from slaternet_coordinator.engine.events import (
    Admit,
    Announce,
    AwaitHolding,
    AwaitQuiet,
    Effect,
    Event,
    HoldExpired,
    Joined,
    Keep,
    Leave,
    Lost,
    MemberMessage,
    Opened,
    Quiet,
    Said,
    StopAsked,
    StreamClosed,
    Tell,
)
from slaternet_coordinator.engine.game_state import GameState, GameView, Phase
from slaternet_coordinator.engine.reseating import Adoption, Reseating, furthest
from slaternet_coordinator.engine.roster import Member, MemberView, check_kept
from slaternet_coordinator.engine.rules import Rules
from slaternet_coordinator.engine.saved import SavedGame
from slaternet_coordinator.engine.status import NOTHING, Observed, status
from slaternet_coordinator.graphs import Graph


class Coordinator:
    """Seats the hosts, publishes the graph, settles the end."""

    def __init__(self, graph: Graph, rules: Rules, secret: bytes, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._state = GameState(graph, rules, secret, limits)
        self._register = self._state.register
        self._publication = self._state.publication
        self._seatings = Reseating(self._state)
        self._view = self._state.view()

    def view(self) -> GameView:
        """Return how the game stands since the last event; other threads may ask, too."""
        return self._view

    def members(self) -> tuple[MemberView, ...]:
        """Return every process of the game as it is now, in the order of joining."""
        spares = self._register.spares
        return tuple(member.view(spare=member.name in spares) for member in self._register)

    def member(self, name: str) -> MemberView | None:
        """Return one process as it is now; None where it has not joined."""
        member = self._register.get(name)
        return None if member is None else member.view(spare=self._register.is_spare(member))

    def status(self, seen: Observed = NOTHING) -> Status:
        """Return how the game stands, and what a shell has seen besides."""
        return status(self._state, seen, self._limits)

    def compare(self, name: str, join: Join) -> None:
        """Refuse a process that speaks, plays or computes otherwise than this game."""
        self._register.compare(name, join)

    def restore(self, memory: SavedGame, secret: bytes) -> None:
        """Restore the game that an older incarnation of the coordinator has stored."""
        self._state.restore(memory, secret)
        self._view = self._state.view()

    def resume(self) -> list[Effect]:
        """Return what must be done for a game that was restored, before any process is back."""
        self._seatings.check_players()
        if self._state.phase is Phase.GATHERING and self._state.rules.hosts is None:
            return [AwaitQuiet(self._register.arrivals)]
        if self._state.phase is Phase.STOPPING and not self._state.stopped:
            return [AwaitHolding()]
        effects = self._publish() + self._leave_if_alone()
        self._view = self._state.view()
        return effects

    def handle(self, event: Event) -> list[Effect]:
        """Take one event in and return what must now be done, in order."""
        try:
            return self._handle(event)
        finally:
            self._view = self._state.view()

    def _handle(self, event: Event) -> list[Effect]:
        match event:
            case Said(name, body, stale):
                return self._hear(self._register[name], body, stale=stale)
            case Joined(name, join):
                return self._admit(name, join)
            case Opened(name, opening, stale):
                return self._open(name, opening, stale=stale)
            case StreamClosed(name):
                self._register.note(self._register[name], connected=False)
                return self._leave_if_alone()
            case Lost(name):
                return self._lose(self._register[name])
            case StopAsked():
                return self._hold()
            case HoldExpired():
                return self._settle(self._publication.last)
            case Quiet(arrivals):
                self._register.calm(arrivals)
                return self._begin_if_ready()

    def _open(self, name: str, opening: Opening, *, stale: bool) -> list[Effect]:
        """Tell a process on its new stream all that it must know; one that is `stale` goes back to M."""
        member, published = self._register.identify(name, opening), self._publication.last
        if opening.round > published:  # what else was forgotten, nobody knows
            raise Diverged(
                f"{name} holds the topology up to round {opening.round} and the coordinator remembers none after round "
                f"{published}: its state is not its newest; put that back, or begin the whole game anew"
            )
        self._register.note(member, connected=True)
        if begun := self._begin_if_ready():
            return begun
        if adopted := self._adopt():
            return adopted
        return list(self._recall(member, self._publication.low_water if stale else opening.round))

    def _admit(self, name: str, join: Join) -> list[Effect]:
        known = self._register.get(name)
        # one that died before it could write down that the game is over is told so again
        if self._state.phase is Phase.FAILED or (self._state.phase is Phase.OVER and known is None):
            ended = "is over" if self._state.phase is Phase.OVER else "has failed"
            raise Mismatch(f"{name} comes too late: the game {ended}; start the coordinator anew for another")
        self._seatings.check(name, join)
        if known is not None and known.plays and self._state.phase.under_way:
            return self._readmit(known, join)
        member = self._register.admit(name, join)
        effects = self._welcome(member)
        if self._state.phase is Phase.GATHERING and member.role is Role.HOST:
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
        member.mark = self._publication.low_water
        member.round = self._publication.low_water if member.role is Role.HOST else self._state.score.round
        member.reached = self._publication.last
        others = [self._place(each) for each in self._register if each.plays and each is not member]
        return [*self._welcome(member), *others]

    def _welcome(self, member: Member) -> list[Effect]:
        return [self._keep(), Admit(member.incarnation, self._register.ticket(member))]

    def _keep(self) -> Keep:
        return Keep(self._state.memory())

    def _place(self, member: Member) -> Tell:
        """Tell a process where it sits, or that there is no seat for it."""
        return Tell(member.name, self._seatings.place(member, self._publication.low_water))

    def _recall(self, member: Member, have: int) -> Iterator[Effect]:
        """Say again all that a process must know, to one that holds the topology up to `have`."""
        state = self._state
        if state.phase is Phase.GATHERING:
            if member.name in self._register.spares:
                yield self._place(member)
            return
        yield self._place(member)
        if member.seats.size:
            index = self._register.players.index(member)
            for topologies in self._publication.since(have, self._register.players):
                yield Tell(member.name, topologies[index])
        if state.stopped and state.last is not None and member.plays:
            yield Tell(member.name, StopAt(state.last))
        elif member.seats.size and (state.phase is Phase.STOPPING or self._register.orphaned):
            yield Tell(member.name, Hold())
        if state.phase.ended:
            yield Tell(member.name, GameOver(state.failure))

    def _begin_if_ready(self) -> list[Effect]:
        if self._state.phase is not Phase.GATHERING or self._register.missing():
            return []
        self._seatings.begin()
        self._state.phase = Phase.PLAYING
        return [self._keep(), *map(self._place, self._register), *self._publish()]

    def _hear(self, member: Member, body: MemberMessage, *, stale: bool) -> list[Effect]:  # noqa: C901 - a case for each kind
        check_kept(member)
        match body:
            case Progress() | Waiting() | Checkpointed() | Holding() | Finished() if stale and member.role is Role.HOST:
                return []  # it plays those rounds again; what the adversary has scored stays scored
            case Progress():
                return self._advance(member, body)
            case Waiting():
                return self._wait(member, body)
            case Description():
                return self._describe(member, body)
            case Checkpointed(round):
                return self._checkpoint(member, round)
            case Holding(entered):
                return self._stand_still(member, entered)
            case Finished():
                self._check_part(member)
                member.finished, member.waits_for = True, ()
                return self._end(Phase.OVER) if all(each.finished for each in self._register if each.plays) else []
            case Failed(reason) if member.name in self._register.spares:
                return [
                    Tell(member.name, GameOver(f"{member.name}: {reason}"))
                ]  # the game needs it no more than before
            case Failed(reason):
                return self._end(Phase.FAILED, f"{member.name}: {reason}")
            case Acknowledged():
                member.acknowledged = True
                return [self._keep(), *self._leave_if_alone()] if self._state.phase.ended else []
            case Refusals(breaches):
                member.refused = breaches
                return []

    def _describe(self, member: Member, description: Description) -> list[Effect]:
        if member.role is not Role.ADVERSARY:
            raise NotYours("only the adversary describes the plugin")
        if self._state.phase is Phase.GATHERING:
            self._register.description = description
        elif description != self._register.description:
            raise Mismatch(
                f"{member.name} has come back with another plugin: it was {self._register.description}, and is now "
                f"{description}; start it as it was started first"
            )
        return self._begin_if_ready()

    def _checkpoint(self, member: Member, round: int) -> list[Effect]:
        """Record that a host can restart from a round, which it has finished then."""
        if member.role is not Role.HOST:
            raise NotYours("only hosts write checkpoints")
        self._check_part(member, round)
        member.mark = max(member.mark, round)
        return self._advance(member, Progress(round))

    def _advance(self, member: Member, progress: Progress) -> list[Effect]:
        self._check_part(member, progress.round)
        member.round = max(member.round, progress.round)
        if member.role is Role.ADVERSARY and progress.round >= self._state.score.round:
            self._state.score = progress
        if member.round >= member.waits_in:
            member.waits_for = ()
        return self._publish()

    def _wait(self, member: Member, waiting: Waiting) -> list[Effect]:
        """Record whom a host waits for; that it waits in a round says that it has finished the one before."""
        if member.role is not Role.HOST:
            raise NotYours("only hosts say whom they wait for")
        effects = self._advance(member, Progress(waiting.round - 1))
        if waiting.round > member.round:
            member.waits_in, member.waits_for = waiting.round, self._register.known(waiting.names)
        return effects

    def _check_part(self, member: Member, round: int = 0) -> None:
        """Refuse a process that plays nothing, or that cannot have come to a round."""
        if self._state.phase is Phase.GATHERING:
            raise NotSeated("nothing can be played before the seating")
        if not member.plays:
            raise NotSeated("a spare plays nothing")
        if round > self._publication.last:
            raise RoundNotOpen("nobody can have come to a round whose topology is not published")

    def _publish(self) -> list[Effect]:
        if self._state.phase is not Phase.PLAYING or self._register.orphaned:
            return []
        players = self._register.players
        try:
            batches = self._publication.extend(players, self._state.score.round, self._state.last)
        except (BadSpec, PluginFailed) as error:
            return self._end(Phase.FAILED, str(error))
        if not batches:
            return []
        told = [Tell(host.name, body) for batch in batches for host, body in zip(players, batch, strict=True)]
        if self._register.adversary is not None:
            told.append(Tell(self._register.adversary.name, LowWater(self._publication.low_water)))
        return [self._keep(), *told]

    def _hold(self) -> list[Effect]:
        if self._state.phase is Phase.GATHERING:
            raise NotSeated("the game has not begun; end its processes instead")
        if self._state.phase is not Phase.PLAYING:
            return []
        self._state.phase = Phase.STOPPING
        return [self._keep(), *self._tell_to_hold(), AwaitHolding(), *self._settle(None)]

    def _tell_to_hold(self) -> list[Effect]:
        return [Tell(host.name, Hold()) for host in self._register.survivors if host.holding is None]

    def _stand_still(self, member: Member, entered: int) -> list[Effect]:
        """Record the last round that a host has entered, now that it holds."""
        self._check_part(member, entered)
        if self._state.phase is not Phase.STOPPING and not self._register.orphaned:
            return []  # nobody has asked, and it may go on
        member.holding = max(entered, member.reached)
        return self._settle_or_adopt()

    def _settle_or_adopt(self) -> list[Effect]:
        """Go on where a host that holds, or is lost, was the last that was waited for."""
        if settled := self._settle(None):
            return settled  # an adoption that was due follows from it
        return self._adopt()

    def _settle(self, silent: int | None) -> list[Effect]:
        """Settle the last round: the furthest that any host has entered, a silent one counting as `silent`."""
        if self._state.phase is not Phase.STOPPING or self._state.stopped:
            return []
        if (last := furthest(self._register.survivors, silent)) is None:
            return []
        self._state.stopped = True
        # nobody knows how far those have come who are lost
        self._state.last = max(last, self._publication.last) if self._register.orphaned else last
        told = [Tell(member.name, StopAt(self._state.last)) for member in self._register if member.plays]
        return [self._keep(), *told, *self._adopt()]

    def _lose(self, member: Member) -> list[Effect]:
        """Give up a host for good; the others hold until another has its seats."""
        if not self._state.phase.under_way or not self._seatings.lose(member):
            return []
        effects: list[Effect] = [self._keep(), Announce(f"{member.name} is lost")]
        if self._state.phase is Phase.PLAYING:
            effects += self._tell_to_hold()
        return effects + self._settle_or_adopt()

    def _adopt(self) -> list[Effect]:
        """Seat the agents of those who are lost anew, once it is known how far everyone is; all go back to M."""
        if not self._state.phase.under_way or not self._register.orphaned:
            return []
        entered = furthest(self._register.survivors) if self._state.phase is Phase.PLAYING else self._state.settled
        if entered is None:
            return []
        left = self._state.last is None or entered < self._state.last
        adoption = self._seatings.seat_anew(entered + 1 if left else None)
        return [] if adoption is None else self._go_back(adoption, entered)

    def _go_back(self, adoption: Adoption, entered: int) -> list[Effect]:
        """Let everyone take the game up again after M, in the new seating."""
        players, mark = self._register.players, self._publication.low_water
        for host in players:
            # of agents that stay, who was lost may have asked for more than the others
            host.go_back(mark, self._publication.last if adoption.departure is None else entered)
        self._publication.depart(self._state.departures)
        try:
            batches = list(self._publication.since(mark, players))
        except (BadSpec, PluginFailed) as error:
            return self._end(Phase.FAILED, str(error))
        told = [self._place(member) for member in self._register if member.plays]
        told += [Tell(host.name, body) for batch in batches for host, body in zip(players, batch, strict=True)]
        if self._state.stopped and self._state.last is not None:
            told += [Tell(host.name, StopAt(self._state.last)) for host in players]
        return [self._keep(), Announce(str(adoption)), *told]

    def _end(self, phase: Phase, failure: str = "") -> list[Effect]:
        if self._state.phase.ended:
            return []
        self._state.phase, self._state.failure = phase, failure
        return [self._keep(), *(Tell(member.name, GameOver(failure)) for member in self._register)]

    def _leave_if_alone(self) -> list[Effect]:
        if not self._state.phase.ended:
            return []
        # after a failure a process that is gone may be the one that failed; one that has yet to connect is waited for
        failed = self._state.phase is Phase.FAILED
        left = (each.lost or each.acknowledged or (each.gone and (failed or not each.plays)) for each in self._register)
        return [Leave()] if all(left) else []
