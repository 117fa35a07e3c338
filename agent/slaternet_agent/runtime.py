"""Executes a host engine's effects over its streams: to the coordinator, the adversary and every peer."""

import asyncio
import time
from dataclasses import replace

import structlog

from slaternet import codec
from slaternet.errors import Diverged, Malformed, NotSeated, PluginFailed, Refused, SlaternetError, Unready
from slaternet.lines import Line
from slaternet.link import Link
from slaternet.membership import Membership
from slaternet.model import (
    Answer,
    Closing,
    ControlDown,
    Effort,
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
    StopAt,
    Topology,
)
from slaternet_agent.build import build_algorithm
from slaternet_agent.engine import Ask, Effect, Event, Finish, Host, Report, Send
from slaternet_agent.peers import Peers

log = structlog.get_logger()

_REVEAL = "/slaternet.v1.Adversary/Reveal"


class Player:
    """A host in a game it has joined."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        membership.listen(self._hear, have=lambda: self._host.known if self._host else 0)
        self._host: Host | None = None
        self._peers: Peers | None = None
        self._reveal: Line | None = None
        self._adversary: Peer | None = None
        self._answers = codec.RevealDownDecoder()
        self._tasks: asyncio.TaskGroup | None = None
        self._lines: list[asyncio.Task[None]] = []
        # what the round in progress has cost so far
        self._frames = 0
        self._bytes = 0
        self._idle_since = time.perf_counter()
        self._unanswered: list[bytes] = []
        self._closing: list[bytes] = []

    @property
    def round(self) -> int:
        """The round being played; 0 before the seating."""
        return self._host.round if self._host else 0

    async def play(self) -> None:
        """Play until the game is over."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._membership.attend()
        except* SlaternetError as failed:
            raise failed.exceptions[0] from None

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
            opening=self._open_reveal,
            heartbeat=lambda: self._encode(Heartbeat())[0],
            hear=self._take_answer,
            opened=self._ask_again,
        )
        self._lines = [self._tasks.create_task(self._keep(line)) for line in (self._reveal, *self._peers.lines)]
        log.info("seated", agents=len(seating.seats), first=int(seating.seats[0]), peers=len(seating.peers))

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
            self._idle_since = time.perf_counter()
        for effect in effects:
            match effect:
                case Send(peer, frame) if self._peers is not None:
                    sent = self._peers.send(peer, frame)
                    self._bytes += sent
                    self._frames += sent > 0
                case Ask(question):
                    self._ask(question)
                case Report(round):
                    self._membership.report(Progress(round))
                case Holding(round):
                    self._membership.say(effect, round)
                case Finish():
                    self._finish()

    def _spent(self) -> Effort:
        effort = Effort(self._frames, self._bytes, time.perf_counter() - self._idle_since)
        self._frames = self._bytes = 0
        return effort

    def _encode(self, body: RevealUp, round: int = 0) -> list[bytes]:
        return codec.encode_reveal_up(self._membership.head(round), body)

    def _ask(self, question: Question) -> None:
        effort = self._spent() if question.round > 1 else Effort()
        self._unanswered = self._encode(replace(question, effort=effort), question.round)
        self._bytes += sum(map(len, self._unanswered))
        self._ask_again()

    def _ask_again(self) -> None:
        for part in self._unanswered or self._closing:
            if self._reveal is not None:
                self._reveal.send(part)

    def _finish(self) -> None:
        last = self._seated.round - 1
        self._closing = self._encode(Closing(self._spent()), last)
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
        self._membership.check(head, self._adversary.name if self._adversary else "")
        if isinstance(body, Answer):
            pending = self._seated.pending
            if pending is not None and pending.round == body.round:
                self._unanswered = []
            self._dispatch(body)
