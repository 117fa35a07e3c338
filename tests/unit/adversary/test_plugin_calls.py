"""Calls of a plugin in a worker: the event loop waits, in frames, and whatever that cannot bring a thread brings."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.support.worker_plugins import SET, Counting, game, served, target

from slaternet.errors import BadSpec, PluginFailed
from slaternet.limits import LIMITS
from slaternet.model import Question, Values
from slaternet_adversary.builtin.linear_regression import LinearRegression
from slaternet_adversary.engine.events import Play, Score
from slaternet_adversary.plugin.calls import Served
from slaternet_adversary.plugin.connections import (
    FRAMES,
    CallFailed,
    Failure,
    FrameConnection,
    answer_frame,
    call_frame,
    items,
    read_frame,
)
from slaternet_adversary.plugin.open_rounds import OpenRounds
from slaternet_adversary.plugin.plugin_calls import ApartCalls, PluginCalls
from slaternet_adversary.plugin.remote import Remote
from slaternet_adversary.plugin.worker import FrameServer

RNG = np.random.default_rng(5)
N = 4


class Idle(Executor):
    """A thread that nothing may need."""

    def submit(self, *_: object, **__: object) -> object:  # type: ignore[override]
        raise AssertionError("a call was left to the thread")


@asynccontextmanager
async def apart(
    worker: Counting, folder: Path, thread: Callable[[], Executor] = Idle, address: str = ""
) -> AsyncIterator[ApartCalls]:
    """Serve a worker in frames, or name where it is served, and give the calls of a new instance."""
    if not address:
        FrameServer(worker, f"{folder}/f")
    there = Served(lambda: address or f"{FRAMES}{folder}/f")
    connecting = asyncio.to_thread(Remote.connect, there, game(), {}, set=SET, deadline=20.0, name="acme")
    remote, executor = await connecting, thread()
    try:
        yield ApartCalls(remote, executor)
    finally:
        remote.close()
        executor.shutdown()


def question(t: int) -> Question:
    points = RNG.uniform(-1.0, 1.0, (N, 2, 3))
    return Question(t, np.arange(N), points[:, 0], points, x_is_first_point=True)


def bits(values: Values) -> bytes:
    return values.f.tobytes() + values.g.tobytes()


@pytest.mark.parametrize("framed", [True, False])
async def test_a_worker_gives_the_bits_of_the_plugin_in_frames_and_by_grpc(framed: bool, tmp_path: Path) -> None:
    worker, local = Counting("linear-regression"), PluginCalls(OpenRounds(LinearRegression(game())))
    plays, x = [Play(t, None) for t in range(1, 6)], RNG.uniform(-1.0, 1.0, (5, N, 3))
    scores = [Score(t, x[t - 1], np.arange(N)) for t in range(1, 6)]
    with served(worker, tmp_path) as grpc_address:
        there = apart(worker, tmp_path, *(() if framed else (lambda: ThreadPoolExecutor(1), grpc_address)))
        async with there as calls:
            for each in (local, calls):
                await each.play(plays)
            for t in (1, 5, 3):
                asked = question(t)
                assert bits(await calls.evaluate(asked)) == bits(await local.evaluate(asked))
            found = []
            while len(found) < len(scores):
                found += await calls.score(scores[len(found) :])
    due = [score for each in scores for score in await local.score([each])]

    assert found == due
    assert worker.calls.count("Evaluate") == 3
    assert worker.calls.count("Score") == 5


async def test_functions_are_measured_as_they_are_scored_here_and_apart(tmp_path: Path) -> None:
    local, x, some = PluginCalls(OpenRounds(LinearRegression(game()))), RNG.uniform(-1.0, 1.0, (5, 3)), np.array([1, 3])
    async with apart(Counting("linear-regression"), tmp_path, lambda: ThreadPoolExecutor(1)) as calls:
        for each in (local, calls):
            await each.play([Play(1, None)])
        here, there = await local.measure(1, some, x), await calls.measure(1, some, x)

    functions = LinearRegression(game()).play(1, None)
    assert here[0] == pytest.approx(functions.loss(some, np.broadcast_to(x, (2, 5, 3))).mean(axis=0))
    assert [each.tobytes() for each in there] == [each.tobytes() for each in here]


async def test_a_burst_of_rounds_is_one_frame_and_none_of_it_is_forgotten(tmp_path: Path) -> None:
    worker = Counting("linear-regression")
    async with apart(worker, tmp_path) as calls:
        await calls.play([Play(t, None) for t in range(1, 1 + LIMITS.burst)])
        await calls.evaluate(question(1))

    assert worker.needed == [1] * LIMITS.burst


async def test_the_round_of_a_burst_that_fails_is_named(tmp_path: Path) -> None:
    path = tmp_path / "late.py"
    path.write_text(LATE)
    async with apart(Counting(f"{path}:Late"), tmp_path) as calls:
        with pytest.raises(
            PluginFailed,
            match=r"acme failed: play of round 3 raised ZeroDivisionError: division by zero, at .*late\.py:8 ",
        ):
            await calls.play([Play(t, None) for t in range(1, 6)])


LATE = """
from slaternet_adversary import Adversary

