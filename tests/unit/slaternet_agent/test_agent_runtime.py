"""A host among a coordinator, an adversary and a peer of a few lines: every message comes when the test says so."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import TypeVar

import numpy as np
import pytest

from slaternet import codec
from slaternet.errors import Diverged, Mismatch, OutsideSet, PluginFailed, SlaternetError
from slaternet.limits import LIMITS
from slaternet.link import Link
from slaternet.model import (
    Acknowledged,
    Answer,
    ControlDown,
    Description,
    Failed,
    Frame,
    Gossip,
    Head,
    Heartbeat,
    Opening,
    Over,
    Peer,
    Progress,
    Question,
    Seating,
    Status,
    Topology,
    Waiting,
    Wanted,
    Welcome,
)
from slaternet.plugins import load
from slaternet.spec import Spec
from slaternet.station import Station
from slaternet.transport import dial, open_channel, serve
from slaternet_agent.algorithms import GROUP
from slaternet_agent.patience import Patience
from slaternet_agent.service import HostService

LOOPBACK = "127.0.0.1:0"
TICKET = bytes(32)
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
    """A stream from its other end: bodies instead of bytes, heartbeats aside."""

    def __init__(self, link: Link, decode: Callable[[bytes], tuple[Head, object] | None]) -> None:
        self._link = link
        self._decode = decode
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def hear(self, kind: type[B]) -> B:
        """Return the next body, which must be of a kind."""
        while (data := await self._link.read()) is not None:
            message = self._decode(data)
            if message is not None and not isinstance(message[1], Heartbeat):
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

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.host: asyncio.Task[int]
        self.address = ""
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
        self.address = codec.decode_join(data)[1].address
        return codec.encode_welcome(head("coordinator"), Welcome(1, TICKET, self.spec.to_toml()))

    async def serve_control(self, link: Link) -> None:
        await self._serve(Voice(link, codec.decode_control_up), self._controls)

    async def serve_reveal(self, link: Link) -> None:
        await self._serve(Voice(link, codec.RevealUpDecoder(P).decode), self._reveals)

    async def _serve(self, voice: Voice, opened: asyncio.Queue[Voice]) -> None:
        await voice.hear(Opening)
        self.voices.append(voice)
        opened.put_nowait(voice)
        await voice.ended()

    # What a test does

    def tell(self, body: ControlDown) -> None:
        """Say something as the coordinator."""
        round = body.round if isinstance(body, Topology) else 0
        self.control.say(codec.encode_control_down(head("coordinator", round), body))

    def gossip(self, body: Gossip) -> None:
        """Say something as the peer."""
        self.peer.say(codec.encode_gossip(head("peer", getattr(body, "round", 0)), body))

    def frame(self, round: int, value: float = 0.0) -> None:
        """Send the peer's row of a round."""
        self.gossip(Frame(round, PEER, np.full((1, P), value)))

    def answer(self, round: int) -> None:
        """Answer the question of a round, as the adversary."""
        values = Answer(round, HOST, np.zeros((1, 2)), np.full((1, 2, 1), -1.0))
        self.reveal.say(codec.encode_reveal_down(head("adversary", round), values))

    async def seat(self, adversary: str) -> None:
        """Give the host its seat beside the peer; both meet half way in every round."""
        await self.attends()
        eve = Peer("adversary", adversary, 1, np.empty(0, np.intp), TICKET, TICKET)
        peers = (Peer("peer", "127.0.0.1:1", 1, PEER, TICKET, TICKET),)
        self.tell(Seating(HOST, peers, eve, Description(1)))
        debts = np.array([(offset, 0, HOST[0]) for offset in range(LAST)])
        weights, columns = np.full(2 * LAST, 0.5), np.tile([0, 1], LAST)
        self.tell(Topology(1, LAST, 2 * np.arange(LAST + 1), columns, weights, debts))

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

    async def play(self, rounds: int) -> None:
        """Play rounds, and come to the next: the host has offered its row of it and lacks the peer's."""
        for t in range(1, rounds + 1):
            assert (await self.peer.hear(Frame)).round == t
            self.frame(t)
            assert (await self.reveal.hear(Question)).round == t
            self.answer(t)
        assert (await self.peer.hear(Frame)).round == rounds + 1

    async def fails(self) -> SlaternetError:
        """Wait until the host says that it cannot go on, end the game, and return what the host makes of it."""
        while not isinstance(said := await self.control.hear(object), Failed):
            pass
        self.tell(Over(f"agent-1: {said.reason}"))
        await self.control.hear(Acknowledged)
        self.control.end()
        with pytest.raises(SlaternetError) as caught:
            await self.host
        assert said.reason == str(caught.value)
        return caught.value


