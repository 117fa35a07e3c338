"""Executes a host engine's effects over its streams: to the coordinator, the adversary and every peer."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import structlog

from slaternet.checkpoints import Checkpoints
from slaternet.errors import Diverged, Malformed, Mismatch, NotSeated, PluginFailed, Refused, SlaternetError, Unready
from slaternet.lines import Line
from slaternet.link import Link
from slaternet.membership import Membership
from slaternet.metrics import Reading
from slaternet.model import (
    COORDINATOR,
    Answer,
    ControlDown,
    Description,
    Hold,
    Holding,
    Over,
    Peer,
    Progress,
    Question,
    Seating,
    Spare,
    StopAt,
    Topology,
    Waiting,
)
from slaternet_agent.algorithms.base import Algorithm
from slaternet_agent.build import build_algorithm
from slaternet_agent.engine import Ask, Checkpoint, Effect, Event, Finish, FrameArrived, Host, PeerWants, Report, Send
from slaternet_agent.keeper import Keeper
from slaternet_agent.metrics import ROUNDS, SEATS, readings
from slaternet_agent.patience import Patience
from slaternet_agent.peers import Peers
from slaternet_agent.reveal import Reveal
from slaternet_agent.tally import Tally

log = structlog.get_logger()


class Player:
    """A host in a game it has joined, or come back to; with checkpoints it can come back."""

    def __init__(self, membership: Membership, checkpoints: Checkpoints | None = None) -> None:
        self._membership = membership
        membership.listen(self._hear, opened=self._wait_aloud, have=self._have)
        self._host: Host | None = None
        self._peers: Peers | None = None
        self._reveal: Reveal | None = None
        self._keeper: Keeper | None = None
        if checkpoints is not None:
            self._keeper = Keeper(checkpoints, kept=membership.keep, failed=membership.abandon)
        self._tasks: asyncio.TaskGroup | None = None
        self._lines: list[asyncio.Task[None]] = []
        self._patience: Patience | None = None
        self._stands_by = False
        self.tally = Tally(map(membership.meter.of, ("control", "gossip", "reveal")))

    @property
    def run(self) -> str:
        """The id of the game."""
        return self._membership.run

    @property
    def round(self) -> int:
        """The round being played; 0 before the seating."""
        return self._host.round if self._host else 0

    @property
    def finished(self) -> bool:
        """Whether the last round has been played."""
        return self._host is not None and self._host.finished

    @property
    def seats(self) -> int:
        """How many agents sit here; 0 before the seating, and of a spare."""
        return self._host.seats if self._host else 0

    def readings(self) -> Iterator[Reading]:
        """Read what this host counts, from whatever thread."""
        yield ROUNDS.reads(max(self.round - 1, 0))
        yield SEATS.reads(self.seats)
        reveal = self._reveal.line if self._reveal is not None else None
        yield from readings(self._membership, self.tally, self._peers, reveal)

    async def play(self) -> None:
        """Play until the game is over."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._membership.attend()
        except* SlaternetError as failed:
            raise failed.exceptions[0] from None
        finally:
            if self._patience is not None:
                self._patience.end()
            if self._keeper is not None:
                await self._keeper.close()

    async def accept(self, link: Link) -> None:
        """Serve a gossip stream that a peer opens."""
        if self._peers is None:
            raise NotSeated("this host has no seats yet")
        try:
            await self._peers.accept(link)
        except Diverged as error:
            self._membership.fail(error)
            raise

    def _hear(self, body: ControlDown) -> None:
        if self._membership.failed and not isinstance(body, Over):
            return
        match body:
            case Seating():
                self._take_seating(body)
            case Topology() | Hold() | StopAt():
                self._dispatch(body)
                if isinstance(body, Topology) and self._keeper is not None:
                    self._keeper.forget_before(body.low_water)
            case Spare():
                self._stand_by()
            case Over():
                for line in self._lines:
                    line.cancel()
            case _:
                raise Malformed("the coordinator says to a host what is not meant for hosts")

    def _have(self) -> int:
        """Return up to which round the topology is known, or of no use."""
        return self._host.known if self._host is not None else self._membership.low_water

    def _take_seating(self, seating: Seating) -> None:
        """Sit down, or hear who has come back since."""
        if seating.adversary is None or seating.description is None:
            raise Malformed("a host's seating names the adversary and describes its plugin")
        if self._peers is not None and self._reveal is not None:
            self._peers.update(seating)
            self._reveal.update(seating.adversary)
        else:
            self._sit_down(seating, seating.adversary, seating.description)

    def _sit_down(self, seating: Seating, adversary: Peer, description: Description) -> None:
        algorithm = self._prepared(seating, description)
        if algorithm is None or self._tasks is None:
            return
        self._peers = Peers(
            self._membership, seating, algorithm.width, hear=self._dispatch, wanted=lambda: self._seated.wanted
        )
        self._reveal = Reveal(self._membership, adversary, self._take_answer)
        self._lines = [self._tasks.create_task(self._keep(line)) for line in (self._reveal.line, *self._peers.lines)]
        self._patience = Patience(self._seated, self._wait)
        log.info("seated", agents=len(seating.seats), first=int(seating.seats[0]), peers=len(seating.peers))
        if self._seated.finished:  # in an earlier life
            self._finish()

    def _prepared(self, seating: Seating, description: Description) -> Algorithm | None:
        """Make the engine, from the checkpoint of an earlier life if there was one; None where that cannot be."""
        spec, since = self._membership.spec, None
        try:
            since = self._recalled()
            algorithm = build_algorithm(spec, description)
            durable = self._keeper is not None
            self._host = Host(algorithm, seating, spec.run.agents, spec.run.rounds, durable=durable, since=since)
        except SlaternetError as error:
            # who cannot come back leaves the game as it is: it may be started again when that is mended
            self._membership.abandon(error) if self._membership.low_water else self._membership.fail(error)
        except Exception as error:
            self._blame(error, "before round 1")
        else:
            return algorithm
        return None

    def _recalled(self) -> Checkpoint | None:
        """Return the checkpoint from which to go on; None: from the beginning."""
        mark = self._membership.low_water
        if not mark:
            return None
        if self._keeper is None:
            raise Mismatch(
                f"{self._membership.name} must go on from round {mark}, and has kept nothing; start it with the "
                "--state it had before"
            )
        since = self._keeper.recall(mark)
        log.info("coming back", after=mark)
        return since

    def _stand_by(self) -> None:
        if not self._stands_by:
            log.info("every seat is taken; staying as a spare until the game is over")
        self._stands_by = True

    def _wait(self, round: int, names: tuple[str, ...]) -> None:
        if not self._membership.failed:
            self._membership.say(Waiting(round, names), round)

    def _wait_aloud(self) -> None:
        if self._patience is not None:
            self._patience.repeat()

    @property
    def _seated(self) -> Host:
        if self._host is None:
            raise NotSeated("this host has no seats yet")
        return self._host

    async def _keep(self, line: Line) -> None:
        try:
            await line.run()
        except SlaternetError as error:
            self._membership.fail(error)

    def _decide(self, event: Event) -> list[Effect]:
        """Hand an event to the engine."""
        host = self._seated
        if self._membership.failed:
            return []
        try:
            return host.handle(event)
        except (Refused, Unready, Diverged):
            raise  # what came in was wrong
        except Exception as error:
            self._blame(error, f"in round {host.round}")
            return []

    def _blame(self, error: Exception, when: str) -> None:
        """Stand at the plugin edge: what a user's algorithm raises ends the game, not just a stream."""
        name = self._membership.spec.algorithm.name
        log.error("algorithm failed", algorithm=name, when=when, exc_info=error)
        self._membership.fail(PluginFailed(f"the algorithm {name} raised {type(error).__name__} {when}: {error}"))

    def _dispatch(self, event: Event) -> None:
        effects = self._decide(event)
        if isinstance(event, Answer):
            self.tally.idle()
        for effect in effects:
            self._execute(effect, event)

    def _execute(self, effect: Effect, event: Event) -> None:
        match effect:
            case Send(peer, frame) if self._peers is not None:
                self.tally.frames_sent += self._peers.send(peer, frame, later=isinstance(event, PeerWants))
            case Ask(question):
                self._ask(question, self._awaited(event))
            case Report(round):
                self._membership.report(Progress(round))
            case Holding(round):
                self._membership.say(effect, round)
            case Checkpoint() if self._keeper is not None:
                self._keeper.write(effect)
            case Finish():
                self._finish()

    def _awaited(self, event: Event) -> str:
        """Return who has sent the last thing that was missing before a question; empty: nothing was."""
        match event:
            case FrameArrived(peer) if self._peers is not None:
                return self._peers.names[peer]
            case Answer():
                return ""
            case _:
                return COORDINATOR

    def _ask(self, question: Question, awaited: str) -> None:
        effort = self.tally.ask(question.round, awaited)
        if self._reveal is not None:
            self._reveal.ask(replace(question, effort=effort))

    def _take_answer(self, answer: Answer) -> None:
        pending = self._seated.pending
        if self._reveal is not None and pending is not None and pending.round == answer.round:
            self._reveal.answered()
            self.tally.answered(self._reveal.name)
        self._dispatch(answer)

    def _finish(self) -> None:
        """Say that the last round is played, to the coordinator once its checkpoint is kept."""
        last = self._seated.round - 1
        if self._reveal is not None:
            self._reveal.close(last, self.tally.close())
        log.info("finished", round=last)
        if self._keeper is None:
            self._membership.finish(Progress(last))
        else:
            self._keeper.then(lambda: self._membership.finish(Progress(last)))
