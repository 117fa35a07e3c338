"""Calls and links: typed errors, order, and ends that everyone hears of."""

import asyncio
from collections.abc import Callable

import pytest
from tests.support.wires import AGENT, GOSSIP, JOIN, echo, serving, soon

from slaternet import errors
from slaternet.errors import BadSpec, Malformed, Mismatch, OverBudget, Replaced, SlaternetError, Unreachable
from slaternet.limits import LIMITS, Limits
from slaternet.network.client import call, dial, open_channel
from slaternet.network.server import serve
from slaternet.network.stream import Stream

pytestmark = pytest.mark.usefixtures("nothing_is_left_behind")

ON_THE_WIRE = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SlaternetError) and not kind.__subclasses__()
    if kind.__name__ not in ("BadSpec", "RunFailed")
]


# Calls


async def test_a_call_returns_the_handlers_reply() -> None:
    async with serving() as (_, channel):
        assert await call(channel, JOIN, b"\x00\xffraw") == b"\x00\xffraw"


@pytest.mark.parametrize("kind", ON_THE_WIRE)
async def test_an_error_arrives_as_what_it_was(kind: type[SlaternetError]) -> None:
    async def refuse(_: bytes, caller: object) -> bytes:
        raise kind("the culprit is ünique; do better")

    async def refuse_stream(link: Stream) -> None:
        await link.read()
        raise kind("the culprit is ünique; do better")

    said = "internal error" if kind.status == "INTERNAL" else "the culprit is ünique; do better"
    async with serving(refuse_stream, refuse) as (_, channel):
        with pytest.raises(kind, match=said):
            await call(channel, JOIN, b"")
        async with dial(channel, GOSSIP) as link:
            link.send(b"hello")
            with pytest.raises(kind, match=said):
                await soon(link.read())


