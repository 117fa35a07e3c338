"""Asking a running game: how it stands, whether a process of it serves, and to end."""

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
    """How a game stands, and which one it is."""

    run: str
    status: Status


def secured(folder: Path | None, *, insecure: bool) -> Security:
    """Return what secures a question: certificates in a folder, or nothing, on this machine alone unless `insecure`."""
    return Plain(anywhere=insecure) if folder is None else tls.read(folder, tls.operator_of(folder))


async def ask_standing(channel: Channel, *, again: bool = False) -> GameStatus:
    """Return how the game at the other end stands; who asks `again` and again is told how it ends."""
    reply = await call(channel, "/slaternet.v1.Coordinator/Status", codec.encode_status_request(_ASKER, again))
    head, status = codec.decode_status_reply(reply)
    return GameStatus(head.run, status)


async def ask_status(channel: Channel) -> Status:
    """Return how the game at the other end stands."""
    return (await ask_standing(channel)).status


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


def standing(address: str, security: Security = LOOPBACK) -> GameStatus:
    """Return how the game of the coordinator at HOST:PORT stands."""
    return asyncio.run(_once(address, COORDINATOR, security, ask_standing))


def stop(address: str, security: Security = LOOPBACK) -> int | None:
    """End the game of the coordinator at HOST:PORT; return its last round, or None while that is not settled."""
    return asyncio.run(_once(address, COORDINATOR, security, ask_stop))


def health(address: str, name: str = COORDINATOR, security: Security = LOOPBACK) -> None:
    """Return if the process of that name, or role, at HOST:PORT serves; raise Unreachable otherwise."""
    asyncio.run(_once(address, name, security, ask_health))


async def _once(address: str, name: str, security: Security, ask: Callable[[Channel], Awaitable[T]]) -> T:
    async with open_channel(address, name, security=security) as channel:
        return await ask(channel)
