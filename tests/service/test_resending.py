"""A peer asks for frames again once per stream: one that asks without end and reads nothing is held to that."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.services import (
    DEADLINE,
    GOSSIP,
    LOOPBACK,
    Game,
    Insider,
    converse,
    gathering,
    playing,
    small_spec,
)

from slaternet.limits import LIMITS
from slaternet.model import Refusal, ResendFrom
from slaternet.network.client import open_channel
from slaternet.service.config import ProcessConfig
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService
from slaternet_lab.status.operator import ask_status

REQUESTS = 20_000
ALLOWED = 50 << 20
"""Bytes by which the honest hosts, which are in this process, may grow."""
SPEC = small_spec("run.dimension=100", rounds=None)
GREEDY = """
import asyncio, sys
import grpc.aio

async def main(address, method, opening, wish, streams, wishes):
    kept, channels = [], []  # open, and never read
    for number in range(int(streams)):
        if number % 20 == 0:  # a server lets one connection have so many streams only
            channels.append(grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]))
        kept.append(channels[-1].stream_stream(method)())
        try:
            await kept[-1].write(bytes.fromhex(opening))
            for _ in range(int(wishes)):
                await kept[-1].write(bytes.fromhex(wish))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the stream was ended
    print("sent", flush=True)
    await asyncio.to_thread(sys.stdin.read)

asyncio.run(main(*sys.argv[1:]))
"""
"""Another process, so that what it does not read is not in the memory of this one."""


def peak() -> int:
    """Return the most memory that this process has held since `forget_peak`, in bytes."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) << 10


def forget_peak() -> None:
    """Begin to look for the peak anew."""
    Path("/proc/self/clear_refs").write_text("5")


def words(insider: Insider) -> tuple[bytes, bytes]:
    """Return an opening and a wish, both for all frames that there are."""
    opening = replace(insider.opening(), round=1)
    return GOSSIP.encode(insider.head(), opening), GOSSIP.encode(insider.head(1), ResendFrom(1))


@pytest.mark.parametrize("streams", [1, pytest.param(2000, marks=pytest.mark.slow)])
async def test_a_peer_that_wants_everything_again_and_reads_nothing_fills_no_memory(
    streams: int, tmp_path: Path
) -> None:
    def host(name: str, stop: asyncio.Event) -> "asyncio.Task[int]":
        config = ProcessConfig(name, gathered.address, LOOPBACK, state=tmp_path / "states")
        return asyncio.create_task(HostService(config).run(stop))

    async with gathering(SPEC, hosts=2) as gathered:
        game = Game(gathered.address, tmp_path / "game", gathered.tasks, "")
        ending, stays = asyncio.Event(), asyncio.Event()
        leaves = host("agent-1", ending)
        await game.until(lambda status: len(status.hosts) == 1)  # it has the smaller seats, and dials
        gathered.tasks.append(host("agent-2", stays))
        config = ProcessConfig("adversary", gathered.address, LOOPBACK, state=tmp_path / "states")
        gathered.start(AdversaryService(config, game.folder))
        # before the first checkpoint every frame is kept
        await game.until(lambda status: status.round > LIMITS.checkpoint_every // 2)
        async with open_channel(gathered.address) as channel:
            game.run = (await ask_status(channel)).run
        insider = await game.insider("agent-1", "agent-2")
        ending.set()  # from here on another process is that host
        assert await leaves == 130

        forget_peak()
        before = peak()
        opening, wish = (each.hex() for each in words(insider))
        attack = (insider.address, GOSSIP.method, opening, wish, str(streams), str(REQUESTS // streams - 1))
        greedy = await asyncio.create_subprocess_exec(
            sys.executable, "-c", GREEDY, *attack, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert greedy.stdin is not None
        assert greedy.stdout is not None
        async with asyncio.timeout(2 * DEADLINE):
            assert await greedy.stdout.readline() == b"sent\n"
        gathered.tasks.append(host("agent-1", stays))  # and back
        await game.goes_on()
        grown = peak() - before
        greedy.stdin.close()
        await greedy.wait()
        await game.ends_as_its_simulation(tmp_path / "simulation")

    assert grown < ALLOWED


async def test_a_second_wish_on_a_stream_is_malformed(tmp_path: Path) -> None:
    async with playing(SPEC, tmp_path / "game", hosts=3) as game:
        insider = await GOSSIP.find(game)
        opening, wish = words(insider)  # the opening of the host that dials holds its wish

        verdict = await converse(insider.address, GOSSIP.method, [opening, wish])

        breach = Refusal("Malformed", insider.holder, 1, insider.server)
        await game.until(lambda status: breach in status.breaches)
        await game.ends_as_its_simulation(tmp_path / "simulation")

    assert verdict.error == "Malformed"
