"""A host among a coordinator, an adversary and a peer of a few lines: every message comes when the test says so."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import TypeVar

import numpy as np
import pytest

from slaternet import codec
from slaternet.errors import Diverged, Mismatch, OutsideSet, PluginFailed, SlaternetError
from slaternet.link import Link
from slaternet.model import (
    Acknowledged,
    Agents,
    Answer,
    ControlDown,
    ControlUp,
    Description,
    Failed,
    Finished,
    Frame,
    Gossip,
    Head,
    Heartbeat,
    Opening,
    Over,
    Peer,
    Progress,
    Question,
    RevealUp,
    Seating,
    Status,
    Topology,
    Wanted,
    Welcome,
)
from slaternet.plugins import load
from slaternet.spec import Spec
from slaternet.transport import dial, open_channel, serve
from slaternet_agent.algorithms import GROUP
from slaternet_agent.service import HostService

LOOPBACK = "127.0.0.1:0"
RUN, TICKET = "run-1", bytes(32)
P, POINTS, LAST = 2, 2, 8
FIRST, SECOND = np.array([0]), np.array([1])
"""The peer's agent and the host's: the peer has the smaller seat, so its stream is the one the host accepts."""
SPEC = """
[run]
agents = 2
dimension = 2
rounds = 8
[set]
kind = "box"
lower = -5.0
upper = 5.0
[algorithm]
name = "zhang2024"
schedule = "table2"
[graph]
name = "complete"
[adversary]
plugin = "linear-regression"
"""
B = TypeVar("B")


def head(sender: str, round: int = 0) -> Head:
    return Head(RUN, 1, round, sender)


def topology() -> Topology:
    """Both agents meet half way in every round."""
    offsets = np.arange(LAST)
    debts = np.stack((offsets, np.zeros(LAST, np.intp), np.ones(LAST, np.intp)), axis=1)
    weights = np.full(2 * LAST, 0.5)
    return Topology(1, LAST, 2 * np.arange(LAST + 1), np.tile([0, 1], LAST), weights, debts)


def answer(question: Question) -> Answer:
    k = len(question.agents)
    return Answer(question.round, question.agents, np.zeros((k, POINTS)), np.full((k, POINTS, 1), -1.0))


class Voice:
    """A stream as the other end of a host: bodies in and out, heartbeats aside."""

    def __init__(self, link: Link, decode: Callable[[bytes], tuple[Head, object] | None]) -> None:
        self.link = link
        self._decode = decode

    async def hear(self, kind: type[B]) -> B:
        """Return the next body, which must be of a kind."""
        while (data := await self.link.read()) is not None:
            message = self._decode(data)
            if message is not None and not isinstance(message[1], Heartbeat):
                assert isinstance(message[1], kind), message[1]
                return message[1]
        raise AssertionError("the host has ended the stream")

    async def until(self, kind: type[B]) -> B:
        """Return the next body of a kind, whatever comes before it."""
        while not isinstance(body := await self.hear(object), kind):
            pass
        return body

    def say(self, parts: list[bytes]) -> None:
        for part in parts:
            self.link.send(part)


class Stage:
    """Everyone around one host. Streams that the host opens wait in queues; each lives until it is let go."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.controls: asyncio.Queue[Voice] = asyncio.Queue()
        self.reveals: asyncio.Queue[Voice] = asyncio.Queue()
        self.address = ""
        self.host: asyncio.Task[int]
        self._let_go: dict[Voice, asyncio.Event] = {}

    async def status(self, _: bytes) -> bytes:
        status = Status(0, "gathering", 2, 0, 0, 0.0, 0.0, ())
        return codec.encode_status_reply(head("coordinator"), status)

    async def admit(self, data: bytes) -> bytes:
        self.address = codec.decode_join(data)[1].address
        return codec.encode_welcome(head("coordinator"), Welcome(1, TICKET, self.spec.to_toml()))

    async def control(self, link: Link) -> None:
        await self._offer(Voice(link, codec.decode_control_up), self.controls)

    async def reveal(self, link: Link) -> None:
        await self._offer(Voice(link, codec.RevealUpDecoder(P).decode), self.reveals)

    async def _offer(self, voice: Voice, queue: asyncio.Queue[Voice]) -> None:
        await voice.hear(Opening)
        over = self._let_go[voice] = asyncio.Event()
        queue.put_nowait(voice)
        await over.wait()

    def let_go(self, voice: Voice) -> None:
        """End a stream in order, when all that was said on it is delivered."""
        self._let_go[voice].set()

    def tell(self, control: Voice, body: ControlDown) -> None:
        round = body.round if isinstance(body, Topology) else 0
        control.say(codec.encode_control_down(head("coordinator", round), body))

    async def seat(self, adversary: str, *, alone: bool) -> Voice:
        """Seat the host, with or without the peer; return its control stream."""
        control = await self.controls.get()
        eve = Peer("adversary", adversary, 1, np.empty(0, np.intp), TICKET, TICKET)
        peers = () if alone else (Peer("peer", "127.0.0.1:1", 1, FIRST, TICKET, TICKET),)
        seats = np.array([0, 1]) if alone else SECOND
        self.tell(control, Seating(seats, peers, eve, Description(1)))
        return control

    def reply(self, reveal: Voice, body: Answer) -> None:
        reveal.say(codec.encode_reveal_down(head("adversary", body.round), body))

    async def see_off(self, control: Voice, failure: str = "") -> None:
        """End the game."""
        self.tell(control, Over(failure))
        await control.until(Acknowledged)
        self.let_go(control)


