"""Asking a running game: how it stands, and to end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from slaternet import codec
from slaternet.model import Head, Status
from slaternet.transport import Channel, call, open_channel

T = TypeVar("T")

_ASKER = Head("", 0, 0, "operator")


async def ask_status(channel: Channel) -> Status:
    """Return how the game at the other end stands."""
    reply = await call(channel, "/slaternet.v1.Coordinator/Status", codec.encode_status_request(_ASKER))
    return codec.decode_status_reply(reply)[1]


async def ask_stop(channel: Channel) -> int | None:
    """End the game; return its last round, or None while that is not settled."""
    reply = await call(channel, "/slaternet.v1.Coordinator/Stop", codec.encode_stop_request(_ASKER))
    return codec.decode_stop_reply(reply).round or None


def status(address: str) -> Status:
    """Return how the game of the coordinator at HOST:PORT stands."""
    return asyncio.run(_once(address, ask_status))


def stop(address: str) -> int | None:
    """End the game of the coordinator at HOST:PORT; return its last round, or None while that is not settled."""
    return asyncio.run(_once(address, ask_stop))


async def _once(address: str, ask: Callable[[Channel], Awaitable[T]]) -> T:
    async with open_channel(address) as channel:
        return await ask(channel)
