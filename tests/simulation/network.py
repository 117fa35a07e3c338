"""gRPC on a virtual network: stands in for `grpc.aio.server` and `grpc.aio.insecure_channel` under slaternet.transport.

What it promises is what gRPC over TCP promises. A stream is ordered and loses nothing while it lasts, but it may break at
any message: what was under way is lost from some message on, and each end learns of it in its own time, or only by the
silence. A link that is clogged or cut, one way or both, holds everything back until it heals. A unary call may be lost
on its way there, where nothing has happened, or on its way back, where everything has.

So the loss of a message is the loss of all that follow it on its stream, and messages come again and out of order
because streams are opened again. Beyond that, where the engines promise that a message that comes twice changes nothing,
messages are doubled on a stream that lasts: at once, or, of frames, questions and answers, after later ones. Frames may
also overtake each other. The first message of either direction, which opens the stream, is spared that.
"""

import asyncio
import contextvars
import functools
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import grpc
import grpc.aio
from simulation.loop import Life, Loop, current

_UNAVAILABLE, _LATE = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED
_REORDERED = ("Gossip", "Reveal")
_LOOK = 0.5
"""Seconds between two looks whether a link that was held back has healed."""
_IN_FLIGHT = 32
"""Messages that a stream takes before whoever writes must wait for the other end."""


class Weather(Protocol):
    """What befalls messages."""

    def delay(self) -> float:
        """Return how long a message takes."""

    def held(self, sender: str, receiver: str) -> float:
        """Return until when nothing gets through from one process to another."""

    def lost(self) -> bool:
        """Whether a unary message is lost."""

    def breaks(self) -> bool:
        """Whether a stream breaks at this message."""

    def silent(self) -> bool:
        """Whether an end of a broken stream does not learn of it."""

    def doubled(self) -> bool:
        """Whether a message comes twice."""

    def overtaken(self) -> bool:
        """Whether a message comes after the next one."""

    def point(self, where: str) -> None:
        """Reach a point at which the process may die."""


class Status(NamedTuple):
    """How a call ended."""

    code: grpc.StatusCode
    details: str
    metadata: tuple[tuple[str, str], ...] = ()


_OK = Status(grpc.StatusCode.OK, "")
_BROKEN = Status(_UNAVAILABLE, "Stream removed")
_CANCELLED = Status(grpc.StatusCode.CANCELLED, "Locally cancelled")


class Aborted(Exception):  # noqa: N818 - as grpc.aio calls what its handlers raise
    """A handler has ended its call with a status."""


def _error(status: Status) -> grpc.aio.AioRpcError:
    metadata = grpc.aio.Metadata(*status.metadata)
    return grpc.aio.AioRpcError(status.code, grpc.aio.Metadata(), metadata, details=status.details)


class Network:
    """Every server of the world, by address, and the streams between them."""

    def __init__(self, loop: Loop, weather: Weather) -> None:
        self.loop = loop
        self.weather = weather
        self._servers: dict[str, "_Server"] = {}
        self._streams: list[_Stream] = []
        self._ports = 20_000

    def server(self, **_: object) -> "_Server":
        """Stand in for grpc.aio.server."""
        return _Server(self)

    def channel(self, address: str, **_: object) -> "_Channel":
        """Stand in for grpc.aio.insecure_channel."""
        return _Channel(self, address)

    def bind(self, server: "_Server", listen: str) -> int:
        """Return the port that a server listens on; RuntimeError where it is taken."""
        host, _, port = listen.rpartition(":")
        number = int(port)
        if not number:
            self._ports += 1
            number = self._ports
        address = f"{host}:{number}"
        older = self._servers.get(address)
        if older is not None and older.life.alive and older.listening:
            raise RuntimeError("the port is taken")
        self._servers[address] = server
        return number

    def at(self, address: str) -> "_Server | None":
        """Return who listens at an address."""
        server = self._servers.get(address)
        return server if server is not None and server.listening and server.life.alive else None

    def post(self, sender: str, receiver: str, arrive: Callable[[], None], life: Life | None) -> None:
        """Have something happen to a life, or to nobody's, when what was sent now arrives."""
        context = contextvars.Context() if life is None else life.context

        def look() -> None:
            held, now = self.weather.held(sender, receiver), self.loop.time()
            if held > now:
                self.loop.call_at(min(held, now + _LOOK), look, context=context)
            else:
                arrive()

        self.loop.call_later(self.weather.delay(), look, context=context)

    def name_of(self, address: str) -> str:
        """Return whose address it is; empty where nobody listens there."""
        server = self.at(address)
        return server.life.name if server is not None else ""

    def enter(self, stream: "_Stream") -> None:
        """Keep a stream, to break it when one of its ends dies."""
        self._streams = [each for each in self._streams if not each.over]
        self._streams.append(stream)

    def bereave(self, life: Life) -> None:
        """Break the streams of a process that has died."""
        for stream in self._streams:
            if life in (stream.client.life, stream.server.life):
                stream.snap()

    @property
    def streams(self) -> list["_Stream"]:
        """Those that last."""
        return [each for each in self._streams if not each.over]


