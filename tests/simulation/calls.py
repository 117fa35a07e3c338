"""What gRPC's Python interface consists of, as far as slaternet.network.server uses it: servers, channels, calls."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import grpc.aio
from tests.simulation.air import BROKEN, CANCELLED, LATE, OK, UNAVAILABLE, Aborted, Status, failure
from tests.simulation.loop import current
from tests.simulation.streams import Stream

if TYPE_CHECKING:
    from tests.simulation.network import Network


class Context:
    """Stands in for grpc.aio.ServicerContext."""

    def __init__(self, caller: str, stream: Stream | None = None, request: bytes = b"") -> None:
        self._caller = caller
        self._stream = stream
        self._request = request
        self.status = OK
        self.gone = False

    def peer(self) -> str:
        return self._caller

    def cancelled(self) -> bool:
        return self.gone

    async def read(self) -> object:
        if self._stream is None:
            return self._request
        try:
            data = await self._stream.read(self._stream.server)
        except grpc.aio.AioRpcError:
            data = None
        return grpc.aio.EOF if data is None else data

    async def write(self, data: bytes) -> None:
        assert self._stream is not None
        await self._stream.write(self._stream.server, data)

    async def abort(self, code: grpc.StatusCode, details: str, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        self.status = Status(code, details, metadata)
        raise Aborted


class Details(NamedTuple):
    method: str
    invocation_metadata: tuple[()] = ()


class Server:
    """Stands in for grpc.aio.Server."""

    def __init__(self, network: "Network") -> None:
        life = current()
        assert life is not None, "a server belongs to a process"
        self.life = life
        self.listening = False
        self._network = network
        self._handlers: list[Any] = []
        self._calls: list[asyncio.Task[None]] = []

    def add_generic_rpc_handlers(self, handlers: tuple[Any, ...]) -> None:
        self._handlers += handlers

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Nothing: the generic handlers are the same."""

    def add_insecure_port(self, listen: str) -> int:
        return self._network.bind(self, listen)

    async def start(self) -> None:
        self.listening = True

    async def stop(self, grace: float | None) -> None:
        self.listening = False
        left = [task for task in self._calls if not task.done()]
        if left:
            await asyncio.wait(left, timeout=grace)
        for task in left:
            task.cancel()

    def handler(self, method: str) -> Any:
        """Return the handler of a method; None where there is none."""
        found = (each.service(Details(method)) for each in self._handlers)
        return next((each for each in found if each is not None), None)

    def answer(self, method: str, data: bytes, caller: str, reply: Callable[[Status, bytes], None]) -> None:
        """Serve a unary call."""
        context = Context(caller, request=data)

        async def work() -> None:
            answer = b""
            with suppress(Aborted):
                answer = await self.handler(method).stream_unary(None, context)
            reply(context.status, answer)

        self._begin(work())

    def accept(self, method: str, stream: Stream) -> None:
        """Serve a stream; the handler is cancelled when the caller has gone, as gRPC does."""
        context = Context(stream.client.life.name, stream)

        async def work() -> None:
            try:
                await self.handler(method).stream_stream(None, context)
            except Aborted:
                pass
            except asyncio.CancelledError:
                context.status = CANCELLED
            stream.finish(stream.server, context.status)

        task = self._begin(work())

        def leave() -> None:
            ended = stream.server.ended
            if ended is not None and ended.code is not grpc.StatusCode.OK and not task.done():
                context.gone = True
                task.cancel()

        stream.server.on_break = leave

    def _begin(self, work: Any) -> "asyncio.Task[None]":
        task = self._network.loop.spawn(self.life, work)
        self._calls = [each for each in self._calls if not each.done()]
        self._calls.append(task)
        task.add_done_callback(self._network.loop.notice)
        return task


class Channel:
    """Stands in for grpc.aio.Channel."""

    def __init__(self, network: "Network", address: str) -> None:
        self._network = network
        self._address = address
        self._calls: list[Call] = []

    def unary_unary(self, method: str) -> Callable[..., Awaitable[bytes]]:
        async def call(data: bytes, *, timeout: float) -> bytes:  # noqa: ASYNC109 - as gRPC has it
            return await _unary(self._network, self._address, method, data, timeout)

        return call

    def stream_stream(self, method: str) -> Callable[[], "Call"]:
        def call() -> Call:
            made = Call(self._network, self._address, method)
            self._calls.append(made)
            return made

        return call

    async def close(self) -> None:
        for call in self._calls:
            call.cancel()


