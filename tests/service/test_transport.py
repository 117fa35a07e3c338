import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TypeVar

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from slaternet import errors
from slaternet.codec import GossipDecoder, RevealUpDecoder, decode_join, encode_gossip, encode_join, encode_reveal_up
from slaternet.errors import BadSpec, Malformed, Mismatch, OverBudget, Replaced, SlaternetError, Unreachable
from slaternet.limits import LIMITS, Limits
from slaternet.link import Link
from slaternet.model import Frame, Head, Join, Question, Role
from slaternet.transport import Channel, Server, call, dial, open_channel, serve

AGENT = "slaternet.v1.Agent"
GOSSIP = f"/{AGENT}/Gossip"
JOIN = f"/{AGENT}/Join"
BRISK = Limits(heartbeat_seconds=0.1, silence_seconds=0.5, opening_seconds=0.3, grace_seconds=0.5)
HEAD = Head("run-1", 1, 1, "host-1")
ON_THE_WIRE = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SlaternetError) and not kind.__subclasses__()
    if kind.__name__ not in ("BadSpec", "RunFailed")
]

T = TypeVar("T")
Converse = Callable[[Link], Awaitable[None]]
Answer = Callable[[bytes, object], Awaitable[bytes]]


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    gc.collect()
    assert [record.getMessage() for record in caplog.records if record.name.startswith(("asyncio", "grpc"))] == []


async def echo(link: Link) -> None:
    while (data := await link.read()) is not None:
        link.send(data)


async def same(data: bytes, caller: object) -> bytes:
    return data


@asynccontextmanager
async def serving(
    converse: Converse = echo, answer: Answer = same, *, hosts: int = 2, limits: Limits = LIMITS
) -> AsyncIterator[tuple[Server, Channel]]:
    server = await serve(
        "127.0.0.1:0", service=AGENT, unary={"Join": answer}, streams={"Gossip": converse}, hosts=hosts, limits=limits
    )
    try:
        async with open_channel(server.address, limits=limits) as channel:
            yield server, channel
    finally:
        await server.stop()


async def soon(work: Awaitable[T]) -> T:
    return await asyncio.wait_for(work, 20.0)


# Calls


async def test_a_call_returns_the_handlers_reply() -> None:
    async with serving() as (_, channel):
        assert await call(channel, JOIN, b"\x00\xffraw") == b"\x00\xffraw"


@pytest.mark.parametrize("kind", ON_THE_WIRE)
async def test_an_error_arrives_as_what_it_was(kind: type[SlaternetError]) -> None:
    async def refuse(_: bytes, caller: object) -> bytes:
        raise kind("the culprit is ünique; do better")

    async def refuse_stream(link: Link) -> None:
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
    async def greet(link: Link) -> None:
        await link.read()
        link.send(b"one")
        link.send(b"two")

    async with serving(greet) as (_, channel), dial(channel, GOSSIP) as link:
        link.send(b"hello")
        assert [await soon(link.read()) for _ in range(4)] == [b"one", b"two", None, None]


async def test_what_was_sent_before_leaving_arrives() -> None:
    heard: list[bytes | None] = []
    done = asyncio.Event()

    async def listen(link: Link) -> None:
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
    async def grumble(link: Link) -> None:
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
    links: asyncio.Queue[Link] = asyncio.Queue()
    ends: asyncio.Queue[SlaternetError] = asyncio.Queue()

    async def wait(link: Link) -> None:
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
    links: asyncio.Queue[Link] = asyncio.Queue()
    go = asyncio.Event()

    async def dawdle(link: Link) -> None:
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

    async def wait(link: Link) -> None:
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


async def test_an_error_in_the_block_hangs_up_at_once() -> None:
    ended = asyncio.Event()

    async def wait(link: Link) -> None:
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


# Time


async def test_a_stream_that_says_nothing_at_first_is_ended() -> None:
    async with serving(limits=BRISK) as (_, channel), dial(channel, GOSSIP) as link:
        with pytest.raises(Unreachable, match=r"silent for 0\.3 seconds"):
            await soon(link.read())


