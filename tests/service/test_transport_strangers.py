"""What strangers may see and send, and payloads over the wire, in parts and malformed."""

import asyncio
from contextlib import AsyncExitStack, suppress

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tests.support.wires import AGENT, GOSSIP, HEAD, JOIN, serving, soon

from slaternet.codec import GossipDecoder, RevealUpDecoder, decode_join, encode_gossip, encode_join, encode_reveal_up
from slaternet.errors import Malformed, OverBudget, Unreachable
from slaternet.limits import LIMITS, Limits
from slaternet.model import Frame, Head, Join, Question, Role
from slaternet.network.client import call, dial, open_channel
from slaternet.network.stream import Stream

pytestmark = pytest.mark.usefixtures("nothing_is_left_behind")


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


async def test_every_host_gets_its_streams_and_in_a_flood_of_them_one_gives_way_to_another() -> None:
    hosts = 10
    async with serving(hosts=hosts) as (server, channel), AsyncExitStack() as stack:
        links = [await stack.enter_async_context(dial(channel, GOSSIP)) for _ in range(4 * hosts + 32)]
        for link in links:
            link.send(b"hello")
        assert [await soon(link.read()) for link in links] == [b"hello"] * len(links)
        elsewhere = await stack.enter_async_context(open_channel(server.address, limits=Limits(message_bytes=1 << 19)))
        async with dial(elsewhere, GOSSIP) as one_more:  # on a connection of its own
            one_more.send(b"hello")
            assert await soon(one_more.read()) == b"hello"
            for link in links:
                link.send(b"still here")
            heard = await soon(asyncio.gather(*(link.read() for link in links), return_exceptions=True))
        gone = [each for each in heard if each != b"still here"]
        assert [(type(each), "too many callers" in str(each)) for each in gone] == [(Unreachable, True)]


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

    async def mirror(link: Stream) -> None:
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

    async def judge(link: Stream) -> None:
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