class _Unary:
    """One unary call: lost on its way there, or on its way back, or answered."""

    def __init__(self, network: "Network", address: str, method: str, data: bytes, deadline: float) -> None:
        life = current()
        assert life is not None
        self._network = network
        self._address = address
        self._method = method
        self._data = data
        self._deadline = deadline
        self._life = life
        self.answered: asyncio.Future[tuple[Status, bytes]] = network.loop.create_future()
        network.weather.point(f"call {method}")
        if not network.weather.lost():
            network.post(life.name, network.name_of(address), self._deliver, None)

    def _deliver(self) -> None:
        server, loop = self._network.at(self._address), self._network.loop
        if server is None:
            refused = Status(UNAVAILABLE, "connection refused")
            self._network.post("", self._life.name, lambda: self._hear(refused, b""), self._life)
        elif loop.time() <= self._deadline:  # whoever gave up has taken the call back
            work = server.answer, self._method, self._data, self._life.name, self._reply
            loop.call_soon(*work, context=server.life.context)

    def _reply(self, status: Status, answer: bytes) -> None:
        sender, weather = current(), self._network.weather
        assert sender is not None
        weather.point(f"reply {self._method}")
        if not weather.lost():
            self._network.post(sender.name, self._life.name, lambda: self._hear(status, answer), self._life)

    def _hear(self, status: Status, answer: bytes) -> None:
        if not self.answered.done():
            self.answered.set_result((status, answer))


async def _unary(network: "Network", address: str, method: str, data: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
    call = _Unary(network, address, method, data, network.loop.time() + timeout)
    try:
        async with asyncio.timeout(timeout):
            status, answer = await call.answered
    except TimeoutError:
        raise failure(Status(LATE, "Deadline Exceeded")) from None
    if status.code is not grpc.StatusCode.OK:
        raise failure(status)
    return answer


class Call:
    """Stands in for grpc.aio.StreamStreamCall: a connection is made first, which takes its time or fails."""

    def __init__(self, network: "Network", address: str, method: str) -> None:
        life = current()
        assert life is not None
        self._network = network
        self._address = address
        self._method = method
        self._life = life
        self._stream: Stream | None = None
        self._status: Status | None = None
        self._made: asyncio.Future[None] = network.loop.create_future()
        there = network.name_of(address)
        network.post(life.name, there, lambda: network.post(there, life.name, self._connect, life), None)

    def _connect(self) -> None:
        if self._status is not None:
            return
        server = self._network.at(self._address)
        if server is None:
            self._fail(Status(UNAVAILABLE, "connection refused"))
            return
        self._stream = Stream(self._network, self._method, self._life, server.life)
        self._network.enter(self._stream)
        self._network.loop.call_soon(server.accept, self._method, self._stream, context=server.life.context)
        if not self._made.done():
            self._made.set_result(None)

    def _fail(self, status: Status) -> None:
        if self._status is None:
            self._status = status
        if not self._made.done():
            self._made.set_result(None)

    async def _there(self) -> Stream:
        if self._stream is None and self._status is None:
            await asyncio.shield(self._made)
        if self._stream is None:
            raise failure(self._status or BROKEN)
        return self._stream

    async def read(self) -> object:
        stream = await self._there()
        data = await stream.read(stream.client)
        return grpc.aio.EOF if data is None else data

    async def write(self, data: bytes) -> None:
        stream = await self._there()
        await stream.write(stream.client, data)

    async def done_writing(self) -> None:
        stream = await self._there()
        stream.half_close()

    def cancel(self) -> None:
        if self._stream is not None:
            self._stream.finish(self._stream.client, CANCELLED)
        else:
            self._fail(CANCELLED)

    def done(self) -> bool:
        return self._status is not None or (self._stream is not None and self._stream.client.ended is not None)

    async def code(self) -> grpc.StatusCode:
        return self._ended.code

    async def details(self) -> str:
        return self._ended.details

    async def trailing_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._ended.metadata

    @property
    def _ended(self) -> Status:
        ended = self._stream.client.ended if self._stream is not None else self._status
        return ended or BROKEN