@asynccontextmanager
async def seated(spec: Spec) -> AsyncIterator[Stage]:
    """Start a host and give it a seat; it ends with the block."""
    stage, stopping = Stage(spec), asyncio.Event()
    calls = {"Status": stage.status, "Join": stage.admit}
    control, reveal = {"Control": stage.serve_control}, {"Reveal": stage.serve_reveal}
    coordinator = await serve(LOOPBACK, service="slaternet.v1.Coordinator", unary=calls, streams=control, hosts=1)
    adversary = await serve(LOOPBACK, service="slaternet.v1.Adversary", unary={}, streams=reveal, hosts=1)
    stage.host = asyncio.create_task(HostService(Station("agent-1", coordinator.address, LOOPBACK)).run(stopping))
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
async def playing(spec: Spec) -> AsyncIterator[Stage]:
    """Begin a game: every stream is open."""
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(seated(spec))
        await stage.reveals()
        channel = await stack.enter_async_context(open_channel(stage.address))
        link = await stack.enter_async_context(dial(channel, "/slaternet.v1.Agent/Gossip"))
        stage.peer = Voice(link, codec.GossipDecoder(P).decode)
        stage.gossip(Opening(1, TICKET, 1))
        assert (await stage.peer.hear(Wanted)).round == 1
        yield stage


def algorithm(folder: Path, method: str) -> Spec:
    """Return the spec with an algorithm of a user's file: the paper's, but for one method."""
    code = "from slaternet_agent.algorithms.zhang2024 import Decision, Zhang2024\n\nclass Mine(Zhang2024):\n"
    path = folder / "mine.py"
    path.write_text(code + "".join(f"    {line}\n" for line in dedent(method).splitlines()))
    return SPEC.replace(**{"algorithm.name": f"{path}:Mine"})


