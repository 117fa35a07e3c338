"""Nobody uses up the room of others at a server: strangers give way to each other, and known callers have their own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from structlog.testing import capture_logs
from tests.support.http2 import DEAF, frame, request
from tests.support.wires import AGENT, GOSSIP, JOIN, same, soon

from slaternet.errors import Malformed
from slaternet.limits import LIMITS, Limits
from slaternet.network.certificates import LOOPBACK, Security, identity_of, read
from slaternet.network.client import call, dial, open_channel
from slaternet.network.server import Server, serve
from slaternet.network.stream import Stream
from slaternet_lab.tools.certificates import make

pytestmark = pytest.mark.usefixtures("nothing_is_left_behind")

HOSTS = 2
STRANGERS = 4 * HOSTS + 32
"""How many calls without a certificate or a ticket such a server has open at once, and how many one connection."""
SERVER = "agent-1"
PATIENT = Limits(opening_seconds=60.0)  # so that calls end because they give way, and for no other reason
HEALTH = "/grpc.health.v1.Health/"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

Ends = list["asyncio.Task[grpc.StatusCode]"]


class Hall:
    """The streams at a server; whoever sends the name of a host has shown its ticket."""

    def __init__(self) -> None:
        self.open = 0

    async def converse(self, link: Stream) -> None:
        self.open += 1
        try:
            while (data := await link.read()) is not None:
                link.set_host(data.decode())
                link.send(data)
        finally:
            self.open -= 1


@asynccontextmanager
async def serving(hall: Hall, security: Security = LOOPBACK, limits: Limits = PATIENT) -> AsyncIterator[Server]:
    handlers = {"unary": {"Join": same}, "streams": {"Gossip": hall.converse}}
    server = await serve("127.0.0.1:0", service=AGENT, hosts=HOSTS, security=security, limits=limits, **handlers)  # type: ignore[arg-type]
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make(folder, ("agent-1", "agent-2", "agent-3"), days=1)
    return folder


@asynccontextmanager
async def silent(server: Server, method: str, count: int, security: Security = LOOPBACK) -> AsyncIterator[Ends]:
    """Open so many calls that say nothing, on a few connections."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.ssl_target_name_override", identity_of(SERVER))]
    async with AsyncExitStack() as stack:
        ends: Ends = []
        for number in range(count):
            if number % STRANGERS == 0:
                channel = await stack.enter_async_context(
                    grpc.aio.insecure_channel(server.address, options=options[:1])
                    if security is LOOPBACK
                    else grpc.aio.secure_channel(server.address, security.channel(), options=options)  # type: ignore[union-attr]
                )
            held: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(method)()
            ends.append(asyncio.create_task(held.code()))
        yield ends


async def ended(calls: Ends, count: int) -> set[grpc.StatusCode]:
    """Wait until so many calls have ended; return their statuses."""
    done: set[asyncio.Task[grpc.StatusCode]] = set()
    while len(done) < count:
        left = [each for each in calls if each not in done]
        done |= (await soon(asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)))[0]
    return {each.result() for each in done}


async def gets_in(link: Stream, name: str) -> None:
    link.send(name.encode())
    assert await soon(link.read()) == name.encode()


async def is_healthy(channel: grpc.aio.Channel) -> bool:
    reply = await soon(health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()))
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


# Without certificates


@pytest.mark.parametrize("method", [GOSSIP, JOIN, f"{HEALTH}Check", f"{HEALTH}Watch", REFLECTION])
async def test_strangers_give_way_to_each_other_and_not_a_host_that_has_shown_its_ticket(method: str) -> None:
    hall = Hall()
    async with serving(hall) as server, open_channel(server.address) as channel, dial(channel, GOSSIP) as early:
        await gets_in(early, "agent-1")
        async with silent(server, method, 3 * STRANGERS) as strangers:
            assert await ended(strangers, 2 * STRANGERS) == {grpc.StatusCode.UNAVAILABLE}

            # all places are taken: whoever comes now has one all the same
            async with dial(channel, GOSSIP) as late:
                await gets_in(late, "agent-2")
                await gets_in(early, "agent-1")
            assert await call(channel, JOIN, b"room for us") == b"room for us"
            assert await is_healthy(channel.grpc)


async def test_one_connection_has_so_many_calls_and_others_wait_for_their_end() -> None:
    hall = Hall()
    async with serving(hall) as server, open_channel(server.address) as channel, AsyncExitStack() as stack:
        links = [await stack.enter_async_context(dial(channel, GOSSIP)) for _ in range(STRANGERS)]
        for number, link in enumerate(links):
            await gets_in(link, f"agent-{number}")
        one_more = await stack.enter_async_context(dial(channel, GOSSIP))
        waiting = asyncio.create_task(gets_in(one_more, "one-more"))
        async with open_channel(server.address, limits=Limits(message_bytes=1 << 19)) as other:
            assert await call(other, JOIN, b"another connection") == b"another connection"
        assert (hall.open, waiting.done()) == (STRANGERS, False)
        links[0].close()
        await waiting


