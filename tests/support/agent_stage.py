"""A host among a coordinator, an adversary and a peer of a few lines: every message comes when the test says so."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from slaternet import codec
from slaternet.errors import SlaternetError
from slaternet.model import (
    Acknowledged,
    Answer,
    ControlDown,
    Description,
    Failed,
    Frame,
    GameOver,
    Gossip,
    Head,
    Heartbeat,
    Join,
    Opening,
    Peer,
    Progress,
    Question,
    ResendFrom,
    Seating,
    Status,
    Topology,
    Usage,
    Values,
    Waiting,
    Welcome,
)
from slaternet.network.client import dial, open_channel
from slaternet.network.server import serve
from slaternet.network.stream import Stream
from slaternet.service.config import ProcessConfig
from slaternet.spec import Spec
from slaternet_agent.shell.service import HostService

LOOPBACK = "127.0.0.1:0"
TICKET = bytes(32)
TAG = "5e" * 32
P, LAST = 2, 8
PEER, HOST = np.array([0]), np.array([1])
"""Their agents. The peer has the smaller seat, so their stream is one that the host accepts."""
SPEC = Spec.parse(
    """
    [run]
    agents = 2
    dimension = 2
    rounds = 8
    [set]
    kind = "box"
    lower = -5.0
    upper = 5.0
    [question]
    points = 2
    [algorithm]
    name = "zhang2024"
    schedule = "table2"
    [graph]
    name = "complete"
    [adversary]
    plugin = "linear-regression"
    """,
    source="test",
)
B = TypeVar("B")


def head(sender: str, round: int = 0) -> Head:
    return Head("run-1", 1, round, sender)


class Voice:
    """A stream from its other end: bodies instead of bytes, heartbeats aside, and usages where none is expected."""

    def __init__(self, link: Stream, decode: Callable[[bytes], tuple[Head, object] | None]) -> None:
        self._link = link
        self._decode = decode
        self.opening = Opening(0, TICKET)
        self.heard: list[object] = []
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def hear(self, kind: type[B]) -> B:
        """Return the next body, which must be of a kind."""
        while (data := await self._link.read()) is not None:
            message = self._decode(data)
            if message is None or isinstance(message[1], Heartbeat):
                continue
            if isinstance(message[1], kind) or not isinstance(message[1], Usage):
                self.heard.append(message[1])
                assert isinstance(message[1], kind), message[1]
                return message[1]
        raise AssertionError("the host has ended the stream")

    def say(self, parts: list[bytes]) -> None:
        for part in parts:
            self._link.send(part)

    def end(self, error: SlaternetError | None = None) -> None:
        """End a stream that the host has opened; what was said on it before arrives."""
        if not self._end.done():
            self._end.set_result(None) if error is None else self._end.set_exception(error)

    async def ended(self) -> None:
        await self._end


class Stage:
    """Everyone around one host."""

    def __init__(self, spec: Spec, low_water: int) -> None:
        self.spec = spec
        self.low_water = low_water
        self.joins: list[Join] = []
        self.host: asyncio.Task[int]
        self.address = ""
        self.seating: Seating
        self.control: Voice
        self.reveal: Voice
        self.peer: Voice
        self._controls: asyncio.Queue[Voice] = asyncio.Queue()
        self._reveals: asyncio.Queue[Voice] = asyncio.Queue()
        self.voices: list[Voice] = []

    # What the servers answer

    async def status(self, _: bytes, caller: object) -> bytes:
        return codec.encode_status_reply(head("coordinator"), Status(0, "gathering", 2, 0, 0, 0.0, 0.0, ()))

    async def admit(self, data: bytes, caller: object) -> bytes:
        self.joins.append(codec.decode_join(data)[1])
        self.address = self.joins[-1].address
        welcome = Welcome(len(self.joins), TICKET, self.spec.public.to_toml(), TAG, self.low_water)
        return codec.encode_welcome(head("coordinator"), welcome)

    async def serve_control(self, link: Stream) -> None:
        await self._serve(Voice(link, codec.decode_control_up), self._controls)

    async def serve_reveal(self, link: Stream) -> None:
        await self._serve(Voice(link, codec.RevealUpDecoder(P).decode), self._reveals)

    async def _serve(self, voice: Voice, opened: asyncio.Queue[Voice]) -> None:
        voice.opening = await voice.hear(Opening)
        self.voices.append(voice)
        opened.put_nowait(voice)
        await voice.ended()

    # What a test does

    def tell(self, body: ControlDown, round: int = 0) -> None:
        """Say something as the coordinator."""
        round = body.round if isinstance(body, Topology) else round
        self.control.say(codec.encode_control_down(head("coordinator", round), body))

    def gossip(self, body: Gossip) -> None:
        """Say something as the peer."""
        self.peer.say(codec.encode_gossip(head("peer", getattr(body, "round", 0)), body))

    def frame(self, round: int, value: float = 0.0) -> None:
        """Send the peer's row of a round."""
        self.gossip(Frame(round, PEER, np.full((1, P), value)))

    def answer(self, round: int) -> None:
        """Answer the question of a round, as the adversary."""
        values = Answer(round, HOST, Values(np.zeros((1, 2)), np.full((1, 2, 1), -1.0)))
        self.reveal.say(codec.encode_reveal_down(head("adversary", round), values))

    async def seat(self, adversary: str) -> None:
        """Give the host its seat beside the peer; both meet half way in every round."""
        await self.attends()
        eve = Peer("adversary", adversary, 1, np.empty(0, np.intp), TICKET, TICKET)
        peers = (Peer("peer", "127.0.0.1:1", 1, PEER, TICKET, TICKET),)
        self.seating = Seating(HOST, peers, eve, Description(1), low_water=self.low_water)
        self.tell(self.seating)
        first, rounds = self.low_water + 1, LAST - self.low_water
        debts = np.array([(offset, 0, HOST[0]) for offset in range(rounds)], dtype=np.intp).reshape(-1, 3)
        weights, columns = np.full(2 * rounds, 0.5), np.tile([0, 1], rounds)
        if rounds:
            starts = 2 * np.arange(rounds + 1)
            self.tell(Topology(first, rounds, starts, columns, weights, debts, self.low_water))

    async def attends(self) -> None:
        """Wait for the host's next stream to the coordinator."""
        self.control = await self._controls.get()

    async def waits(self) -> Waiting:
        """Return what the host says next about its waiting."""
        while not isinstance(said := await self.control.hear(object), Waiting):
            assert isinstance(said, Progress)
        return said

    async def reveals(self) -> None:
        """Wait for the host's next stream to the adversary."""
        self.reveal = await self._reveals.get()

    async def play(self, rounds: int, first: int = 0) -> None:
        """Play rounds, and come to the next: the host has offered its row of it and lacks the peer's.

        `first` is the round to which it has come before.
        """
        for t in range(first or self.low_water + 1, rounds + 1):
            if t != first:
                assert (await self.peer.hear(Frame)).round == t
            self.frame(t)
            assert (await self.reveal.hear(Question)).round == t
            self.answer(t)
        if rounds < LAST:
            assert (await self.peer.hear(Frame)).round == rounds + 1

    async def fails(self) -> SlaternetError:
        """Wait until the host says that it cannot go on, end the game, and return what the host makes of it."""
        while not isinstance(said := await self.control.hear(object), Failed):
            pass
        self.tell(GameOver(f"agent-1: {said.reason}"))
        await self.control.hear(Acknowledged)
        self.control.end()
        with pytest.raises(SlaternetError) as caught:
            await self.host
        assert said.reason == caught.value.told
        return caught.value


