"""A link whose peer dies: what could not be written is given up, and nothing is left behind."""

import asyncio
import functools

import grpc
import grpc.aio
import pytest

from slaternet.errors import NotSeated, OverBudget, Replaced, SlaternetError, Superseded, Unreachable
from slaternet.limits import LIMITS
from slaternet.network.stream import Stream
from slaternet.network.traffic import Traffic

pytestmark = pytest.mark.usefixtures("nothing_is_left_behind")


class Frail(Stream):
    """A link that hands messages to nobody, slowly."""

    def __init__(self) -> None:
        super().__init__("the peer", LIMITS, LIMITS.silence_seconds, Traffic())
        self.taken: list[bytes] = []
        self.writing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def _check_end(self) -> None: ...

    async def _receive(self) -> bytes | None:
        return None

    async def _transmit(self, data: bytes) -> None:
        self.taken.append(data)
        self.writing = asyncio.get_running_loop().create_future()
        await self.writing

    def _hang_up(self) -> None:
        pass

    def _lost(self) -> bool:
        return False


DEATH = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "gone")


@pytest.mark.parametrize("error", [DEATH, asyncio.InvalidStateError("RPC already finished.")])
async def test_a_peer_that_dies_during_the_first_write_leaves_a_link_that_can_be_closed(error: Exception) -> None:
    link = Frail()
    link.send(b"one")
    link.send(b"two")
    await asyncio.sleep(0)  # the writer's turn
    assert link.taken == [b"one"]

    link.writing.set_exception(error)
    await link.flush()
    link.close()

    assert link.taken == [b"one"]  # what could not be written is not tried again
    with pytest.raises(Unreachable, match="closed"):
        await link.read()


async def test_a_link_that_has_lost_a_burst_writes_the_next() -> None:
    link = Frail()
    link.send(b"one")
    await asyncio.sleep(0)
    link.writing.set_exception(DEATH)
    await link.flush()

    link.send(b"two")
    await asyncio.sleep(0)
    assert link.taken == [b"one", b"two"]
    link.writing.set_result(None)
    await link.flush()
    link.close()


async def test_messages_that_can_wait_are_made_one_at_a_time_and_only_when_nothing_else_is_left_to_send() -> None:
    link, most = Frail(), LIMITS.parts + 2 * LIMITS.window
    made: list[int] = []

    def make(number: int) -> list[bytes]:
        made.append(number)
        return [b"%d of two" % number, b"%d as well" % number]

    for number in range(2 * most):  # a peer that lacks so many does not lose its stream
        link.send_later(functools.partial(make, number))
    await asyncio.sleep(0)
    assert made == [0]

    link.send(b"now")
    for _ in range(3):
        link.writing.set_result(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert link.taken == [b"0 of two", b"0 as well", b"now", b"1 of two"]

    link.close()
    link.send_later(functools.partial(make, -1))
    await link.flush()
    assert made == [0, 1]


async def test_a_peer_that_does_not_take_new_messages_loses_its_stream_also_where_they_can_wait() -> None:
    link, most = Frail(), LIMITS.parts + 2 * LIMITS.window
    for _ in range(most + 1):  # one of them is under way
        link.send_later(lambda: [b"new"], lacked=False)
    link.raise_if_ended()

    link.send_later(lambda: [b"one more"], lacked=False)

    with pytest.raises(OverBudget, match="does not take the messages meant for it"):
        link.raise_if_ended()


async def test_a_link_closed_before_its_first_write_goes_on_leaves_nothing_behind() -> None:
    link = Frail()
    link.send(b"one")
    link.close()
    await link.flush()
    if link.taken and not link.writing.done():
        link.writing.set_exception(DEATH)  # gRPC gives up what it was given


async def test_a_link_closed_in_the_middle_of_a_write_leaves_nothing_behind() -> None:
    link = Frail()
    link.send(b"one")
    await asyncio.sleep(0)
    link.close()
    await link.flush()

    assert link.writing.cancelled()


@pytest.mark.parametrize(
    ("error", "left"),
    [(Replaced("a newer stream"), []), (Superseded("a newer process"), []), (NotSeated("later"), [b"two"])],
)
async def test_what_a_stream_was_to_send_later_is_dropped_when_it_ends_and_all_of_it_where_it_has_a_successor(
    error: SlaternetError, left: list[bytes]
) -> None:
    link = Frail()
    link.send(b"one")
    link.send(b"two")
    link.send_later(lambda: [b"later"])
    await asyncio.sleep(0)  # the first is being written, to a peer that takes nothing

    link.end(error)
    for _ in range(3):
        await asyncio.sleep(0)
        if not link.writing.done():
            link.writing.set_result(None)
    await link.flush()

    assert link.taken == [b"one", *left]
    with pytest.raises(type(error)):
        await link.read()
    link.close()


async def test_whoever_asks_without_reading_waits_until_it_reads_or_the_stream_ends() -> None:
    link = Frail()
    for _ in range(LIMITS.burst + 2):
        link.send(b"answer")
    await asyncio.sleep(0)
    assert link.crowded

    waiting = asyncio.create_task(link.drained())
    for _ in range(LIMITS.burst + 2):
        await asyncio.sleep(0)
        assert not waiting.done()
        link.writing.set_result(None)
    await waiting
    assert not link.crowded

    link.send(b"answer")
    waiting = asyncio.create_task(link.drained())
    await asyncio.sleep(0)
    link.end(Replaced("a newer stream"))
    with pytest.raises(Replaced):
        await waiting
    link.close()
    await link.flush()
