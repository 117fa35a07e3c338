"""gRPC as the game needs it: raw bytes, typed errors, links that live as long as the game.

Handlers take bytes and give bytes: grpc.aio tells a peer the text of whatever a deserialiser raises, and gives a client
None for a reply it cannot parse. Errors of `slaternet.errors` travel as status, sentence and class name, and are raised
again as what they were at the other end.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NoReturn, Self, TypeVar

import grpc
import grpc.aio
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from slaternet import errors
from slaternet.breaches import Breaches, is_breach
from slaternet.errors import BadSpec, Mismatch, OverBudget, RunFailed, SlaternetError, Unreachable
from slaternet.limits import LIMITS, Limits
from slaternet.link import STREAM_BROKEN, Link

UnaryHandler = Callable[[bytes], Awaitable[bytes]]
StreamHandler = Callable[[Link], Awaitable[None]]
T = TypeVar("T")

_log = structlog.get_logger(__name__)
_ERROR_KEY = "slaternet-error"
_INTERNAL = "internal error"


# Errors as statuses, and back


_TYPED: dict[str, type[SlaternetError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, SlaternetError) and kind not in (SlaternetError, BadSpec, RunFailed)
}
# What gRPC itself says, where no handler of ours has spoken.
_UNTYPED: dict[grpc.StatusCode, tuple[type[SlaternetError], str]] = {
    grpc.StatusCode.UNAVAILABLE: (Unreachable, "start the process there, or correct the address"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (Unreachable, "see whether the process there is overloaded or stuck"),
    grpc.StatusCode.INTERNAL: (SlaternetError, "see its log"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (OverBudget, "send less, or start fewer hosts"),
    grpc.StatusCode.UNIMPLEMENTED: (Mismatch, "give the address of the right service, of this version"),
}


def _clip(sentence: str, limits: Limits = LIMITS) -> str:
    return sentence.encode()[: limits.text_bytes].decode(errors="ignore")


async def _abort(context: "_Context", error: SlaternetError) -> NoReturn:
    """End the call with the status of `error`; what is our own fault is told to our log only."""
    code = grpc.StatusCode[error.status]
    typed = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _TYPED), "")
    details = _clip(str(error))
    if code is grpc.StatusCode.INTERNAL:
        _log.error("a call failed", error=str(error), kind=type(error).__name__)
        details = _INTERNAL
    await context.abort(code, details, ((_ERROR_KEY, typed),) if typed else ())


def _raised(code: grpc.StatusCode, details: str | None, metadata: Any, address: str) -> SlaternetError:  # noqa: ANN401
    """Return the error that a status stands for."""
    for key, value in metadata or ():
        if key == _ERROR_KEY and value in _TYPED:
            return _TYPED[value](details or _INTERNAL)
    if code is grpc.StatusCode.INTERNAL and details != _INTERNAL:
        code = grpc.StatusCode.UNKNOWN  # not a handler's accident but a stream that broke
    kind, remedy = _UNTYPED.get(code, (Unreachable, "see its log"))
    reason = (details or code.name).rsplit(": ", 1)[-1].rstrip(".")
    return kind(f"{address} does not serve us ({reason}); {remedy}")


# The server's side

_Context = grpc.aio.ServicerContext[bytes, bytes]
_Handler = Any  # the type is generic for mypy only


class _ServerLink(Link):
    """The end of a link that a handler reads; it ends with the handler."""

    def __init__(self, context: _Context, limits: Limits) -> None:
        super().__init__(context.peer(), limits, limits.opening_seconds)
        self._context = context
        self._task = asyncio.current_task()

    async def _receive(self) -> bytes | None:
        data: object = await self._context.read()
        return data if isinstance(data, bytes) else None

    async def _transmit(self, data: bytes) -> None:
        await self._context.write(data)

    def _hang_up(self) -> None:
        """Nothing: the status is sent when the handler has let go."""

    def _lost(self) -> bool:
        return self._context.cancelled() and asyncio.current_task() is self._task


class Server:
    """A running gRPC server with one service of the game, health and reflection."""

    def __init__(self, server: grpc.aio.Server, limits: Limits) -> None:
        self.address = ""
        self._server = server
        self._limits = limits
        self._links: set[Link] = set()
        self._health = health.aio.HealthServicer()
        self.breaches = Breaches()

    async def stop(self) -> None:
        """End every link, let calls finish for `LIMITS.grace_seconds`, and close."""
        await self._health.enter_graceful_shutdown()
        for link in tuple(self._links):
            link.end(Unreachable(f"{self.address} is shutting down"))
        await self._server.stop(self._limits.grace_seconds)

    async def _start(self, listen: str, service: str, handlers: dict[str, _Handler]) -> None:
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (service, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        try:
            port = self._server.add_insecure_port(listen)
        except RuntimeError:
            raise BadSpec(f"cannot listen on {listen}; choose a free port and an address of this machine") from None
        self.address = f"{listen.rpartition(':')[0]}:{port}"
        for name in names:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()

    def _unary(self, handler: UnaryHandler) -> _Handler:
        async def answer(data: bytes, context: _Context) -> bytes:
            return await self._guarded(context, handler(data))

        return grpc.unary_unary_rpc_method_handler(answer)

    def _stream(self, handler: StreamHandler) -> _Handler:
        async def converse(_requests: object, context: _Context) -> None:
            link = _ServerLink(context, self._limits)
            await self._guarded(context, self._converse(handler, link), link)

        return grpc.stream_stream_rpc_method_handler(converse)

    async def _converse(self, handler: StreamHandler, link: _ServerLink) -> None:
        self._links.add(link)
        try:
            await handler(link)
            link.raise_if_ended()
        finally:
            self._links.discard(link)
            await link.flush()
            link.close()

    async def _guarded(self, context: _Context, work: Awaitable[T], link: Link | None = None) -> T:
        """Do the work of a handler; nothing it raises reaches the peer but what is meant for it."""
        try:
            return await work
        except SlaternetError as error:
            self._note(error, context.peer(), link)
            if context.cancelled():  # nobody is left to tell
                raise asyncio.CancelledError from None
            await _abort(context, error)
        except Exception:  # the RPC edge: our own accidents are for our log, never for the peer
            _log.exception("a handler failed")
            await context.abort(grpc.StatusCode.INTERNAL, _INTERNAL)

    def _note(self, error: SlaternetError, peer: str, link: Link | None) -> None:
        """Log what is refused, and count it unless it is a stream that we end of our own accord."""
        if not is_breach(error):
            return
        host = link.host if link is not None else ""
        if link is None or not link.was_ended_with(error):
            self.breaches.count(error, host)
        _log.warning("refused", peer=peer, host=host, kind=type(error).__name__, reason=_clip(str(error)))


async def serve(
    listen: str,
    *,
    service: str,
    unary: Mapping[str, UnaryHandler],
    streams: Mapping[str, StreamHandler],
    hosts: int,
    limits: Limits = LIMITS,
) -> Server:
    """Serve `service` ("slaternet.v1.Coordinator") on `listen` (HOST:PORT, port 0 for a free one) to that many hosts.

    A handler that raises a SlaternetError ends its call with that status; anything else is logged here and told to the
    peer as "internal error". A stream ends in order when its handler returns.
    """
    server = Server(
        grpc.aio.server(options=_server_options(hosts, limits), maximum_concurrent_rpcs=4 * hosts + 32), limits
    )
    handlers = {name: server._unary(handler) for name, handler in unary.items()}
    handlers |= {name: server._stream(handler) for name, handler in streams.items()}
    await server._start(listen, service, handlers)
    return server


# The client's side


class Channel:
    """A connection to one server, made when first needed and made again when lost."""

    def __init__(self, address: str, limits: Limits) -> None:
        self.address = address
        self.limits = limits
        self.grpc = grpc.aio.insecure_channel(address, options=_client_options(limits))

    async def close(self) -> None:
        """Close the connection; calls and links on it end."""
        await self.grpc.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def open_channel(address: str, *, limits: Limits = LIMITS) -> Channel:
    """Return a channel to HOST:PORT; nothing is sent yet."""
    return Channel(address, limits)


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
        return await method_of(data, timeout=timeout)
    except grpc.aio.AioRpcError as error:
        raise _raised(error.code(), error.details(), error.trailing_metadata(), channel.address) from None


class _ClientLink(Link):
    """The end of a link that has dialled."""

    def __init__(self, channel: Channel, method: str) -> None:
        super().__init__(channel.address, channel.limits, channel.limits.silence_seconds)
        self._call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.grpc.stream_stream(method)()

    async def _receive(self) -> bytes | None:
        try:
            data: object = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise _raised(error.code(), error.details(), error.trailing_metadata(), self.peer) from None
        if isinstance(data, bytes):
            return data
        code = await self._call.code()
        if code is grpc.StatusCode.OK:
            return None
        raise _raised(code, await self._call.details(), await self._call.trailing_metadata(), self.peer)

    async def _transmit(self, data: bytes) -> None:
        await self._call.write(data)

    def _hang_up(self) -> None:
        self._call.cancel()

    def _lost(self) -> bool:
        return False  # the peer's end comes as a status

    async def leave(self) -> None:
        """Say that nothing follows, and give the server time to take in what was sent."""
        await self.flush()
        if self._call.done():
            return
        with suppress(TimeoutError, *STREAM_BROKEN):
            async with asyncio.timeout(self._limits.grace_seconds):
                await self._call.done_writing()
                while await self._call.read() is not grpc.aio.EOF:
                    pass


@asynccontextmanager
async def dial(channel: Channel, method: str) -> AsyncIterator[Link]:
    """Open a stream ("/slaternet.v1.Agent/Gossip"); leaving the block in order waits until all is delivered.

    Whether anyone answers is learnt from the first read.
    """
    link = _ClientLink(channel, method)
    try:
        yield link
        await link.leave()
    finally:
        link.close()


# Settings of gRPC; why each is there stands in proto/README.md

_Options = list[tuple[str, int]]


def _common_options(limits: Limits) -> _Options:
    return [
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", limits.message_bytes),
        ("grpc.max_metadata_size", limits.metadata_bytes),
        ("grpc.keepalive_time_ms", _milliseconds(limits.silence_seconds)),
        ("grpc.keepalive_timeout_ms", _milliseconds(limits.unary_seconds)),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def _server_options(hosts: int, limits: Limits) -> _Options:
    return [
        *_common_options(limits),
        # below the clients' keepalive time, else they are sent away for pinging too often
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _milliseconds(limits.silence_seconds / 3)),
        ("grpc.server_handshake_timeout_ms", _milliseconds(limits.opening_seconds)),
        ("grpc.max_connection_idle_ms", _milliseconds(limits.farewell_seconds)),
        ("grpc.max_allowed_incoming_connections", 4 * hosts + 16),
        ("grpc.so_reuseport", 0),
    ]


def _client_options(limits: Limits) -> _Options:
    return [
        *_common_options(limits),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.initial_reconnect_backoff_ms", _milliseconds(limits.backoff_seconds / 20)),
        ("grpc.min_reconnect_backoff_ms", _milliseconds(limits.opening_seconds)),
        ("grpc.max_reconnect_backoff_ms", _milliseconds(limits.backoff_seconds)),
    ]


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)
