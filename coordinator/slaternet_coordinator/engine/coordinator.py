"""The coordinator as a state machine: which processes play, which topology is published, when the game is over.

Hosts without seats are spares: they learn that, and the end of the game. No process waits for them, but one of them may
get the seats of a host that is lost. While such seats have no host, the other hosts hold.

A process that dies in the middle of a game may restart as a new incarnation with the same seats. So may the
coordinator: what others must not see before it is durable comes after a `Keep`, and `restore` reads it again.
"""

from collections.abc import Iterator

from slaternet import model
from slaternet.errors import BadSpec, Diverged, Mismatch, NotSeated, NotYours, PluginFailed, RoundNotOpen
from slaternet.limits import LIMITS, Limits
from slaternet_coordinator.engine import events
from slaternet_coordinator.engine.disputes import Disputes
from slaternet_coordinator.engine.game_state import GameState, Phase
from slaternet_coordinator.engine.reseating import Adoption, Reseating, furthest
from slaternet_coordinator.engine.roster import Member, check_kept
from slaternet_coordinator.engine.rules import Rules
from slaternet_coordinator.engine.saved import SavedGame
from slaternet_coordinator.engine.status import NOTHING, Observed, status
from slaternet_coordinator.graphs import Graph

_TIMELESS = (model.Description, model.Failed, model.Acknowledged, model.Refusals, model.Accusation)
"""What a host may say whatever the seating."""


