"""A server and a client of raw bytes on loopback."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from slaternet.limits import LIMITS, Limits
from slaternet.model import Head
from slaternet.network.client import Channel, open_channel
from slaternet.network.server import Server, serve
from slaternet.network.stream import Stream

AGENT = "slaternet.v1.Agent"
GOSSIP = f"/{AGENT}/Gossip"
JOIN = f"/{AGENT}/Join"
BRISK = Limits(heartbeat_seconds=0.1, silence_seconds=0.5, opening_seconds=0.3, grace_seconds=0.5)
HEAD = Head("run-1", 1, 1, "host-1")

T = TypeVar("T")
Converse = Callable[[Stream], Awaitable[None]]
Answer = Callable[[bytes, object], Awaitable[bytes]]


async def echo(link: Stream) -> None:
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
