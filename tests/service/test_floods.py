"""Whoever floods a server of a game holds up others for a moment at most: the game goes on, and ends as ever."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.support.services import (
    CONTROL,
    DEADLINE,
    GOSSIP,
    LOOPBACK,
    REVEAL,
    Door,
    Game,
    Verdict,
    converse,
    playing,
    small_spec,
)

from slaternet.errors import Unreachable
from slaternet.limits import LIMITS
from slaternet.network import server as transport
from slaternet.network.client import call, open_channel
from slaternet.network.server import Server, serve
from slaternet.network.stream import Stream

ENDLESS = small_spec(rounds=None)
HOSTS = 3
CONNECTIONS, CALLS = 4 * HOSTS + 16, 4 * HOSTS + 32
"""What a server for so many hosts takes at once."""
HASTY = replace(LIMITS, opening_seconds=0.5, farewell_seconds=0.5)
JOIN = "/slaternet.v1.Coordinator/Join"
DOORS = pytest.mark.parametrize("door", [CONTROL, REVEAL, GOSSIP], ids=["coordinator", "adversary", "host"])

Flood = Callable[[str, str], Awaitable[None]]
"""Floods the method of the server at an address, until the server has got rid of it all."""


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make servers small, and quick to lose patience."""

    async def small(listen: str, **settings: Any) -> Server:
        return await transport.serve(listen, **{**settings, "hosts": HOSTS, "limits": HASTY})

    for module in ("slaternet_coordinator.shell.service", "slaternet.service.join"):
        monkeypatch.setattr(f"{module}.serve", small)


async def soon(work: Awaitable[Any]) -> Any:
    async with asyncio.timeout(DEADLINE):
        return await work


# Floods of connections

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # and settings, all of them absent


