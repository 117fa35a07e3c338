"""Executes a host engine's effects over its streams: to the coordinator, the adversary and every peer."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import structlog

from slaternet import codec
from slaternet.errors import Diverged, Malformed, NotSeated, PluginFailed, Refused, SlaternetError, Unready
from slaternet.lines import Line
from slaternet.link import Link
from slaternet.membership import Membership
from slaternet.metrics import Reading
from slaternet.model import (
    COORDINATOR,
    Answer,
    Closing,
    ControlDown,
    Heartbeat,
    Hold,
    Holding,
    Opening,
    Over,
    Peer,
    Progress,
    Question,
    RevealUp,
    Seating,
    Spare,
    StopAt,
    Topology,
    Waiting,
)
from slaternet_agent.build import build_algorithm
from slaternet_agent.engine import Ask, Effect, Event, Finish, FrameArrived, Host, Report, Send
from slaternet_agent.metrics import ROUNDS, SEATS, readings
from slaternet_agent.patience import Patience
from slaternet_agent.peers import Peers
from slaternet_agent.tally import Tally

log = structlog.get_logger()

_REVEAL = "/slaternet.v1.Adversary/Reveal"


class Player:
    """A host in a game it has joined."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        membership.listen(self._hear, opened=self._wait_aloud, have=lambda: self._host.known if self._host else 0)
        self._host: Host | None = None
        self._peers: Peers | None = None
        self._reveal: Line | None = None
        self._adversary: Peer | None = None
        self._answers = codec.RevealDownDecoder()
        self._tasks: asyncio.TaskGroup | None = None
        self._lines: list[asyncio.Task[None]] = []
        self._patience: Patience | None = None
        self._stands_by = False
        self.tally = Tally(map(membership.meter.of, ("control", "gossip", "reveal")))
        self._unanswered: list[bytes] = []
        self._closing: list[bytes] = []

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
        yield from readings(self._membership, self.tally, self._peers, self._reveal)

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
                if self._host is None:
                    self._sit_down(body)
            case Topology() | Hold() | StopAt():
                self._dispatch(body)
            case Spare():
                self._stand_by()
            case Over():
                for line in self._lines:
                    line.cancel()
            case _:
                raise Malformed("the coordinator says to a host what is not meant for hosts")

    def _sit_down(self, seating: Seating) -> None:
        if seating.adversary is None or seating.description is None or self._tasks is None:
            raise Malformed("a host's seating names the adversary and describes its plugin")
        spec = self._membership.spec
        try:
            algorithm = build_algorithm(spec, seating.description)
            self._host = Host(algorithm, seating, spec.run.agents, spec.run.rounds)
        except SlaternetError as error:
            self._membership.fail(error)
            return
        except Exception as error:
            self._blame(error, "before round 1")
            return
        self._peers = Peers(
            self._membership, seating, algorithm.width, hear=self._dispatch, wanted=lambda: self._seated.wanted
        )
        self._adversary = seating.adversary
        self._reveal = Line(
            seating.adversary.name,
            seating.adversary.address,
            _REVEAL,
            security=self._membership.security,
            traffic=self._membership.meter.of(_REVEAL),
            opening=self._open_reveal,
            heartbeat=lambda: self._encode(Heartbeat())[0],
            hear=self._take_answer,
            opened=self._ask_again,
        )
        self._lines = [self._tasks.create_task(self._keep(line)) for line in (self._reveal, *self._peers.lines)]
        self._patience = Patience(self._host, self._wait)
        log.info("seated", agents=len(seating.seats), first=int(seating.seats[0]), peers=len(seating.peers))

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
            match effect:
                case Send(peer, frame) if self._peers is not None:
                    self.tally.frames_sent += self._peers.send(peer, frame)
                case Ask(question):
                    self._ask(question, self._awaited(event))
                case Report(round):
                    self._membership.report(Progress(round))
                case Holding(round):
                    self._membership.say(effect, round)
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

    def _encode(self, body: RevealUp, round: int = 0) -> list[bytes]:
        return codec.encode_reveal_up(self._membership.head(round), body)

    def _ask(self, question: Question, awaited: str) -> None:
        effort = self.tally.ask(question.round, awaited)
        self._unanswered = self._encode(replace(question, effort=effort), question.round)
        self._ask_again()

    def _ask_again(self) -> None:
        for part in self._unanswered or self._closing:
            if self._reveal is not None:
                self._reveal.send(part)

    def _finish(self) -> None:
        last = self._seated.round - 1
        self._closing = self._encode(Closing(self.tally.close()), last)
        self._unanswered = []
        self._ask_again()
        self._membership.finish(Progress(last))
        log.info("finished", round=last)

    def _open_reveal(self) -> bytes:
        self._answers = codec.RevealDownDecoder()
        present = self._adversary.present if self._adversary else b""
        return self._encode(Opening(self._membership.incarnation, present))[0]

    def _take_answer(self, data: bytes) -> None:
        message = self._answers.decode(data)
        if message is None:
            return
        head, body = message
        adversary = self._adversary.name if self._adversary else ""
        self._membership.check(head, adversary)
        if isinstance(body, Answer):
            pending = self._seated.pending
            if pending is not None and pending.round == body.round:
                self._unanswered = []
                self.tally.answered(adversary)
            self._dispatch(body)