# Hosts that wait


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hosts say sooner that they wait."""
    soon = functools.partial(Patience, limits=replace(LIMITS, waiting_seconds=0.02))
    monkeypatch.setattr("slaternet_agent.runtime.Patience", soon)


@pytest.mark.usefixtures("impatient")
async def test_a_host_says_for_whom_it_waits_until_it_goes_on() -> None:
    async with playing(SPEC) as stage:
        await stage.play(2)
        while (waiting := await stage.waits()).round < 3:
            pass  # a slow machine may have let it wait before
        assert waiting == Waiting(3, ("peer",))

        stage.frame(3)
        await stage.reveal.hear(Question)
        assert await stage.waits() == Waiting(3, ("adversary",))

        stage.answer(3)
        assert await stage.peer.hear(Frame)
        assert await stage.waits() == Waiting(4, ("peer",))


@pytest.mark.usefixtures("impatient")
async def test_a_host_that_waits_says_so_again_on_a_new_stream() -> None:
    async with playing(SPEC) as stage:
        assert await stage.waits() == Waiting(1, ("peer",))
        stage.control.end()

        await stage.attends()
        assert await stage.waits() == Waiting(1, ("peer",))


def test_a_host_that_has_waited_reports_at_once_that_it_goes_on() -> None:
    assert LIMITS.waiting_seconds > LIMITS.report_seconds  # nothing was reported for so long: no report is too soon


# Algorithms that go wrong


async def test_what_an_algorithm_raises_on_an_accepted_stream_fails_the_game_and_is_not_tried_again(
    tmp_path: Path,
) -> None:
    raising = """
    decided = []

    def decide(self, state, gossip, t):
        self.decided.append(t)
        if t == 5:
            raise ZeroDivisionError("no more")
        return super().decide(state, gossip, t)
    """
    spec = algorithm(tmp_path, raising)
    async with playing(spec) as stage:
        await stage.play(4)
        stage.frame(5)  # all that was missing: the host decides while it serves the peer's stream
        stage.frame(5)
        failure = await stage.fails()

    assert isinstance(failure, PluginFailed)
    assert str(failure) == f"the algorithm {spec.algorithm.name} raised ZeroDivisionError in round 5: no more"
    assert load(GROUP, spec.algorithm.name, key="algorithm.name").factory.decided == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("method", "what"),
    [
        ("__init__(self, game, schedule)", "could not be made: ZeroDivisionError: not today; correct its code"),
        ("start(self, agents)", "raised ZeroDivisionError before round 1: not today"),
    ],
)
async def test_what_an_algorithm_raises_before_the_first_round_fails_the_game(
    method: str, what: str, tmp_path: Path
) -> None:
    spec = algorithm(tmp_path, f"def {method}:\n    raise ZeroDivisionError('not today')")
    async with seated(spec) as stage:
        failure = await stage.fails()

    assert isinstance(failure, PluginFailed)
    assert str(failure) == f"the algorithm {spec.algorithm.name} {what}"


async def test_an_algorithm_that_is_not_the_one_of_the_spec_is_refused_with_both_hashes(tmp_path: Path) -> None:
    spec = algorithm(tmp_path, "pass")
    here = load(GROUP, spec.algorithm.name, key="algorithm.name").sha256
    async with seated(spec.replace(**{"algorithm.sha256": "0123456789abcdef" * 4})) as stage:
        failure = await stage.fails()

    assert isinstance(failure, Mismatch)
    assert f"has SHA-256 {here[:16]} here and 0123456789abcdef in the spec; bring the same file" in str(failure)


# Streams that go wrong


async def test_a_repeated_answer_does_not_erase_the_question_that_is_still_open() -> None:
    async with playing(SPEC) as stage:
        await stage.play(1)
        stage.frame(2)
        question = await stage.reveal.hear(Question)
        stage.answer(1)  # to the first question, which was asked again
        stage.reveal.end()

        await stage.reveals()
        again = await stage.reveal.hear(Question)

        assert (again.round, again.x.tobytes(), again.points.tobytes()) == (
            2,
            question.x.tobytes(),
            question.points.tobytes(),
        )
        stage.answer(2)
        assert (await stage.peer.hear(Frame)).round == 3


async def test_a_question_without_answer_is_asked_again_on_every_stream_and_played_once() -> None:
    async with playing(SPEC) as stage:
        await stage.play(1)
        stage.frame(2)
        for _ in range(2):
            assert (await stage.reveal.hear(Question)).round == 2
            stage.reveal.end()
            await stage.reveals()
        assert (await stage.reveal.hear(Question)).round == 2
        stage.answer(2)
        stage.answer(2)
        assert (await stage.peer.hear(Frame)).round == 3
        stage.frame(3)
        assert (await stage.reveal.hear(Question)).round == 3


async def test_a_question_that_is_refused_fails_the_game_with_the_refusal() -> None:
    async with playing(SPEC) as stage:
        await stage.play(1)
        stage.frame(2)
        await stage.reveal.hear(Question)
        stage.reveal.end(OutsideSet("decisions and points must lie in the feasible set"))
        failure = await stage.fails()

    assert (type(failure), str(failure)) == (OutsideSet, "decisions and points must lie in the feasible set")


async def test_two_copies_of_a_row_that_differ_fail_the_game_and_end_the_stream() -> None:
    async with playing(SPEC) as stage:
        await stage.play(1)
        stage.frame(4, 0.0)
        stage.frame(4, 1.0)
        failure = await stage.fails()
        with pytest.raises(Diverged, match="two frames of round 4 hold different rows"):
            await stage.peer.hear(Heartbeat)

    assert isinstance(failure, Diverged)