async def test_silence_ends_a_link_at_both_ends() -> None:
    ends: asyncio.Queue[SlaternetError] = asyncio.Queue()

    async def wait(link: Link) -> None:
        try:
            await echo(link)
        except SlaternetError as error:
            ends.put_nowait(error)
            raise

    async with serving(wait, limits=BRISK) as (_, channel), dial(channel, GOSSIP) as link:
        link.send(b"hello")
        assert await soon(link.read()) == b"hello"
        with pytest.raises(Unreachable):
            await soon(link.read())
        assert isinstance(await soon(ends.get()), Unreachable)


async def test_heartbeats_keep_a_quiet_link_alive_beyond_every_time_limit() -> None:
    limits = Limits(heartbeat_seconds=0.1, silence_seconds=1.0, opening_seconds=1.0, farewell_seconds=1.0)
    beats = 0

    async def beat(link: Link) -> None:
        nonlocal beats
        link.keep_alive(lambda: b"down")
        while await link.read() is not None:
            beats += 1

    async with serving(beat, limits=limits) as (_, channel), dial(channel, GOSSIP) as link:
        link.send(b"hello")
        link.keep_alive(lambda: b"up")
        assert [await soon(link.read()) for _ in range(16)] == [b"down"] * 16  # longer than the silence allowed
    assert beats >= 5


async def test_a_link_that_is_not_quiet_sends_no_heartbeats() -> None:
    limits = Limits(heartbeat_seconds=0.3)
    async with serving(limits=limits) as (_, channel), dial(channel, GOSSIP) as link:
        link.keep_alive(lambda: b"beat")
        heard, pauses, now = [], [0.0], time.monotonic()
        ends = now + 3 * limits.heartbeat_seconds
        while now < ends:
            link.send(b"word")
            heard.append(await soon(link.read()))
            pauses.append(time.monotonic() - now)
            now = time.monotonic()
    assert b"beat" not in heard or max(pauses) >= limits.heartbeat_seconds  # a machine may be too slow to be busy


# Ends of processes and servers

_PEER = """
import asyncio, sys
from slaternet import process, transport

async def echo(link):
    while (data := await link.read()) is not None:
        link.send(data)

async def serve(stopping):
    server = await transport.serve(
        "127.0.0.1:0", service="slaternet.v1.Agent", unary={}, streams={"Gossip": echo}, hosts=2
    )
    print(server.address, flush=True)
    await stopping.wait()
    await server.stop()
    return 7

async def dial(stopping):
    async with transport.open_channel(sys.argv[1]) as channel:
        async with transport.dial(channel, "/slaternet.v1.Agent/Gossip") as link:
            link.send(b"hello")
            await link.read()
            print("connected", flush=True)
            await stopping.wait()
    return 8

raise SystemExit(process.run(dial if len(sys.argv) > 1 else serve))
"""


@asynccontextmanager
async def peer(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _PEER,
        *arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "SLATERNET_TETHERED": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    try:
        yield process, (await asyncio.wait_for(process.stdout.readline(), 20.0)).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_the_death_of_the_server_is_noticed_at_once() -> None:
    async with peer() as (process, address), open_channel(address) as channel, dial(channel, GOSSIP) as link:
        link.send(b"hello")
        assert await soon(link.read()) == b"hello"
        process.kill()
        with pytest.raises(Unreachable, match=address):
            await asyncio.wait_for(link.read(), LIMITS.heartbeat_seconds)


async def test_the_death_of_a_client_is_noticed_at_once() -> None:
    ended = asyncio.Event()

    async def wait(link: Link) -> None:
        with suppress(Unreachable):
            await echo(link)
        ended.set()

    async with serving(wait) as (server, _), peer(server.address) as (process, said):
        assert said == "connected"
        process.kill()
        await asyncio.wait_for(ended.wait(), LIMITS.heartbeat_seconds)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, "end of input"])
