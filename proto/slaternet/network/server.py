"""A gRPC server as the game needs it: raw bytes, typed errors, streams that stay open as long as the game."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from slaternet.codec.wire import clip
from slaternet.errors import BadSpec, SlaternetError, Unknown, Unreachable
from slaternet.limits import LIMITS, Limits
from slaternet.network import certificates as tls
from slaternet.network.addresses import check_plaintext
from slaternet.network.certificates import LOOPBACK, Caller, Plain, Security
from slaternet.network.grpc_errors import INTERNAL, abort
from slaternet.network.grpc_options import server_options
from slaternet.network.probe_limit import Probes
from slaternet.network.stream import Stream
from slaternet.network.traffic import Meter, Traffic
from slaternet.refusals import RefusalCounter, is_refusal

UnaryHandler = Callable[[bytes, Caller | None], Awaitable[bytes]]
"""Takes the request and, where connections are secured, whose certificate came with it."""

StreamHandler = Callable[[Stream], Awaitable[None]]

_log = structlog.get_logger(__name__)

# The server's side

_Context = grpc.aio.ServicerContext[bytes, bytes]

_Handler = Any  # the type is generic for mypy only


class _ServerStream(Stream):
    """The end of a link that a handler reads; it ends with the handler."""

    def __init__(self, context: _Context, limits: Limits, traffic: Traffic) -> None:
        super().__init__(context.peer(), limits, limits.opening_seconds, traffic)
        self._context = context
        self._task = asyncio.current_task()
        self._receive, self._transmit = context.read, context.write

    async def _check_end(self) -> None:
        """Nothing: a client ends its stream in order, or is gone."""

    def _hang_up(self) -> None:
        """Nothing: the status is sent when the handler has let go."""

    def _lost(self) -> bool:
        return self._context.cancelled() and asyncio.current_task() is self._task


class Server:
    """A running gRPC server with one service of the game, health and reflection."""

    def __init__(self, server: grpc.aio.Server, security: Security, limits: Limits, breaches: RefusalCounter) -> None:
        self.address = ""
        self._server = server
        self._security = security
        self._limits = limits
        self._links: dict[Stream, None] = {}  # in the order in which they came
        self._health = health.aio.HealthServicer()
        self.breaches = breaches

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
            match self._security:
                case Plain(anywhere):
                    check_plaintext(listen, insecure=anywhere, what="--listen")
                    port = self._server.add_insecure_port(listen)
                case credentials:
                    port = self._server.add_secure_port(listen, credentials.server())
        except RuntimeError:
            raise BadSpec(f"cannot listen on {listen}; choose a free port and an address of this machine") from None
        self.address = f"{listen.rpartition(':')[0]}:{port}"
        for name in names:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()

    def _unary(self, handler: UnaryHandler) -> _Handler:
        async def answer(_requests: object, context: _Context) -> bytes:
            async with self._guarding(context):
                return await self._answer(handler, context)
            raise AssertionError("a call that failed was aborted")

        # the same on the wire as a unary handler, whose request grpc.aio would wait for as long as the caller likes
        return grpc.stream_unary_rpc_method_handler(answer)

    async def _answer(self, handler: UnaryHandler, context: _Context) -> bytes:
        try:
            async with asyncio.timeout(self._limits.opening_seconds):
                data: object = await context.read()
        except TimeoutError:
            raise Unreachable(f"{context.peer()} has not sent its request") from None
        return await handler(data if isinstance(data, bytes) else b"", self._caller(context))

    def _caller(self, context: _Context) -> Caller | None:
        """Return whose certificate the caller has; None where connections are not secured."""
        if isinstance(self._security, Plain):
            return None
        caller = tls.caller_of(context.auth_context())
        if caller is None:
            raise Unknown("a caller must show its certificate")
        return caller

    def _stream(self, handler: StreamHandler, traffic: Traffic) -> _Handler:
        async def converse(_requests: object, context: _Context) -> None:
            link = _ServerStream(context, self._limits, traffic)
            self._links[link] = None
            async with self._guarding(context, link):
                try:
                    link.caller = self._caller(context)
                    await handler(link)
                    link.raise_if_ended()
                finally:
                    self._links.pop(link, None)
                    await link.flush()
                    link.close()

        return grpc.stream_stream_rpc_method_handler(converse)

    @asynccontextmanager
    async def _guarding(self, context: _Context, link: Stream | None = None) -> AsyncIterator[None]:
        """Watch over a handler; nothing it raises reaches the peer but what is meant for it."""
        try:
            yield
        except SlaternetError as error:
            self._note(error, context.peer(), link)
            if context.cancelled():  # nobody is left to tell
                raise asyncio.CancelledError from None
            await abort(context, error)
        except Exception:  # the RPC edge: our own accidents are for our log, never for the peer
            _log.exception("a handler failed")
            await context.abort(grpc.StatusCode.INTERNAL, INTERNAL)

    def _note(self, error: SlaternetError, peer: str, link: Stream | None) -> None:
        """Log what is refused, and count it unless it is a stream that we end of our own accord."""
        if not is_refusal(error):
            return
        host = link.host if link is not None else ""
        if link is None or not link.was_ended_with(error):
            self.breaches.count(error, host)
        _log.warning("refused", peer=peer, caller=host, kind=type(error).__name__, reason=clip(str(error)))


async def serve(
    listen: str,
    *,
    service: str,
    unary: Mapping[str, UnaryHandler],
    streams: Mapping[str, StreamHandler],
    hosts: int,
    security: Security = LOOPBACK,
    meter: Meter | None = None,
    breaches: RefusalCounter | None = None,
    limits: Limits = LIMITS,
) -> Server:
    """Serve `service` ("slaternet.v1.Coordinator") on `listen` (HOST:PORT, port 0 for a free one) to that many hosts.

    A handler that raises a SlaternetError ends its call with that status; anything else is logged here and told to the
    peer as "internal error". A stream ends in order when its handler returns. Without credentials nothing is encrypted,
    and nothing is served off this machine unless the user allows it. `meter` counts the streams, `breaches` what is
    refused.
    """
    meter = meter or Meter()
    probes = Probes(service, limits.probes)
    made = grpc.aio.server(None, None, [probes], server_options(hosts, limits), 4 * hosts + 32)
    server = Server(made, security, limits, breaches or RefusalCounter())
    handlers = {name: server._unary(handler) for name, handler in unary.items()}
    handlers |= {name: server._stream(handler, meter.of(name)) for name, handler in streams.items()}
    await server._start(listen, service, handlers)
    return server
