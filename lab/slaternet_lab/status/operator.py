"""Requests to a running game: its status, whether one of its processes serves, and to end."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from slaternet import codec
from slaternet.errors import Unreachable
from slaternet.model import COORDINATOR, Head, Status
from slaternet.network import certificates as tls
from slaternet.network.certificates import LOOPBACK, Plain, Security
from slaternet.network.client import Channel, call, open_channel

T = TypeVar("T")

_ASKER = Head("", 0, 0, "operator")


@dataclass(frozen=True, slots=True)
class GameStatus:
    """The status of a game, and its id."""

    run: str
    status: Status


def secured(folder: Path | None, *, insecure: bool) -> Security:
    """Return what secures a request: certificates in a folder, or nothing, on this machine alone unless `insecure`."""
    return Plain(anywhere=insecure) if folder is None else tls.read(folder, tls.operator_of(folder))


async def ask_status(channel: Channel, *, again: bool = False) -> GameStatus:
    """Return the game's status; the coordinator stays until one that asks `again` has received the final status."""
    reply = await call(channel, "/slaternet.v1.Coordinator/Status", codec.encode_status_request(_ASKER, again))
    head, status = codec.decode_status_reply(reply)
    return GameStatus(head.run, status)


async def ask_stop(channel: Channel) -> int | None:
    """End the game; return its last round, or None while that is not settled."""
    reply = await call(channel, "/slaternet.v1.Coordinator/Stop", codec.encode_stop_request(_ASKER))
    return codec.decode_stop_reply(reply).round or None


async def ask_health(channel: Channel) -> None:
    """Return if the process at the other end serves; raise Unreachable otherwise."""
    request = health_pb2.HealthCheckRequest().SerializeToString()
    reply = await call(channel, "/grpc.health.v1.Health/Check", request)
    try:
        state = health_pb2.HealthCheckResponse.FromString(reply).status
    except DecodeError:
        raise Unreachable(f"{channel.address} is no process of a game; correct the address") from None
    if state != health_pb2.HealthCheckResponse.SERVING:
        raise Unreachable(f"{channel.address} does not serve any more: it is about to end; its log says why")


def ask(
    question: Callable[[Channel], Awaitable[T]], address: str, security: Security = LOOPBACK, name: str = COORDINATOR
) -> T:
    """Send one of these requests to the process of that name, or role, at HOST:PORT; return the answer."""

    async def once() -> T:
        async with open_channel(address, name, security=security) as channel:
            return await question(channel)

    return asyncio.run(once())