async def test_a_server_process_with_live_streams_leaves_quietly(how: signal.Signals | str) -> None:
    async with peer() as (process, address), open_channel(address) as channel, dial(channel, GOSSIP) as link:
        link.send(b"hello")
        assert await soon(link.read()) == b"hello"
        await _tell(process, how)
        with pytest.raises(Unreachable, match="shutting down"):
            await soon(link.read())
        _, said = await soon(process.communicate())
        assert (process.returncode, said) == (7, b"")


@pytest.mark.parametrize("how", [signal.SIGTERM, "end of input"])
async def test_a_client_process_with_a_live_stream_leaves_quietly(how: signal.Signals | str) -> None:
    async with serving() as (server, _), peer(server.address) as (process, said):
        assert said == "connected"
        await _tell(process, how)
        _, words = await soon(process.communicate())
        assert (process.returncode, words) == (8, b"")


async def _tell(process: asyncio.subprocess.Process, how: signal.Signals | str) -> None:
    if isinstance(how, signal.Signals):
        process.send_signal(how)
    else:
        assert process.stdin is not None
        process.stdin.close()


async def test_a_server_stops_in_time_and_tells_its_clients() -> None:
    async with serving() as (server, channel), dial(channel, GOSSIP) as link:
        link.send(b"hello")
        await soon(link.read())
        began = time.monotonic()
        await server.stop()
        assert time.monotonic() - began < LIMITS.grace_seconds  # nothing has to be waited for
        with pytest.raises(Unreachable, match="shutting down"):
            await soon(link.read())


async def test_a_server_stops_in_time_though_a_handler_does_not_listen() -> None:
    started = asyncio.Event()

    async def sulk(_: Link) -> None:
        started.set()
        await asyncio.Event().wait()

    async with serving(sulk) as (server, channel), dial(channel, GOSSIP) as link:
        link.send(b"hello")
        await soon(started.wait())
        began = time.monotonic()
        await server.stop()
        assert time.monotonic() - began < LIMITS.grace_seconds + 1.0
        with pytest.raises(Unreachable):
            await soon(link.read())


# Strangers