@asynccontextmanager
async def connections(address: str, count: int, first: bytes) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Open that many connections and say something on each."""
    host, _, port = address.rpartition(":")
    opened = [await asyncio.open_connection(host, int(port)) for _ in range(count)]
    try:
        for _, writer in opened:
            writer.write(first)
        yield [reader for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.close()


async def closed(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(4096):
            pass


async def silent_connections(address: str, method: str) -> None:
    async with connections(address, 2 * CONNECTIONS, b"") as readers:
        await soon(asyncio.gather(*map(closed, readers)))


async def idle_connections(address: str, method: str) -> None:
    async with connections(address, 2 * CONNECTIONS, PREFACE) as readers:
        await soon(asyncio.gather(*map(closed, readers)))


def frame(kind: int, flags: int, data: bytes) -> bytes:
    """Return a frame of HTTP/2, on its first stream."""
    return len(data).to_bytes(3, "big") + bytes([kind, flags]) + (1).to_bytes(4, "big") + data


def request(method: str) -> bytes:
    """Return the headers of a call, none of them compressed."""
    path, kind = method.encode(), b"application/grpc"
    fields = b"\x83\x86\x04" + bytes([len(path)]) + path + b"\x01\x01x\x00\x02te\x08trailers"
    return frame(1, 4, fields + b"\x0f\x10" + bytes([len(kind)]) + kind)


async def trickling_messages(address: str, method: str) -> None:
    """Send the bytes of a first message so slowly that it would never end."""
    host, _, port = address.rpartition(":")
    prefix = b"\x00" + (1 << 19).to_bytes(4, "big")
    for _ in range(3):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(PREFACE + request(method) + frame(0, 0, prefix))
        ending = asyncio.create_task(end_of_stream(reader))
        async with asyncio.timeout(DEADLINE):
            while not (await asyncio.wait((ending,), timeout=0.02))[0]:
                writer.write(frame(0, 0, b"x"))
        writer.close()
        assert ending.result() in (1, 3)  # trailers or a reset, and not the end of the connection


async def end_of_stream(reader: asyncio.StreamReader) -> int:
    """Read until the server ends the first stream of a connection; return the kind of frame it says so with."""
    while True:
        header = await reader.readexactly(9)
        kind, flags, stream = header[3], header[4], int.from_bytes(header[5:9], "big")
        await reader.readexactly(int.from_bytes(header[:3], "big"))
        if stream == 1 and (kind == 3 or (kind == 1 and flags & 1)):
            return kind


# Floods of calls


async def wordless_streams(address: str, method: str) -> None:
    """Open more streams than there is room for and say nothing on them; it is the same for calls without a request."""
    async with asyncio.TaskGroup() as tasks:
        held = [tasks.create_task(converse(address, method, [])) for _ in range(2 * CALLS)]
    verdicts = [each.result() for each in held]
    assert any(each.error == "Unreachable" for each in verdicts)
    assert [each for each in verdicts if not sent_away(each)] == []


def sent_away(verdict: Verdict) -> bool:
    """Say whether a server has lost patience, or had no room from the first; grpc.aio may lose the reason of that."""
    no_room = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    return verdict.error == "Unreachable" or (not verdict.error and verdict.code in no_room)


async def fat_headers(address: str, method: str) -> None:
    fat = (("fat", "x" * LIMITS.metadata_bytes),)
    codes: set[grpc.StatusCode] = set()
    async with grpc.aio.insecure_channel(address) as channel:
        for _ in range(20):
            stream: grpc.aio.StreamStreamCall[bytes, bytes]
            stream = channel.stream_stream(method)(metadata=fat, wait_for_ready=True)
            codes.add(await soon(stream.code()))
    # a connection that carries nothing else is idle, and may be closed meanwhile
    assert codes - {grpc.StatusCode.UNAVAILABLE} == {grpc.StatusCode.RESOURCE_EXHAUSTED}


FLOODS: list[Flood] = [silent_connections, idle_connections, trickling_messages, wordless_streams, fat_headers]


async def withstands(game: Game, address: str, method: str, floods: list[Flood]) -> None:
    for flood in floods:
        await game.goes_on()
        await flood(address, method)
    await game.goes_on()


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
@DOORS
async def test_a_game_goes_on_while_one_of_its_servers_is_flooded(door: Door, tmp_path: Path) -> None:
    async with playing(ENDLESS, tmp_path / "game", hosts=HOSTS) as game:
        await withstands(game, (await door.find(game)).address, door.method, FLOODS)
        await game.ends_as_its_simulation(tmp_path / "simulation")


@pytest.mark.usefixtures("hasty")
async def test_calls_without_a_request_end_and_the_game_goes_on(tmp_path: Path) -> None:
    async with playing(ENDLESS, tmp_path / "game", hosts=HOSTS) as game:
        await withstands(game, game.address, JOIN, [wordless_streams])
        await game.ends_as_its_simulation(tmp_path / "simulation")


@pytest.mark.parametrize("method", ["Gossip", "Join"])
async def test_who_finds_no_room_may_try_later(method: str) -> None:
    """A host that must dial again while its server is flooded would otherwise take itself out of the game."""
    full = asyncio.Event()
    links: list[Stream] = []

    async def hold(link: Stream) -> None:
        links.append(link)
        if len(links) == CALLS:
            full.set()
        await link.read()

    async def answer(data: bytes, caller: object) -> bytes:
        return data

    service = "slaternet.v1.Agent"
    server = await serve(LOOPBACK, service=service, unary={"Join": answer}, streams={"Gossip": hold}, hosts=HOSTS)
    async with open_channel(server.address) as channel:
        gossip: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.grpc.stream_stream(f"/{service}/Gossip")
        held = [gossip() for _ in range(CALLS)]
        await soon(full.wait())
        with pytest.raises(Unreachable):
            await call(channel, f"/{service}/{method}", b"")
        for each in held:
            each.cancel()
        await server.stop()


@pytest.mark.parametrize(
    "method",
    ["health.v1.Health/Check", "health.v1.Health/Watch", "reflection.v1alpha.ServerReflection/ServerReflectionInfo"],
)
async def test_calls_for_health_and_reflection_leave_room_for_the_game(method: str) -> None:
    async def answer(data: bytes, caller: object) -> bytes:
        return data

    service = "slaternet.v1.Coordinator"
    server = await serve(LOOPBACK, service=service, unary={"Join": answer}, streams={}, hosts=HOSTS)
    async with open_channel(server.address) as channel:
        probe: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.grpc.stream_stream(f"/grpc.{method}")
        held = [probe() for _ in range(2 * CALLS)]
        ended = {asyncio.create_task(each.code()) for each in held}
        too_many = 2 * CALLS - LIMITS.probes
        done: set[asyncio.Task[grpc.StatusCode]] = set()
        while len(done) < too_many:  # those for which there is a place stay
            now, ended = await soon(asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED))
            done |= now
        assert {each.result() for each in done} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert await call(channel, JOIN, b"room for us") == b"room for us"

        for each in held:
            each.cancel()
        await asyncio.gather(*ended)
        await soon(until_healthy(channel.grpc))
        await server.stop()


async def until_healthy(channel: grpc.aio.Channel) -> None:
    """Ask for health until those who were there before have left."""
    health = health_pb2_grpc.HealthStub(channel)
    while True:
        with suppress(grpc.aio.AioRpcError):
            checked = await health.Check(health_pb2.HealthCheckRequest())
            assert checked.status == health_pb2.HealthCheckResponse.SERVING
            return