class Coordinator:
    """Seats the hosts, publishes the graph, ends the game."""

    def __init__(self, graph: Graph, rules: Rules, secret: bytes, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._state = GameState(graph, rules, secret, limits)
        self._roster = self._state.roster
        self._publication = self._state.publication
        self._reseating = Reseating(self._state)
        self._disputes = Disputes(self._state, limits, self._shut_out)
        self.cause: Exception | None = None  # of a failure, in full; the others are told no text of a plugin
        self.view = self._state.view()
        """The game after the last event; another thread may read it."""

    def members(self) -> tuple[model.HostStatus, ...]:
        """Return every process of the game as it is now, in the order of joining."""
        spares = self._roster.spares
        return tuple(member.status(spare=member.name in spares) for member in self._roster)

    def member(self, name: str) -> model.HostStatus | None:
        """Return one process as it is now; None where it has not joined."""
        member = self._roster.get(name)
        return None if member is None else member.status(spare=name in self._roster.spares)

    def status(self, seen: Observed = NOTHING) -> model.Status:
        """Return the status of the game, with what a shell has observed."""
        return status(self._state, seen, self._limits)

    def compare(self, name: str, join: model.Join) -> None:
        """Refuse a process whose protocol, spec or arithmetic differs from that of this game."""
        self._roster.compare(name, join)

    def challenge(self, name: str, join: model.Join) -> bytes | None:
        """Return the ticket with which a process must ask again for a name that is taken; None where it need not."""
        return self._roster.challenge(name, join.ticket)

    def restore(self, saved: SavedGame, secret: bytes) -> None:
        """Restore the game that an older incarnation of the coordinator has stored."""
        self._state.restore(saved, secret)
        self.view = self._state.view()

    def resume(self) -> list[events.Effect]:
        """Return what must be done for a game that was restored, before any process has reconnected."""
        self._reseating.check_players()
        if self._state.phase is Phase.GATHERING and self._state.rules.hosts is None:
            return [self._await_quiet()]
        if self._state.phase is Phase.STOPPING and not self._state.stopped:
            return [events.SetTimer(self._limits.hold_seconds, events.HoldExpired())]
        effects = self._publish() + self._leave_if_alone()
        self.view = self._state.view()
        return effects

    def handle(self, event: events.Event) -> list[events.Effect]:
        """Apply one event and return what must now be done, in order."""
        try:
            match event:
                case events.Said(name, body, stale):
                    return self._receive(self._roster[name], body, stale=stale)
                case events.Joined(name, join):
                    return self._admit(name, join)
                case events.Opened(name, opening, stale):
                    return self._open(name, opening, stale=stale)
                case events.StreamClosed(name):
                    self._roster.set_connected(self._roster[name], connected=False)
                    return self._leave_if_alone() + self._disputes.replace_judge(name)
                case events.Lost(name):
                    return self._lose(self._roster[name])
                case events.StopAsked():
                    return self._stop()
                case events.HoldExpired():
                    return self._settle(self._publication.last)
                case events.Quiet(arrivals):
                    self._roster.mark_quiet(arrivals)
                    return self._begin_if_ready()
                case events.JudgeExpired(dispute, judge):
                    return self._disputes.replace_judge(judge, dispute)
        finally:
            self.view = self._state.view()

    def _open(self, name: str, opening: model.Opening, *, stale: bool) -> list[events.Effect]:
        """Send a process on its new stream all that it must know; one that is `stale` goes back to M."""
        member, published = self._roster.identify(name, opening), self._publication.last
        if opening.round > published:  # what else is missing here is unknown
            raise Diverged(
                f"{name} holds the topology up to round {opening.round} and the coordinator remembers none after round "
                f"{published}: its state is not its newest; put that back, or begin the whole game anew"
            )
        self._roster.set_connected(member, connected=True)
        if begun := self._begin_if_ready():
            return begun
        if adopted := self._adopt():
            return adopted
        return list(self._repeat(member, self._publication.low_water if stale else opening.round))

    def _admit(self, name: str, join: model.Join) -> list[events.Effect]:
        known = self._roster.get(name)
        # a process that died before it could store the end of the game may join again to learn of it
        if self._state.phase is Phase.FAILED or (self._state.phase is Phase.OVER and known is None):
            ended = "is over" if self._state.phase is Phase.OVER else "has failed"
            raise Mismatch(f"{name} comes too late: the game {ended}; start the coordinator anew for another")
        self._reseating.check_join(name, join)
        if known is not None and known.plays and self._state.phase.under_way:
            return self._readmit(known, join)
        member = self._roster.admit(name, join)
        effects = self._welcome(member)
        if self._state.phase is Phase.GATHERING and member.role is model.Role.HOST:
            effects.append(self._await_quiet())
        return effects + self._begin_if_ready()

    def _readmit(self, known: Member, join: model.Join) -> list[events.Effect]:
        """Admit a new incarnation into a game under way: the others get its address, and it gets theirs."""
        if not (known.durable and join.durable):
            raise Mismatch(
                f"{known.name} has its part in a game that is under way, and has kept nothing to take it up again; "
                "stop the game, and start it anew with --state DIR for every process"
            )
        member = self._roster.admit(known.name, join)
        # A host plays again from M: until it is as far as before, others must keep what it asks for again. So its newer
        # checkpoints do not count, though it has them.
        member.mark = self._publication.low_water
        member.round = self._publication.low_water if member.role is model.Role.HOST else self._state.score.round
        member.reached = self._publication.last
        others = [self._seat(each) for each in self._roster if each.plays and each is not member]
        return [*self._welcome(member), *others]

    def _welcome(self, member: Member) -> list[events.Effect]:
        description = self._roster.description if member.role is model.Role.ADVERSARY else None
        ticket = self._roster.ticket(member)
        return [self._keep(), events.Admit(member.incarnation, ticket, self._roster.spec_tag, description)]

    def _await_quiet(self) -> events.SetTimer:
        return events.SetTimer(self._limits.gathering_seconds, events.Quiet(self._roster.arrivals))

    def _keep(self) -> events.Keep:
        return events.Keep(self._state.saved())

    def _seat(self, member: Member) -> events.Tell:
        """Tell a process its seats, or that there is none for it."""
        return events.Tell(member.name, self._state.seating(member))

    def _repeat(self, member: Member, have: int) -> Iterator[events.Effect]:
        """Tell a process all that it must know again; it has the topology up to the round `have`."""
        state = self._state
        if state.phase is Phase.GATHERING:
            if member.name in self._roster.spares:
                yield self._seat(member)
            return
        yield self._seat(member)
        if member.seats.size:
            for name, topology in self._publication.since(have, self._roster.players):
                if name == member.name:
                    yield events.Tell(name, topology)
        if state.stopped and state.last is not None and member.plays:
            yield events.Tell(member.name, model.StopAt(state.last))
        elif member.seats.size and (state.phase is Phase.STOPPING or self._roster.lost_with_seats):
            yield events.Tell(member.name, model.Hold())
        yield from self._disputes.asked(member.name)
        if state.phase.ended:
            yield events.Tell(member.name, model.GameOver(state.failure))

    def _begin_if_ready(self) -> list[events.Effect]:
        if self._state.phase is not Phase.GATHERING or self._roster.missing():
            return []
        self._roster.begin()
        self._state.epoch, self._state.phase = 1, Phase.PLAYING
        return [self._keep(), *map(self._seat, self._roster), *self._publish()]

    def _receive(self, member: Member, body: events.MemberMessage, *, stale: bool) -> list[events.Effect]:  # noqa: C901 - one per kind
        check_kept(member)
        if stale and member.role is model.Role.HOST and not isinstance(body, _TIMELESS):
            return []  # it plays those rounds again; what the adversary has scored stays scored
        match body:
            case model.Progress():
                return self._advance(member, body)
            case model.Waiting():
                return self._wait(member, body)
            case model.Description():
                return self._describe(member, body)
            case model.Checkpointed(round):
                return self._checkpoint(member, round)
            case model.Holding(entered):
                return self._hold(member, entered)
            case model.Finished():
                self._check_part(member)
                member.finished, member.waits_for = True, ()
                return self._end(Phase.OVER) if all(each.finished for each in self._roster if each.plays) else []
            case model.Failed(reason) if member.role is model.Role.HOST:
                return self._shut_out(member, "failed", f"{member.name}: {reason}")
            case model.Failed(reason):
                return self._end(Phase.FAILED, f"{member.name}: {reason}")
            case model.Dispute():
                self._check_part(member, body.round)
                return self._disputes.open(member, body)
            case model.DisputedRows():
                return self._disputes.answer(member, body)
            case model.Disturbed():
                self._check_part(member, body.round)
                return self._disputes.disturb(member, body)
            case model.Accusation():
                return self._disputes.record(member, body)
            case model.Acknowledged():
                member.acknowledged = True
                return [self._keep(), *self._leave_if_alone()] if self._state.phase.ended else []
            case model.Refusals(breaches):
                member.refused = breaches
                return []

    def _shut_out(self, member: Member, kind: str, sentence: str, evidence: str = "") -> list[events.Effect]:
        """End the part of a host. Another process may take its name; under another policy than to wait, it is lost."""
        if self._state.phase.ended or member.shut_out:
            return []
        member.shut_out = sentence
        announce = events.Announce(member.name, kind, sentence, evidence)
        if self._state.phase.under_way and self._reseating.hopeless:
            return [announce, *self._end(Phase.FAILED, sentence)]
        effects: list[events.Effect] = [self._keep(), announce, events.Tell(member.name, model.GameOver(sentence))]
        effects += [events.Dismiss(member.name, sentence), *self._disputes.replace_judge(member.name)]
        if self._state.phase.under_way and member.plays:
            # until its successor has joined, or its seats have moved, no process dials it or listens to it
            effects += [self._seat(each) for each in self._roster if each.plays and each is not member]
            effects += self._lose(member)
        return effects

    def _describe(self, member: Member, description: model.Description) -> list[events.Effect]:
        if member.role is not model.Role.ADVERSARY:
            raise NotYours("only the adversary describes the plugin")
        if not self._roster.describe(member.name, description):
            return self._begin_if_ready()
        sentence = f"{member.name} has come back with other code, which agrees with all that was answered before"
        return [self._keep(), events.Announce(member.name, "amended", sentence)]

    def _checkpoint(self, member: Member, round: int) -> list[events.Effect]:
        """Record that a host can restart from a round, which it has therefore finished."""
        if member.role is not model.Role.HOST:
            raise NotYours("only hosts write checkpoints")
        self._check_part(member, round)
        member.mark = max(member.mark, round)
        return self._advance(member, model.Progress(round))

    def _advance(self, member: Member, progress: model.Progress) -> list[events.Effect]:
        self._check_part(member, progress.round)
        member.round = max(member.round, progress.round)
        judged: list[events.Effect] = []
        if member.role is model.Role.ADVERSARY and progress.round >= self._state.score.round:
            self._state.score = progress
            judged = self._disputes.ask_judges()
        if member.round >= member.waits_in:
            member.waits_for = ()
        return self._publish() + judged

    def _wait(self, member: Member, waiting: model.Waiting) -> list[events.Effect]:
        """Record which processes a host waits for in a round; it has finished the round before."""
        if member.role is not model.Role.HOST:
            raise NotYours("only hosts report which processes they wait for")
        effects = self._advance(member, model.Progress(waiting.round - 1))
        if waiting.round > member.round:
            known = (name for name in waiting.names if name in self._roster or name == model.COORDINATOR)
            member.waits_in, member.waits_for = waiting.round, tuple(known)[: self._limits.awaited]
        return effects

    def _check_part(self, member: Member, round: int = 0) -> None:
        """Refuse a process that has no part in the game, or that cannot have reached a round."""
        if self._state.phase is Phase.GATHERING:
            raise NotSeated("nothing can be played before the seating")
        if not member.plays:
            raise NotSeated("a spare plays nothing")
        if round > self._publication.last:
            raise RoundNotOpen("no process can have reached a round whose topology is not published")

    def _publish(self) -> list[events.Effect]:
        if self._state.phase is not Phase.PLAYING or self._roster.lost_with_seats:
            return []
        try:
            topologies = self._publication.extend(self._roster, self._state.score.round, self._state.last)
        except (BadSpec, PluginFailed) as error:
            return self._end(Phase.FAILED, error.told, error)
        if not topologies:
            return []
        told = [events.Tell(*each) for each in topologies]
        if self._roster.adversary is not None:
            told.append(events.Tell(self._roster.adversary.name, model.LowWater(self._publication.low_water)))
        return [self._keep(), *told]

    def _stop(self) -> list[events.Effect]:
        if self._state.phase is Phase.GATHERING:
            raise NotSeated("the game has not begun; end its processes instead")
        if self._state.phase is not Phase.PLAYING:
            return []
        self._state.phase = Phase.STOPPING
        expiry = events.SetTimer(self._limits.hold_seconds, events.HoldExpired())
        return [self._keep(), *self._tell_to_hold(), expiry, *self._settle(None)]

    def _tell_to_hold(self) -> list[events.Effect]:
        return [events.Tell(host.name, model.Hold()) for host in self._roster.survivors if host.holding is None]

    def _hold(self, member: Member, entered: int) -> list[events.Effect]:
        """Record the last round that a host has entered, now that it holds."""
        self._check_part(member, entered)
        if self._state.phase is not Phase.STOPPING and not self._roster.lost_with_seats:
            return []  # it was not told to hold in this seating, and may go on
        member.holding = max(entered, member.reached)
        return self._settle_or_adopt()

    def _settle_or_adopt(self) -> list[events.Effect]:
        """Continue where a host that holds, or is lost, was the last one awaited."""
        return self._settle(None) or self._adopt()  # to settle includes an adoption that is due

    def _settle(self, silent: int | None) -> list[events.Effect]:
        """Fix the last round: the furthest that any host has entered; one that has not reported counts as `silent`."""
        if self._state.phase is not Phase.STOPPING or self._state.stopped:
            return []
        if (last := furthest(self._roster.survivors, silent)) is None:
            return []
        self._state.stopped = True
        # how far lost hosts have played is not known
        self._state.last = max(last, self._publication.last) if self._roster.lost_with_seats else last
        told = [events.Tell(member.name, model.StopAt(self._state.last)) for member in self._roster if member.plays]
        return [self._keep(), *told, *self._adopt()]

    def _lose(self, member: Member) -> list[events.Effect]:
        """Give up a host; the others hold until one of them, or a spare, has its seats."""
        if not self._state.phase.under_way or not self._reseating.lose(member):
            return []
        effects: list[events.Effect] = [self._keep(), events.Announce(member.name, "lost", f"{member.name} is lost")]
        if self._state.phase is Phase.PLAYING:
            effects += self._tell_to_hold()
        return effects + self._settle_or_adopt()

    def _adopt(self) -> list[events.Effect]:
        """Give the agents of lost hosts to another, once it is known how far all are; all go back to M."""
        if not self._state.phase.under_way or not self._roster.lost_with_seats:
            return []
        entered = furthest(self._roster.survivors) if self._state.phase is Phase.PLAYING else self._state.settled
        if entered is None:
            return []
        left = self._state.last is None or entered < self._state.last
        adoption = self._reseating.reseat(entered + 1 if left else None)
        return [] if adoption is None else self._go_back(adoption, entered)

    def _go_back(self, adoption: Adoption, entered: int) -> list[events.Effect]:
        """Let all hosts continue the game after M, in the new seating."""
        players, mark = self._roster.players, self._publication.low_water
        for host in players:
            # for agents that stay, a lost host may have asked for later rounds than the others have
            host.go_back(mark, self._publication.last if adoption.departure is None else entered)
        self._publication.depart(self._state.departures)
        try:
            topologies = list(self._publication.since(mark, players))
        except (BadSpec, PluginFailed) as error:
            return self._end(Phase.FAILED, error.told, error)
        told = [self._seat(member) for member in self._roster if member.plays]
        told += [events.Tell(*each) for each in topologies]
        if self._state.stopped and self._state.last is not None:
            told += [events.Tell(host.name, model.StopAt(self._state.last)) for host in players]
        self._disputes.clear()
        return [self._keep(), events.Announce(adoption.lost[0], "adopted", str(adoption)), *told]

    def _end(self, phase: Phase, failure: str = "", cause: Exception | None = None) -> list[events.Effect]:
        if self._state.phase.ended:
            return []
        self._state.phase, self._state.failure, self.cause = phase, failure, cause
        return [self._keep(), *(events.Tell(member.name, model.GameOver(failure)) for member in self._roster)]

    def _leave_if_alone(self) -> list[events.Effect]:
        if not self._state.phase.ended:
            return []
        # after a failure a process that is gone may be the one that failed; one that has yet to connect is awaited
        failed = self._state.phase is Phase.FAILED
        left = (each.lost or each.acknowledged or (each.gone and (failed or not each.plays)) for each in self._roster)
        return [events.Leave()] if all(left) else []