@pytest.mark.parametrize("error", [ValueError("secret"), BadSpec("secret"), SlaternetError("secret")])
async def test_an_accident_in_a_handler_is_told_to_nobody(error: Exception) -> None:
    async def stumble(_: bytes, caller: object) -> bytes:
        raise error

    async with serving(answer=stumble) as (_, channel):
        with pytest.raises(SlaternetError) as caught:
            await call(channel, JOIN, b"")
    assert type(caught.value) is SlaternetError
    assert "internal error" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_sentence_too_long_for_a_header_is_cut() -> None:
    async def refuse(_: bytes, caller: object) -> bytes:
        raise Malformed("é" * 10_000)

    async with serving(answer=refuse) as (_, channel):
        with pytest.raises(Malformed) as caught:
            await call(channel, JOIN, b"")
    assert str(caught.value) == "é" * (LIMITS.text_bytes // 2)


async def test_who_does_not_answer_is_named() -> None:
    async with open_channel("127.0.0.1:1") as channel:
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 .*refused.*start the process"):
            await call(channel, JOIN, b"")
        async with dial(channel, GOSSIP) as link:
            link.send(b"hello")
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
                await soon(link.read())


async def test_a_call_has_a_deadline() -> None:
    async def ponder(_: bytes, caller: object) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(answer=ponder) as (server, channel):
        with pytest.raises(Unreachable, match=server.address):
            await call(channel, JOIN, b"", timeout=0.1)


async def test_another_service_at_the_address_is_a_mismatch() -> None:
    async with serving() as (_, channel):
        with pytest.raises(Mismatch, match="right service"):
            await call(channel, "/slaternet.v1.Coordinator/Join", b"")


async def test_a_taken_port_is_the_users_to_correct() -> None:
    async with serving() as (server, _):
        with pytest.raises(BadSpec, match=f"cannot listen on {server.address}; choose"):
            await serve(server.address, service=AGENT, unary={}, streams={}, hosts=1)


# Links


async def test_messages_arrive_in_order() -> None:
    messages = [bytes([i % 256]) * (i % 97) for i in range(1000)]
    async with serving() as (_, channel), dial(channel, GOSSIP) as link:
        for message in messages:
            link.send(message)
        assert [await soon(link.read()) for _ in messages] == messages


async def test_a_handler_that_returns_ends_the_stream_in_order() -> None:
    async def greet(link: Stream) -> None:
        await link.read()
        link.send(b"one")
        link.send(b"two")

    async with serving(greet) as (_, channel), dial(channel, GOSSIP) as link:
        link.send(b"hello")
        assert [await soon(link.read()) for _ in range(4)] == [b"one", b"two", None, None]


async def test_what_was_sent_before_leaving_arrives() -> None:
    heard: list[bytes | None] = []
    done = asyncio.Event()

    async def listen(link: Stream) -> None:
        while (data := await link.read()) is not None:
            heard.append(data)
        done.set()

    async with serving(listen) as (_, channel):
        async with dial(channel, GOSSIP) as link:
            for i in range(300):
                link.send(b"%d" % i)
        await soon(done.wait())
    assert heard == [b"%d" % i for i in range(300)]


async def test_what_was_sent_before_an_error_arrives_before_it() -> None:
    async def grumble(link: Stream) -> None:
        await link.read()
        for i in range(300):
            link.send(b"%d" % i)
        raise Malformed("enough")

    async with serving(grumble) as (_, channel), dial(channel, GOSSIP) as link:
        link.send(b"hello")
        assert [await soon(link.read()) for _ in range(300)] == [b"%d" % i for i in range(300)]
        with pytest.raises(Malformed, match="enough"):
            await soon(link.read())


async def test_ending_a_servers_link_interrupts_its_reader_and_tells_the_peer() -> None:
    links: asyncio.Queue[Stream] = asyncio.Queue()
    ends: asyncio.Queue[SlaternetError] = asyncio.Queue()

    async def wait(link: Stream) -> None:
        await link.read()
        links.put_nowait(link)
        try:
            await link.read()
        except SlaternetError as error:
            ends.put_nowait(error)
            raise

    async with serving(wait) as (_, channel), dial(channel, GOSSIP) as link:
        link.send(b"hello")
        served = await soon(links.get())
        await asyncio.sleep(0)  # let it read on
        served.end(Replaced("a newer stream took over"))
        assert isinstance(await soon(ends.get()), Replaced)
        with pytest.raises(Replaced, match="newer stream"):
            await soon(link.read())


async def test_a_handler_that_does_not_read_hears_of_the_end_when_it_does() -> None:
    links: asyncio.Queue[Stream] = asyncio.Queue()
    go = asyncio.Event()

    async def dawdle(link: Stream) -> None:
        await link.read()
        links.put_nowait(link)
        await go.wait()

    async with serving(dawdle) as (_, channel), dial(channel, GOSSIP) as link:
        link.send(b"hello")
        served = await soon(links.get())
        served.end(Replaced("a newer stream took over"))
        served.end(Malformed("the first reason stands"))
        served.send(b"into the void")
        with pytest.raises(Replaced):
            await served.read()
        go.set()  # the handler returns without a word, the peer is told all the same
        with pytest.raises(Replaced):
            await soon(link.read())


async def test_ending_a_clients_link_interrupts_its_reader_and_frees_the_server() -> None:
    ended = asyncio.Event()

    async def wait(link: Stream) -> None:
        try:
            await echo(link)
        finally:
            ended.set()

    async with serving(wait) as (_, channel), dial(channel, GOSSIP) as link:
        link.send(b"hello")
        assert await soon(link.read()) == b"hello"
        reading = asyncio.create_task(link.read())
        await asyncio.sleep(0)
        link.end(Replaced("no longer wanted"))
        with pytest.raises(Replaced, match="no longer wanted"):
            await soon(reading)
        with pytest.raises(Replaced):
            await link.read()
        await soon(ended.wait())


async def test_a_cancellation_from_outside_stays_one_though_the_link_ends_too() -> None:
    async with serving() as (_, channel), dial(channel, GOSSIP) as link:
        reading = asyncio.create_task(link.read())
        await asyncio.sleep(0)
        link.end(Replaced("no longer wanted"))
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading


def when_its_call_fails(link: Stream, act: Callable[[], object]) -> None:
    """Act in the moment in which the call behind a link fails by itself: then grpc.aio swallows a cancellation."""
    link._call.add_done_callback(lambda _: act())  # type: ignore[attr-defined]  # of a client's link


async def test_a_cancellation_from_outside_stays_one_though_the_call_fails_in_that_moment() -> None:
    async with open_channel("127.0.0.1:1") as channel, dial(channel, GOSSIP) as link:
        reading = asyncio.create_task(link.read())
        when_its_call_fails(link, reading.cancel)
        with pytest.raises(asyncio.CancelledError):
            await soon(reading)


async def test_ending_a_link_interrupts_its_reader_though_the_call_fails_in_that_moment() -> None:
    async with open_channel("127.0.0.1:1") as channel, dial(channel, GOSSIP) as link, asyncio.timeout(20.0):
        when_its_call_fails(link, lambda: link.end(Replaced("no longer wanted")))
        with pytest.raises(Replaced):
            await link.read()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0  # an older interruption must not pass for a cancellation


async def test_an_error_in_the_block_hangs_up_at_once() -> None:
    ended = asyncio.Event()

    async def wait(link: Stream) -> None:
        try:
            await echo(link)
        finally:
            ended.set()

    async with serving(wait) as (_, channel):
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with dial(channel, GOSSIP) as link:
                link.send(b"hello")
                await soon(link.read())
                raise ZeroDivisionError
        with pytest.raises(Unreachable, match="closed"):
            await link.read()
        await soon(ended.wait())


async def test_a_peer_that_does_not_take_its_messages_ends_the_link() -> None:
    limits = Limits(parts=4, window=2)
    async with serving(limits=limits) as (_, channel), dial(channel, GOSSIP) as link:
        for _ in range(1 + limits.parts + 2 * limits.window + 1):  # one on its way, a full outbox, and one too many
            link.send(bytes(1000))
        with pytest.raises(OverBudget):
            await link.read()