class Play:
    """A game that has begun: the streams of the host, and the peer's to it."""

    def __init__(self, stage: Stage, control: Voice, reveal: Voice | None, peer: Voice | None) -> None:
        self.stage = stage
        self.control = control
        self._reveal = reveal
        self._peer = peer

    @property
    def reveal(self) -> Voice:
        assert self._reveal is not None
        return self._reveal

    @property
    def peer(self) -> Voice:
        assert self._peer is not None
        return self._peer

    def gossip(self, body: Gossip, round: int = 0) -> None:
        self.peer.say(codec.encode_gossip(head("peer", round), body))

    def frame(self, round: int, value: float = 0.0, agents: Agents = FIRST) -> None:
        """Send the peer's row of a round."""
        self.gossip(Frame(round, agents, np.full((1, P), value)), round)

    async def play(self, rounds: int) -> None:
        """Play rounds with the peer, and come to the next: the host has offered its row and lacks the peer's."""
        for t in range(1, rounds + 1):
            assert (await self.peer.hear(Frame)).round == t
            self.frame(t)
            question = await self.reveal.hear(Question)
            assert question.round == t
            self.stage.reply(self.reveal, answer(question))
        assert (await self.peer.hear(Frame)).round == rounds + 1


@asynccontextmanager
async def staged(spec: Spec) -> AsyncIterator[tuple[Stage, str]]:
    """Start everyone but the peer; yield the adversary's address too. The host ends with the block."""
    stage, stopping = Stage(spec), asyncio.Event()
    coordinator = await serve(
        LOOPBACK,
        service="slaternet.v1.Coordinator",
        unary={"Status": stage.status, "Join": stage.admit},
        streams={"Control": stage.control},
        hosts=1,
    )
    adversary = await serve(
        LOOPBACK, service="slaternet.v1.Adversary", unary={}, streams={"Reveal": stage.reveal}, hosts=1
    )
    service = HostService(coordinator.address, "agent-1", listen=LOOPBACK)
    stage.host = asyncio.create_task(service.run(stopping))
    try:
        async with asyncio.timeout(30):
            yield stage, adversary.address
    finally:
        stopping.set()
        await asyncio.gather(stage.host, return_exceptions=True)
        await asyncio.gather(coordinator.stop(), adversary.stop())


@asynccontextmanager
async def playing(spec: Spec, *, alone: bool = False) -> AsyncIterator[Play]:
    """Begin a game in which the host sits beside the peer, or has every seat."""
    async with AsyncExitStack() as stack:
        stage, adversary = await stack.enter_async_context(staged(spec))
        control = await stage.seat(adversary, alone=alone)
        stage.tell(control, topology_of(alone=alone))
        reveal = await stage.reveals.get()
        if alone:
            yield Play(stage, control, reveal, None)
            return
        channel = await stack.enter_async_context(open_channel(stage.address))
        link = await stack.enter_async_context(dial(channel, "/slaternet.v1.Agent/Gossip"))
        play = Play(stage, control, reveal, Voice(link, codec.GossipDecoder(P).decode))
        play.gossip(Opening(1, TICKET, 1))
        assert (await play.peer.hear(Wanted)).round == 1
        yield play