@dataclass(eq=False)
class _End:
    """One end of a stream: what has arrived there, and how it has ended."""

    life: Life
    inbox: deque[bytes] = field(default_factory=deque)
    ended: Status | None = None
    all_read: bool = False  # the other end has said that nothing follows
    reader: "asyncio.Future[None] | None" = None
    on_break: Callable[[], None] = lambda: None
    sent: int = 0
    flying: deque[tuple[float, Callable[[], None]]] = field(default_factory=deque)  # from here to the other end
    held: bytes | None = None  # a message that the next one overtakes
    writer: "asyncio.Future[None] | None" = None

    def wake(self) -> None:
        if self.reader is not None and not self.reader.done():
            self.reader.set_result(None)

    def release(self) -> None:
        if self.writer is not None and not self.writer.done():
            self.writer.set_result(None)


class _Stream:
    """Two ends, and the messages between them."""

    def __init__(self, network: Network, method: str, client: Life, server: Life) -> None:
        self.network = network
        self.method = method.rpartition("/")[2]
        self.client = _End(client)
        self.server = _End(server)
        self.broken = False
        network.enter(self)

    @property
    def over(self) -> bool:
        return self.broken or (self.client.ended is not None and self.server.ended is not None)

    def other(self, end: _End) -> _End:
        return self.server if end is self.client else self.client

    async def write(self, end: _End, data: bytes) -> None:
        """Send a message from an end; wait while too much is under way."""
        weather = self.network.weather
        weather.point(f"send {self.method}")
        while len(end.flying) >= _IN_FLIGHT and not self.broken and end.ended is None:
            end.writer = self.network.loop.create_future()
            await end.writer
        if end.ended is not None:
            raise _error(end.ended)
        if self.broken:  # and this end does not know it: what is sent is lost, and may be answered with a reset
            if not weather.silent():
                self._end(end)
            return
        end.sent += 1
        first = end.sent == 1
        if weather.breaks():
            self.snap()
        elif self.method == "Gossip" and not first and end.held is None and weather.overtaken():
            end.held = data
        else:
            self._transmit(end, data, spared=first)
        weather.point(f"sent {self.method}")

    def _transmit(self, end: _End, data: bytes, *, spared: bool = False) -> None:
        """Have a message arrive, and perhaps once more; whatever it has overtaken follows."""
        other, weather = self.other(end), self.network.weather
        again = not spared and weather.doubled()

        def arrive() -> None:
            if other.ended is None:
                other.inbox.append(data)
                other.wake()

        def arrive_and_return() -> None:
            arrive()
            self.network.post(end.life.name, other.life.name, arrive, other.life)

        late = again and self.method in _REORDERED
        self._fly(end, arrive_and_return if late else arrive)
        if again and not late:
            self._fly(end, arrive)
        held, end.held = end.held, None
        if held is not None:
            self._transmit(end, held)

    def _fly(self, end: _End, arrive: Callable[[], None]) -> None:
        """Have something happen at the other end, after all that was sent before."""
        arrival = self.network.loop.time() + self.network.weather.delay()
        if end.flying:
            arrival = max(arrival, end.flying[-1][0])
        end.flying.append((arrival, arrive))
        if len(end.flying) == 1:
            self._await(end, arrival)

    def _await(self, end: _End, when: float) -> None:
        self.network.loop.call_at(when, self._land, end, context=self.other(end).life.context)

    def _land(self, end: _End) -> None:
        loop = self.network.loop
        now, held = loop.time(), self.network.weather.held(end.life.name, self.other(end).life.name)
        if held > now:
            self._await(end, min(held, now + _LOOK))
            return
        while end.flying and end.flying[0][0] <= now:
            end.flying.popleft()[1]()
        end.release()
        if end.flying:
            self._await(end, end.flying[0][0])

    async def read(self, end: _End) -> bytes | None:
        """Return the next message at an end; None where the stream has ended in order."""
        while not end.inbox and end.ended is None and not end.all_read:
            end.reader = self.network.loop.create_future()
            try:
                await end.reader
            finally:
                end.reader = None
        if end.inbox:
            return end.inbox.popleft()
        if end.ended is None or end.ended.code is grpc.StatusCode.OK:
            return None
        raise _error(end.ended)

    def half_close(self) -> None:
        """Let the server know that the client sends no more."""

        def tell() -> None:
            self.server.all_read = True
            self.server.wake()

        self._fly(self.client, tell)

    def finish(self, end: _End, status: Status) -> None:
        """End the stream at one end; the other hears of it after all that was sent before."""
        if end.ended is not None:
            return
        end.ended = status
        end.wake()
        end.release()
        held, end.held = end.held, None
        if held is not None:
            self._transmit(end, held)
        if not self.broken:
            self._fly(end, lambda: self._end(self.other(end), status))

    def snap(self) -> None:
        """Break: what is under way arrives up to when its receiver learns of it, if that receiver does."""
        if self.broken:
            return
        self.broken = True
        for end in (self.client, self.server):
            end.release()
            if end.life.alive and not self.network.weather.silent():
                self.network.post(self.other(end).life.name, end.life.name, functools.partial(self._end, end), end.life)

    def _end(self, end: _End, status: Status = _BROKEN) -> None:
        if end.ended is None:
            end.ended = status
            end.wake()
            end.release()
            end.on_break()