@asynccontextmanager
async def seated(spec: Spec, *, state: Path | None = None, low_water: int = 0) -> AsyncIterator[Stage]:
    """Start a host and give it a seat, in a game whose low-water mark is given; it ends with the block."""
    stage, stopping = Stage(spec, low_water), asyncio.Event()
    calls = {"Status": stage.status, "Join": stage.admit}
    control, reveal = {"Control": stage.serve_control}, {"Reveal": stage.serve_reveal}
    coordinator = await serve(LOOPBACK, service="slaternet.v1.Coordinator", unary=calls, streams=control, hosts=1)
    adversary = await serve(LOOPBACK, service="slaternet.v1.Adversary", unary={}, streams=reveal, hosts=1)
    config = ProcessConfig("agent-1", coordinator.address, LOOPBACK, state=state)
    stage.host = asyncio.create_task(HostService(config).run(stopping))
    try:
        async with asyncio.timeout(30):
            await stage.seat(adversary.address)
            yield stage
    finally:
        stopping.set()
        await asyncio.gather(stage.host, return_exceptions=True)
        for voice in stage.voices:
            voice.end()
        await asyncio.gather(coordinator.stop(), adversary.stop())


@asynccontextmanager
async def playing(spec: Spec, *, state: Path | None = None, low_water: int = 0) -> AsyncIterator[Stage]:
    """Begin a game: every stream is open."""
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(seated(spec, state=state, low_water=low_water))
        await stage.reveals()
        await stack.enter_async_context(gossiping(stage))
        yield stage


@asynccontextmanager
async def gossiping(stage: Stage, incarnation: int = 1, first: int = 0, wanted: int = 0) -> AsyncIterator[None]:
    """Open the peer's stream: it lacks frames from `first` on, and the host from `wanted` on."""
    start = stage.low_water + 1
    async with open_channel(stage.address) as channel, dial(channel, "/slaternet.v1.Agent/Gossip") as link:
        stage.peer = Voice(link, codec.GossipDecoder(P).decode)
        stage.gossip(Opening(incarnation, TICKET, first or start))
        assert (await stage.peer.hear(ResendFrom)).round == (wanted or start)
        yield
