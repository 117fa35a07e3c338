"""Calls and streams to a server: raw bytes, typed errors."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Self, cast

import grpc
import grpc.aio

from slaternet.limits import LIMITS, Limits
from slaternet.network import certificates as tls
from slaternet.network.addresses import check_address, check_plaintext
from slaternet.network.cancellation import cancellable
from slaternet.network.certificates import LOOPBACK, Plain, Security
from slaternet.network.grpc_errors import error_of
from slaternet.network.grpc_options import client_options
from slaternet.network.stream import STREAM_BROKEN, Stream
from slaternet.network.traffic import Traffic


class Channel:
    """A connection to one server, opened when first used and reopened when lost."""

    def __init__(self, address: str, name: str, security: Security, limits: Limits) -> None:
        self.address = address
        self.limits = limits
        options = client_options(limits)
        check_address(address, what="the address")
        match security:
            case Plain(anywhere):
                check_plaintext(address, insecure=anywhere, what="the address")
                self.grpc = grpc.aio.insecure_channel(address, options=options)
            case credentials:
                options += [("grpc.ssl_target_name_override", tls.identity_of(name))]
                self.grpc = grpc.aio.secure_channel(address, credentials.channel(), options=options)

    async def close(self) -> None:
        """Close the connection; calls and streams on it end."""
        await self.grpc.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def open_channel(address: str, name: str = "", *, security: Security = LOOPBACK, limits: Limits = LIMITS) -> Channel:
    """Return a channel to the process of that name at HOST:PORT; nothing is sent yet.

    With credentials the process must have a certificate of that name; without, it must be on this machine.
    """
    return Channel(address, name, security, limits)


async def call(
    channel: Channel,
    method: str,
    data: bytes,
    *,
    timeout: float = LIMITS.unary_seconds,  # noqa: ASYNC109 - a deadline that travels with the call
) -> bytes:
    """Call a unary method ("/slaternet.v1.Coordinator/Join") and return the reply, or raise the typed error."""
    try:
        method_of: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.grpc.unary_unary(method)
        with cancellable():
            return await method_of(data, timeout=timeout)
    except grpc.aio.AioRpcError as error:
        raise error_of(error.code(), error.details(), error.trailing_metadata(), channel.address) from None


class _ClientStream(Stream):
    """The client's end of a stream."""

    def __init__(self, channel: Channel, method: str, traffic: Traffic) -> None:
        super().__init__(channel.address, channel.limits, channel.limits.silence_seconds, traffic)
        self._call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.grpc.stream_stream(method)()
        self._receive = self._call.read
        self._transmit = cast("Callable[[bytes], Awaitable[None]]", self._call.write)

    async def _check_end(self) -> None:
        code = await self._call.code()
        if code is not grpc.StatusCode.OK:
            raise error_of(code, await self._call.details(), await self._call.trailing_metadata(), self.peer)

    def _hang_up(self) -> None:
        self._call.cancel()

    def _lost(self) -> bool:
        return False  # the peer's end comes as a status

    async def leave(self) -> None:
        """End our side, and wait until the server has ended its own."""
        await self.flush()
        if self._call.done():
            return
        with suppress(TimeoutError, *STREAM_BROKEN), cancellable():
            async with asyncio.timeout(self._limits.grace_seconds):
                await self._call.done_writing()
                while await self._call.read() is not grpc.aio.EOF:
                    pass


@asynccontextmanager
async def dial(channel: Channel, method: str, traffic: Traffic | None = None) -> AsyncIterator[Stream]:
    """Open a stream ("/slaternet.v1.Agent/Gossip"); a block that ends without an error waits for delivery.

    Whether the server answers is known after the first read. `traffic` counts the messages of the stream.
    """
    stream = _ClientStream(channel, method, traffic or Traffic())
    try:
        yield stream
        await stream.leave()
    finally:
        stream.close()