class _Context:
    """Stands in for grpc.aio.ServicerContext."""

    def __init__(self, caller: str, stream: _Stream | None = None, request: bytes = b"") -> None:
        self._caller = caller
        self._stream = stream
        self._request = request
        self.status = _OK
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


class _Details(NamedTuple):
    method: str
    invocation_metadata: tuple[()] = ()


class _Server:
    """Stands in for grpc.aio.Server."""

    def __init__(self, network: Network) -> None:
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
        found = (each.service(_Details(method)) for each in self._handlers)
        return next((each for each in found if each is not None), None)

    def answer(self, method: str, data: bytes, caller: str, reply: Callable[[Status, bytes], None]) -> None:
        """Serve a unary call."""
        context = _Context(caller, request=data)

        async def work() -> None:
            answer = b""
            with suppress(Aborted):
                answer = await self.handler(method).stream_unary(None, context)
            reply(context.status, answer)

        self._begin(work())

    def accept(self, method: str, stream: _Stream) -> None:
        """Serve a stream; the handler is cancelled when the caller has gone, as gRPC does."""
        context = _Context(stream.client.life.name, stream)

        async def work() -> None:
            try:
                await self.handler(method).stream_stream(None, context)
            except Aborted:
                pass
            except asyncio.CancelledError:
                context.status = _CANCELLED
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


class _Channel:
    """Stands in for grpc.aio.Channel."""

    def __init__(self, network: Network, address: str) -> None:
        self._network = network
        self._address = address
        self._calls: list[_Call] = []

    def unary_unary(self, method: str) -> Callable[..., Awaitable[bytes]]:
        async def call(data: bytes, *, timeout: float) -> bytes:  # noqa: ASYNC109 - as gRPC has it
            return await _unary(self._network, self._address, method, data, timeout)

        return call

    def stream_stream(self, method: str) -> Callable[[], "_Call"]:
        def call() -> _Call:
            made = _Call(self._network, self._address, method)
            self._calls.append(made)
            return made

        return call

    async def close(self) -> None:
        for call in self._calls:
            call.cancel()


async def _unary(network: Network, address: str, method: str, data: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
    life, loop, weather = current(), network.loop, network.weather
    assert life is not None
    answered: asyncio.Future[tuple[Status, bytes]] = loop.create_future()
    deadline = loop.time() + timeout

    def hear(status: Status, reply: bytes) -> None:
        if not answered.done():
            answered.set_result((status, reply))

    def reply(status: Status, answer: bytes) -> None:
        sender = current()
        assert sender is not None
        weather.point(f"reply {method}")
        if not weather.lost():
            network.post(sender.name, life.name, lambda: hear(status, answer), life)

    def deliver() -> None:
        server = network.at(address)
        if server is None:
            network.post("", life.name, lambda: hear(Status(_UNAVAILABLE, "connection refused"), b""), life)
        elif loop.time() <= deadline:  # whoever gave up has taken the call back
            loop.call_soon(server.answer, method, data, life.name, reply, context=server.life.context)

    weather.point(f"call {method}")
    if not weather.lost():
        network.post(life.name, network.name_of(address), deliver, None)
    try:
        async with asyncio.timeout(timeout):
            status, answer = await answered
    except TimeoutError:
        raise _error(Status(_LATE, "Deadline Exceeded")) from None
    if status.code is not grpc.StatusCode.OK:
        raise _error(status)
    return answer


class _Call:
    """Stands in for grpc.aio.StreamStreamCall: a connection is made first, which takes its time or fails."""

    def __init__(self, network: Network, address: str, method: str) -> None:
        life = current()
        assert life is not None
        self._network = network
        self._address = address
        self._method = method
        self._life = life
        self._waiting: deque[bytes] = deque()
        self._stream: _Stream | None = None
        self._status: Status | None = None
        self._made: asyncio.Future[None] = network.loop.create_future()
        there = network.name_of(address)
        network.post(life.name, there, lambda: network.post(there, life.name, self._connect, life), None)

    def _connect(self) -> None:
        if self._status is not None:
            return
        server = self._network.at(self._address)
        if server is None:
            self._fail(Status(_UNAVAILABLE, "connection refused"))
            return
        self._stream = _Stream(self._network, self._method, self._life, server.life)
        self._network.loop.call_soon(server.accept, self._method, self._stream, context=server.life.context)
        if not self._made.done():
            self._made.set_result(None)

    def _fail(self, status: Status) -> None:
        if self._status is None:
            self._status = status
        if not self._made.done():
            self._made.set_result(None)

    async def _there(self) -> _Stream:
        if self._stream is None and self._status is None:
            await asyncio.shield(self._made)
        if self._stream is None:
            raise _error(self._status or _BROKEN)
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
            self._stream.finish(self._stream.client, _CANCELLED)
        else:
            self._fail(_CANCELLED)

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
        return ended or _BROKEN