async def test_health_and_reflection_are_served_beside_raw_bytes() -> None:
    async with serving() as (server, channel):
        stub = health_pb2_grpc.HealthStub(channel.grpc)
        for service in ("", AGENT):
            reply = await stub.Check(health_pb2.HealthCheckRequest(service=service))
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        names, methods = await asyncio.to_thread(_reflect, server.address)
    assert {AGENT, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"} == names
    assert methods == ["Gossip"]


def _reflect(address: str) -> tuple[set[str], list[str]]:
    with grpc.insecure_channel(address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        file = database.FindFileContainingSymbol(AGENT)
        return set(database.get_services()), [method.name for method in file.service[0].method]


async def test_a_message_above_the_limit_ends_its_own_call_only() -> None:
    wide = Limits(message_bytes=2 * LIMITS.message_bytes)
    async with serving() as (server, channel), dial(channel, GOSSIP) as link:
        link.send(b"hello")
        assert await soon(link.read()) == b"hello"
        async with open_channel(server.address, limits=wide) as flooding, dial(flooding, GOSSIP) as flood:
            flood.send(bytes(LIMITS.message_bytes + 1))
            with pytest.raises(OverBudget):
                await soon(flood.read())
            with pytest.raises(OverBudget):
                await call(flooding, JOIN, bytes(LIMITS.message_bytes + 1))
        link.send(b"still here")
        assert await soon(link.read()) == b"still here"


async def test_headers_above_the_limit_are_refused() -> None:
    async with serving() as (_, channel):
        join: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.grpc.unary_unary(JOIN)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await join(b"", metadata=(("fat", "x" * 20_000),))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await call(channel, JOIN, b"thin") == b"thin"


async def test_every_host_gets_its_streams_and_a_flood_of_them_is_refused() -> None:
    hosts = 10
    async with serving(hosts=hosts) as (_, channel), AsyncExitStack() as stack:
        links = [await stack.enter_async_context(dial(channel, GOSSIP)) for _ in range(4 * hosts + 32)]
        for link in links:
            link.send(b"hello")
        assert [await soon(link.read()) for link in links] == [b"hello"] * len(links)
        async with dial(channel, GOSSIP) as one_more:
            one_more.send(b"hello")
            with pytest.raises((OverBudget, Unreachable)):  # grpc.aio may lose the reason of so early an end
                await soon(one_more.read())
        for link in links:
            link.send(b"still here")
        assert [await soon(link.read()) for link in links] == [b"still here"] * len(links)


async def test_silent_sockets_are_closed() -> None:
    limits = Limits(opening_seconds=0.3)
    async with serving(hosts=1, limits=limits) as (server, channel):
        host, _, port = server.address.rpartition(":")
        sockets = [await asyncio.open_connection(host, int(port)) for _ in range(30)]
        try:
            for reader, _ in sockets:  # beyond the number allowed at once, the rest after the time to shake hands
                await soon(_until_closed(reader))
        finally:
            for _, writer in sockets:
                writer.close()
        assert await call(channel, JOIN, b"still here") == b"still here"


async def _until_closed(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionResetError):
        while await reader.read(4096):
            pass


# Payloads in parts, and malformed ones, over the wire


async def test_a_payload_of_three_mebibytes_travels_in_parts_and_back() -> None:
    agents = np.arange(48)
    frame = Frame(1, agents, np.random.default_rng(1).standard_normal((48, 8192)))

    async def mirror(link: Link) -> None:
        decoder = GossipDecoder(8192)
        while (data := await link.read()) is not None:
            if (said := decoder.decode(data)) is not None:
                for part in encode_gossip(*said):
                    link.send(part)

    async with serving(mirror) as (_, channel), dial(channel, GOSSIP) as link:
        parts = encode_gossip(HEAD, frame)
        assert len(parts) == 6
        for part in parts:
            link.send(part)
        decoder = GossipDecoder(8192)
        said = None
        while said is None:
            data = await soon(link.read())
            assert data is not None
            said = decoder.decode(data)
    head, back = said
    assert head == HEAD
    assert isinstance(back, Frame)
    assert back.rows.tobytes() == frame.rows.tobytes()
    assert back.agents.tolist() == agents.tolist()


async def test_malformed_messages_end_their_own_stream_and_nothing_else() -> None:
    question = Question(1, np.arange(3), np.ones((3, 4)), np.ones((3, 2, 4)))
    sound = encode_reveal_up(HEAD, question)[0]
    generator = np.random.default_rng(7)
    outcomes = {"answered": 0, "refused": 0}

    async def judge(link: Link) -> None:
        decoder = RevealUpDecoder(4)
        while (data := await link.read()) is not None:
            decoder.decode(data)
            link.send(b"fine")

    async with serving(judge) as (_, channel), dial(channel, GOSSIP) as bystander:
        for _ in range(300):
            mutated = bytearray(sound)
            for place in generator.integers(len(sound), size=3):
                mutated[place] = generator.integers(256)
            async with dial(channel, GOSSIP) as link:
                link.send(bytes(mutated))
                try:
                    assert await soon(link.read()) == b"fine"
                    outcomes["answered"] += 1
                except Malformed:
                    outcomes["refused"] += 1
        bystander.send(sound)
        assert await soon(bystander.read()) == b"fine"
    assert outcomes["answered"] > 10
    assert outcomes["refused"] > 10


async def test_a_malformed_call_is_the_callers_fault() -> None:
    async def join(data: bytes, caller: object) -> bytes:
        decode_join(data)
        return b"welcome"

    sound = encode_join(Head("", 0, 0, "host-1"), Join(Role.HOST, "127.0.0.1:1", 0, 1, "a" * 64))
    async with serving(answer=join) as (_, channel):
        assert await call(channel, JOIN, sound) == b"welcome"
        for data in (b"", b"\xff" * 100, sound[:-1], sound + b"\x0a"):
            with pytest.raises(Malformed):
                await call(channel, JOIN, data)
