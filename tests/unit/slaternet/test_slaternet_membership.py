"""What a process has to say survives its control stream: a coordinator of a few lines hears it on the next one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from slaternet import codec
from slaternet.errors import PluginFailed, RunFailed
from slaternet.link import Link
from slaternet.membership import Applicant, Membership
from slaternet.model import (
    Acknowledged,
    ControlDown,
    ControlUp,
    Failed,
    Finished,
    Head,
    Heartbeat,
    Opening,
    Over,
    Progress,
    Role,
    Welcome,
)
from slaternet.transport import serve

HEAD = Head("run-1", 1, 0, "coordinator")
SPEC = """
[run]
agents = 1
dimension = 1
[set]
kind = "ball"
radius = 1.0
[algorithm]
name = "zhang2024"
schedule = "table2"
[graph]
name = "ring"
[adversary]
plugin = "linear-regression"
"""

Control = Callable[[Link], Awaitable[None]]


async def hear(link: Link) -> ControlUp:
    """Return what the member says next, heartbeats aside."""
    while (data := await link.read()) is not None:
        _, body = codec.decode_control_up(data)
        if not isinstance(body, Heartbeat):
            return body
    raise AssertionError("the member has left")


async def hear_all(link: Link, count: int) -> list[ControlUp]:
    return [await hear(link) for _ in range(count)]


async def hear_opening(link: Link) -> None:
    assert isinstance(await hear(link), Opening)


def tell(link: Link, body: ControlDown) -> None:
    for part in codec.encode_control_down(HEAD, body):
        link.send(part)


async def see_off(link: Link, failure: str = "") -> None:
    """End the game, as the coordinator does."""
    tell(link, Over(failure))
    assert await hear(link) == Acknowledged()


@asynccontextmanager
async def member(control: Control) -> AsyncIterator[Membership]:
    """Join a game whose coordinator serves control streams this way."""

    async def admit(_: bytes) -> bytes:
        return codec.encode_welcome(HEAD, Welcome(1, bytes(32), SPEC))

    service = "slaternet.v1.Coordinator"
    server = await serve("127.0.0.1:0", service=service, unary={"Join": admit}, streams={"Control": control}, hosts=1)
    try:
        async with asyncio.timeout(30):
            yield await Membership.join(server.address, Applicant("agent-1", Role.HOST, "127.0.0.1:1"))
    finally:
        await server.stop()


async def test_progress_reported_before_the_stream_opens_is_said_when_it_does() -> None:
    heard: list[ControlUp] = []

    async def control(link: Link) -> None:
        await hear_opening(link)
        heard.append(await hear(link))
        await see_off(link)

    async with member(control) as membership:
        membership.report(Progress(7))  # lost: there is no stream
        membership.report(Progress(8))  # held back: too soon after the other
        await membership.attend()

    assert heard == [Progress(8)]


async def test_progress_held_back_or_lost_with_a_stream_is_said_on_the_next() -> None:
    opened = asyncio.Event()
    heard: list[ControlUp] = []

    async def control(link: Link) -> None:
        await hear_opening(link)
        if not opened.is_set():
            opened.set()
            assert await hear(link) == Progress(1)
            return  # whatever else was said on this stream is lost
        heard.append(await hear(link))
        await see_off(link)

    async with member(control) as membership:
        attending = asyncio.create_task(membership.attend())
        await opened.wait()
        membership.report(Progress(1))
        membership.report(Progress(2, 0.5, 0.25))
        await attending

    assert heard == [Progress(2, 0.5, 0.25)]


@pytest.mark.parametrize("cuts", [0, 2])
async def test_the_end_of_the_work_is_said_on_every_stream_until_the_game_is_over(cuts: int) -> None:
    streams: list[list[ControlUp]] = []

    async def control(link: Link) -> None:
        await hear_opening(link)
        streams.append(await hear_all(link, 2))
        if len(streams) > cuts:
            await see_off(link)

    async with member(control) as membership:
        membership.finish(Progress(40))
        await membership.attend()

    assert streams == [[Progress(40), Finished()]] * (cuts + 1)


@pytest.mark.parametrize("cuts", [0, 2])
async def test_a_failure_is_said_on_every_stream_and_raised_when_the_game_is_over(cuts: int) -> None:
    streams: list[list[ControlUp]] = []

    async def control(link: Link) -> None:
        await hear_opening(link)
        streams.append(await hear_all(link, 2))
        if len(streams) > cuts:
            await see_off(link, "agent-1: see its log")

    async with member(control) as membership:
        membership.report(Progress(3))
        membership.fail(PluginFailed("a secret of the plugin"), told="see its log")
        membership.fail(RunFailed("what came of it"))  # the first failure is the cause
        with pytest.raises(PluginFailed, match="a secret of the plugin"):
            await membership.attend()

    assert streams == [[Progress(3), Failed("see its log")]] * (cuts + 1)


async def test_the_failure_of_another_is_raised_as_that_of_the_game() -> None:
    async def control(link: Link) -> None:
        await hear_opening(link)
        await see_off(link, "agent-2: the disk is full")

    async with member(control) as membership:
        with pytest.raises(RunFailed, match="the game failed: agent-2: the disk is full"):
            await membership.attend()
