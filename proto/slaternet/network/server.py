"""The gRPC server of a process: raw bytes, typed errors, streams that stay open as long as the game."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import grpc.aio
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from slaternet.errors import BadSpec, SlaternetError, Unknown, Unreachable
from slaternet.limits import LIMITS, Limits
from slaternet.network import certificates as tls
from slaternet.network.addresses import check_plaintext
from slaternet.network.admission import Admission, Probes
from slaternet.network.certificates import LOOPBACK, Caller, Plain, Security
from slaternet.network.grpc_errors import INTERNAL, abort
from slaternet.network.grpc_options import calls_at_once, server_options
from slaternet.network.stream import Stream
from slaternet.network.traffic import Meter, Traffic
from slaternet.refusals import RefusalCounter, is_refusal
from slaternet.texts import cleaned

UnaryHandler = Callable[[bytes, Caller | None], Awaitable[bytes]]
"""Takes the request and, with TLS, the caller that the certificate names."""

StreamHandler = Callable[[Stream], Awaitable[None]]

_log = structlog.get_logger(__name__)

_Context = grpc.aio.ServicerContext[bytes, bytes]

_Handler = Any  # the type is generic for mypy only


class _ServerStream(Stream):
    """The server's end of a stream; it ends with its handler."""

    def __init__(self, context: _Context, limits: Limits, traffic: Traffic) -> None:
        super().__init__(context.peer(), limits, limits.opening_seconds, traffic)
        self._context = context
        self._task = asyncio.current_task()
        self._receive, self._transmit = context.read, context.write
        self.transfer: Callable[[str], None] = lambda host: None

    def set_host(self, host: str) -> None:
        super().set_host(host)
        self.transfer(host)

    async def _check_end(self) -> None:
        """Do nothing: a client ends its stream in order, or has gone."""

    def _hang_up(self) -> None:
        """Do nothing: gRPC sends the status when the handler returns."""

    def _lost(self) -> bool:
        return self._context.cancelled() and asyncio.current_task() is self._task


class _Calls(grpc.aio.ServerInterceptor):
    """The calls that are being handled: grpc.aio stops a server without waiting for the last steps of their handlers.

    An event loop that is closed before those steps prints a traceback of grpc.aio for each.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def intercept_service(
        self, continuation: Callable[[_Handler], Awaitable[_Handler]], handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler:
        """Note the task that handles a call, whatever its method."""
        if task := asyncio.current_task():
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await continuation(handler_call_details)

    async def end(self, seconds: float) -> None:
        """Wait until all are handled, though not longer than that."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        await asyncio.sleep(0)  # a task of grpc.aio waits for each of these


class Server:
    """A running gRPC server with one service of the game, health and reflection."""

    def __init__(
        self,
        server: grpc.aio.Server,
        calls: _Calls,
        admission: Admission,
        security: Security,
        limits: Limits,
        breaches: RefusalCounter,
    ) -> None:
        self.address = ""
        self._server = server
        self._calls = calls
        self._admission = admission
        self._security = security
        self._limits = limits
        self._streams: dict[Stream, None] = {}  # in the order of their opening
        self._health = health.aio.HealthServicer()
        self.breaches = breaches

    async def stop(self) -> None:
        """End every stream, wait up to `LIMITS.grace_seconds` for calls, and close."""
        for stream in tuple(self._streams):
            stream.end(Unreachable(f"{self.address} is shutting down"))
        with suppress(TimeoutError):  # all who watch are told, and one of them may not take a byte
            async with asyncio.timeout(self._limits.grace_seconds):
                await self._health.enter_graceful_shutdown()
        await self._server.stop(self._limits.grace_seconds)
        await self._calls.end(self._limits.grace_seconds)

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

        # the same on the wire as a unary handler, for whose request grpc.aio would wait without a time limit
        return grpc.stream_unary_rpc_method_handler(answer)

    async def _answer(self, handler: UnaryHandler, context: _Context) -> bytes:
        caller = self._caller(context)
        async with self._admission.place(caller):
            try:
                async with asyncio.timeout(self._limits.opening_seconds):
                    data: object = await context.read()
            except TimeoutError:
                raise Unreachable(f"{context.peer()} has not sent its request") from None
            return await handler(data if isinstance(data, bytes) else b"", caller)
        raise AssertionError("a call without a place has failed")

    def _caller(self, context: _Context) -> Caller | None:
        """Return the caller that the certificate names; None without TLS."""
        if isinstance(self._security, Plain):
            return None
        caller = tls.caller_of(context.auth_context())
        if caller is None:
            raise Unknown("a caller must show its certificate")
        return caller

    def _stream(self, handler: StreamHandler, traffic: Traffic) -> _Handler:
        async def converse(_requests: object, context: _Context) -> None:
            stream = _ServerStream(context, self._limits, traffic)
            self._streams[stream] = None
            async with self._guarding(context, stream):
                try:
                    stream.caller = self._caller(context)
                    async with self._admission.place(stream.caller) as stream.transfer:
                        try:
                            await handler(stream)
                            stream.raise_if_ended()
                        finally:
                            await stream.flush()
                finally:
                    self._streams.pop(stream, None)
                    stream.close()

        return grpc.stream_stream_rpc_method_handler(converse)

    @asynccontextmanager
    async def _guarding(self, context: _Context, stream: Stream | None = None) -> AsyncIterator[None]:
        """Run a handler in the block; the peer receives typed errors, and nothing of any other exception."""
        try:
            yield
        except SlaternetError as error:
            self._record(error, context.peer(), stream)
            if context.cancelled():  # the peer has gone
                raise asyncio.CancelledError from None
            await abort(context, error)
        except Exception:  # the RPC edge: our own faults go to our log, never to the peer
            _log.exception("a handler failed")
            await context.abort(grpc.StatusCode.INTERNAL, INTERNAL)

    def _record(self, error: SlaternetError, peer: str, stream: Stream | None) -> None:
        """Log a refusal, and count it unless we have ended the stream ourselves; of very many log only some."""
        if not is_refusal(error):
            return
        host, kind = stream.host if stream is not None else "", type(error).__name__
        ours = stream is not None and stream.was_ended_with(error)
        number = 1 if ours else self.breaches.count(error, host)
        if number <= self._limits.refusals_logged or number.bit_count() == 1:
            _log.warning("refused", peer=peer, caller=host, kind=kind, number=number, reason=cleaned(str(error)))


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

    A handler that raises a SlaternetError ends its call with that status; any other exception is logged here and sent
    to the peer as "internal error". A stream ends in order when its handler returns. Without credentials nothing is
    encrypted, and nothing is served off this machine unless the user allows it. `meter` counts the traffic of streams,
    `breaches` the refusals.
    """
    meter = meter or Meter()
    admission = Admission(calls_at_once(hosts), limits.calls)
    calls = _Calls()
    made = grpc.aio.server(None, None, [calls, Probes(service, admission)], server_options(hosts, limits))
    server = Server(made, calls, admission, security, limits, breaches or RefusalCounter())
    handlers = {name: server._unary(handler) for name, handler in unary.items()}
    handlers |= {name: server._stream(handler, meter.of(name)) for name, handler in streams.items()}
    await server._start(listen, service, handlers)
    return server
