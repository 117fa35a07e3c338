"""Whoever floods a server of a game holds up others for a moment at most: the game goes on, and ends as ever."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.support.flood import Target, flooded
from tests.support.http2 import PREFACE, frame, request
from tests.support.services import (
    CONTROL,
    DEADLINE,
    GOSSIP,
    REVEAL,
    Door,
    Game,
    Insider,
    Verdict,
    converse,
    digest,
    playing,
    reference,
    small_spec,
)

from slaternet.errors import Unreachable
from slaternet.limits import LIMITS
from slaternet.network import server as transport
from slaternet.network.certificates import identity_of, read
from slaternet.network.server import Server
from slaternet_lab.tools.certificates import make

ENDLESS = small_spec(rounds=None)
HOSTS = 3
CONNECTIONS, CALLS = 4 * HOSTS + 16, 4 * HOSTS + 32
"""What a server for so many hosts takes at once, where it has no room for strangers' connections."""
HASTY = replace(LIMITS, opening_seconds=0.5, connections=0)
SLATERNET = str(Path(sys.executable).with_name("slaternet"))
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


# Floods that do not end

STRANGER = "agent-4"
"""Who has a certificate, but no ticket."""


@pytest.fixture(params=["plain", "tls"])
def certificates(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    if request.param == "plain":
        return None
    make(tmp_path / "certificates", ("agent-1", "agent-2", "agent-3", STRANGER), days=1)
    return tmp_path / "certificates"


@pytest.mark.slow
async def test_hosts_and_the_operator_find_room_though_coordinator_and_adversary_are_flooded(
    certificates: Path | None, tmp_path: Path
) -> None:
    """The flood does not end before everything is answered, and the game over."""
    async with playing(ENDLESS, tmp_path / "game", hosts=HOSTS, tls=certificates) as game:
        doors = [(door, await door.find(game)) for door in (CONTROL, REVEAL)]
        targets = [Target(insider.server, insider.address, door.method) for door, insider in doors]
        with (
            flooded("connections", 10**9, 800, targets, tmp_path) as connections,
            flooded("streams", 10**9, 700, targets, tmp_path, certificates, STRANGER) as streams,
        ):
            await game.until(lambda status: connections.full and streams.full)
            for door, insider in doors:
                opening = door.encode(insider.head(), insider.opening())
                verdict = await converse(insider.address, door.method, [opening], own_connection(insider, certificates))
                assert verdict.error == "Replaced"  # it got in, and so did the host whose stream it took
            assert "playing" in await operator("status", game.address, certificates)
            await operator("stop", game.address, certificates)
            run = await game.over()
            assert connections.flows
            assert streams.flows
    assert digest(run) == reference(run.spec, tmp_path / "simulation")


def own_connection(insider: Insider, certificates: Path | None) -> grpc.aio.Channel:
    """Return a channel of a host that shares its connection with nobody in this process."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.ssl_target_name_override", identity_of(insider.server))]
    if certificates is None:
        return grpc.aio.insecure_channel(insider.address, options=options[:1])
    return grpc.aio.secure_channel(insider.address, read(certificates, insider.holder).channel(), options=options)


async def operator(command: str, address: str, certificates: Path | None) -> str:
    """Run a command of the operator until it is answered: a busy machine may take longer than one attempt does."""
    secured = [] if certificates is None else ["--tls", str(certificates)]
    async with asyncio.timeout(DEADLINE):
        while True:
            process = await asyncio.create_subprocess_exec(
                SLATERNET, command, address, *secured, "--json", stdout=asyncio.subprocess.PIPE
            )
            said, _ = await process.communicate()
            if process.returncode == 0:
                return said.decode()
            assert process.returncode == Unreachable.exit_code