class Late(Adversary):
    constraints = 1

    def play(self, round, past):
        1 / (round - 3)
        return self

    def loss(self, agents, points): ...
    def constraint(self, agents, points): ...
"""


async def test_where_the_connection_is_gone_a_thread_finds_the_worker_again(tmp_path: Path) -> None:
    worker = Counting("linear-regression")
    async with apart(worker, tmp_path, lambda: ThreadPoolExecutor(1)) as calls:
        await calls.play([Play(1, None)])
        connection = calls._remote._connection
        assert isinstance(connection, FrameConnection)
        connection.close()
        with pytest.raises(PluginFailed, match="came after the connection was closed"):  # which is nobody's to mend
            await calls.evaluate(question(1))


async def test_the_event_loop_goes_on_while_a_plugin_computes(tmp_path: Path) -> None:
    first, second = socket.socketpair(socket.AF_UNIX)
    connection = FrameConnection(str(tmp_path / "nobody"))
    connection._socket, connection._broken = first, ""
    waiting = asyncio.create_task(connection.exchange([("Play", b"question")], 20.0))
    while not waiting.done():
        await asyncio.sleep(0)  # turns of the loop until the question is there
        second.setblocking(False)
        try:
            frame = second.recv(1 << 16)
        except BlockingIOError:
            continue
        assert frame == call_frame([("Play", b"question")])
        second.sendall(answer_frame([(b"answer", None)]))

    assert await waiting == [b"answer"]
    connection.close()
    second.close()


async def test_a_call_that_takes_too_long_ends_the_connection(tmp_path: Path) -> None:
    first, second = socket.socketpair(socket.AF_UNIX)
    connection = FrameConnection(str(tmp_path / "nobody"))
    connection._socket, connection._broken = first, ""

    with pytest.raises(CallFailed) as late:
        await connection.exchange([("Play", b"")], 0.01)
    with pytest.raises(CallFailed) as after:
        connection.call("Play", b"", 1.0)

    assert late.value.code == "DEADLINE_EXCEEDED"
    assert after.value.code == "UNAVAILABLE"
    second.close()


def test_nobody_at_the_socket_is_said_with_the_first_call(tmp_path: Path) -> None:
    connection = FrameConnection(str(tmp_path / "nobody"))

    with pytest.raises(CallFailed, match=r"^UNAVAILABLE: No such file or directory$"):
        connection.call("Describe", b"", 1.0)


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="cannot listen on"):
        FrameServer(Counting("linear-regression"), f"{tmp_path}/{'long' * 40}")


# Frames


def test_a_frame_holds_its_calls_in_order() -> None:
    frame = call_frame([("Play", b"one"), ("Score", b""), ("Describe", b"three")])

    assert list(items(memoryview(frame)[4:])) == [(1, b"one"), (3, b""), (0, b"three")]


def torn(frame: bytes) -> Iterator[bytes]:
    yield from (frame[:cut] for cut in range(len(frame)))


def test_a_frame_that_ends_too_early_is_no_frame() -> None:
    frame = answer_frame([(b"one", None), (b"", Failure("ABORTED", "two"))])
    for piece in torn(frame):
        left = [piece]
        with pytest.raises(ConnectionResetError):
            read_frame(lambda size: left.pop()[:size] if left else b"")  # noqa: B023 - called at once
    for cut in (1, 5, 11):  # within the second item
        with pytest.raises(ValueError, match="ends within an item"):
            list(items(memoryview(frame)[4:-cut]))


def test_what_is_no_frame_ends_its_connection_and_no_other(tmp_path: Path) -> None:
    worker = Counting("linear-regression")
    FrameServer(worker, f"{tmp_path}/f")
    for garbage in (b"\xff" * 8, call_frame([("Play", b"x")])[:-1], b"\x06\x00\x00\x00\x09\x01\x00\x00\x00x"):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(f"{tmp_path}/f")
            stranger.sendall(garbage)
            stranger.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
    honest = FrameConnection(f"{tmp_path}/f")

    with pytest.raises(CallFailed, match="INVALID_ARGUMENT"):
        honest.call("Describe", b"\xff", 20.0)
    honest.close()


def test_the_plugins_that_tests_share_can_be_served_in_frames(tmp_path: Path) -> None:
    FrameServer(Counting(target("Wide")), f"{tmp_path}/f")
    there = Served(lambda: f"{FRAMES}{tmp_path}/f")
    remote = Remote.connect(there, game(), {}, set=SET, deadline=20.0, name="acme")
    points = RNG.standard_normal((4, 2, 3))

    assert remote.play(1, None).loss(np.arange(4), points).tobytes() == (
        (points[..., 0] + np.arange(4)[:, None]).tobytes()
    )
    remote.close()