async def test_a_host_has_so_many_streams_and_no_more_though_each_shows_its_ticket() -> None:
    hall = Hall()
    async with serving(hall) as server, open_channel(server.address) as channel, AsyncExitStack() as stack:
        other = await stack.enter_async_context(dial(channel, GOSSIP))
        await gets_in(other, "agent-2")
        for _ in range(2 * LIMITS.calls):
            await gets_in(await stack.enter_async_context(dial(channel, GOSSIP)), "agent-1")
            assert hall.open <= LIMITS.calls + 2  # one may be about to end
        await gets_in(other, "agent-2")


async def test_beyond_so_many_connections_none_is_accepted_and_soon_there_is_room_again() -> None:
    full = Limits(connections=8, opening_seconds=3.0)
    most = 4 * HOSTS + 16 + full.connections
    async with serving(Hall(), limits=full) as server:
        host, _, port = server.address.rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(most)]
        one_more, writer = await asyncio.open_connection(host, int(port))
        assert await soon(until_closed(one_more)) == b""  # before anything is said to it
        writer.close()
        for reader, _ in silent:
            await soon(until_closed(reader))
        async with open_channel(server.address) as channel:
            assert await call(channel, JOIN, b"room again") == b"room again"
        for _, writer in silent:
            writer.close()


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    said = b""
    with suppress(ConnectionError):
        while data := await reader.read(4096):
            said += data
    return said


# Health and reflection


@pytest.mark.parametrize("method", [f"{HEALTH}Check", f"{HEALTH}Watch", REFLECTION])
@pytest.mark.parametrize("said", [b"\xff", None], ids=["garbage", "nothing"])
async def test_a_probe_that_is_none_is_refused_and_leaves_nothing_in_the_log(method: str, said: bytes | None) -> None:
    async with serving(Hall()) as server, grpc.aio.insecure_channel(server.address) as channel:
        probe: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(method)()
        if said is not None:
            await probe.write(said)
        await probe.done_writing()
        # reflection answers no question with no answer
        expected = grpc.StatusCode.OK if (method, said) == (REFLECTION, None) else grpc.StatusCode.INVALID_ARGUMENT
        assert await soon(probe.code()) is expected
        assert await is_healthy(channel)


async def test_who_watches_the_health_of_a_server_and_takes_no_byte_does_not_keep_it_from_stopping() -> None:
    async with serving(Hall(), limits=Limits(grace_seconds=0.2)) as server:
        host, _, port = server.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(DEAF + request(f"{HEALTH}Watch") + frame(0, 1, bytes(5)))
        async with open_channel(server.address) as channel:
            while not await is_watched(reader):
                await call(channel, JOIN, b"the next look")
        await soon(server.stop())
        writer.close()


@pytest.mark.parametrize("method", [GOSSIP, JOIN, f"{HEALTH}Watch"])
async def test_a_server_that_has_stopped_has_handled_all_its_calls(method: str) -> None:
    """An event loop that is closed while grpc.aio ends some of them prints a traceback for each."""
    for _ in range(10):
        before = asyncio.all_tasks()
        async with serving(Hall()) as server, silent(server, method, 3 * STRANGERS) as strangers:
            await ended(strangers, 2 * STRANGERS)
        assert asyncio.all_tasks() == before


async def is_watched(reader: asyncio.StreamReader) -> bool:
    """Read a frame of the server; return whether it is the headers of its answer, so that a message must follow."""
    header = await soon(reader.readexactly(9))
    await soon(reader.readexactly(int.from_bytes(header[:3], "big")))
    return header[3] == 1


# With certificates


@pytest.mark.parametrize("method", [GOSSIP, JOIN, f"{HEALTH}Watch"])
async def test_who_floods_with_its_own_certificate_gives_way_to_itself_alone(method: str, authority: Path) -> None:
    server_side, hostile, honest = (read(authority, name) for name in (SERVER, "agent-2", "agent-3"))
    async with (
        serving(Hall(), server_side) as server,
        open_channel(server.address, SERVER, security=honest) as channel,
        silent(server, GOSSIP, LIMITS.calls, honest) as quiet,
        silent(server, method, 8 * STRANGERS, hostile) as flood,
    ):
        assert await ended(flood, 8 * STRANGERS - LIMITS.calls) == {grpc.StatusCode.UNAVAILABLE}
        assert not any(each.done() for each in quiet)
        async with dial(channel, GOSSIP) as link:
            await gets_in(link, "agent-3")
        assert await call(channel, JOIN, b"room for us") == b"room for us"
        async with open_channel(server.address, SERVER, security=hostile) as its_own:
            assert await call(its_own, JOIN, b"even for me") == b"even for me"


# What is written about it


async def test_of_very_many_refusals_only_some_are_logged_and_all_are_counted() -> None:
    few = Limits(refusals_logged=3)

    class Judge(Hall):
        async def converse(self, link: Stream) -> None:
            await link.read()
            raise Malformed("not a message")

    with capture_logs() as logged:
        async with serving(Judge(), limits=few) as server, open_channel(server.address) as channel:
            for _ in range(40):
                async with dial(channel, GOSSIP) as link:
                    link.send(b"?")
                    with pytest.raises(Malformed):
                        await soon(link.read())
            assert server.breaches.by_kind == {"Malformed": 40}
    assert [each["number"] for each in logged if each["event"] == "refused"] == [1, 2, 3, 4, 8, 16, 32]
