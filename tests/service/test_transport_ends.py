"""Links in time, and the ends of processes and servers."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from tests.support.wires import BRISK, GOSSIP, echo, serving, soon

from slaternet.errors import SlaternetError, Unreachable
from slaternet.limits import LIMITS, Limits
from slaternet.network.client import dial, open_channel
from slaternet.network.stream import Stream

pytestmark = pytest.mark.usefixtures("nothing_is_left_behind")


# Time


async def test_a_stream_that_says_nothing_at_first_is_ended() -> None:
    async with serving(limits=BRISK) as (_, channel), dial(channel, GOSSIP) as link:
        with pytest.raises(Unreachable, match=r"silent for 0\.3 seconds"):
            await soon(link.read())


async def test_silence_ends_a_link_at_both_ends() -> None:
    ends: asyncio.Queue[SlaternetError] = asyncio.Queue()

    async def wait(link: Stream) -> None:
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

    async def beat(link: Stream) -> None:
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
from slaternet.network import client, server as serving
from slaternet.service import main as process

async def echo(link):
    while (data := await link.read()) is not None:
        link.send(data)

async def serve(stopping):
    server = await serving.serve(
        "127.0.0.1:0", service="slaternet.v1.Agent", unary={}, streams={"Gossip": echo}, hosts=2
    )
    print(server.address, flush=True)
    await stopping.wait()
    await server.stop()
    return 7

async def dial(stopping):
    async with client.open_channel(sys.argv[1]) as channel:
        async with client.dial(channel, "/slaternet.v1.Agent/Gossip") as link:
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

    async def wait(link: Stream) -> None:
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

    async def sulk(_: Stream) -> None:
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
