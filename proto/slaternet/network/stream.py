"""One end of a long-lived bidirectional stream."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import grpc.aio

from slaternet.errors import OverBudget, Replaced, SlaternetError, Superseded, Unreachable
from slaternet.limits import Limits
from slaternet.network.cancellation import cancellable
from slaternet.network.certificates import Caller
from slaternet.network.grpc_errors import error_of
from slaternet.network.traffic import PREFIX, Traffic

STREAM_BROKEN = (grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError)
"""What grpc.aio raises from a read or write on a stream that has ended."""


class Stream(ABC):
    """Messages both ways, in order, until either side ends the stream.

    One timer per stream, not per message, sends heartbeats when nothing else is sent and ends it after a long silence.
    """

    def __init__(self, peer: str, limits: Limits, patience: float, traffic: Traffic) -> None:
        self.peer = peer
        self.caller: Caller | None = None  # by its certificate, where connections are secured
        self.host = ""  # set once the caller has shown its ticket
        self._limits = limits
        self._traffic = traffic
        self._loop = asyncio.get_running_loop()
        self._outbox: deque[bytes] = deque()
        self._backlog: deque[Callable[[], list[bytes]]] = deque()
        self._most = limits.parts + 2 * limits.window  # one payload in parts, and a window of rounds each way
        self._writer: asyncio.Task[None] | None = None
        self._waiter: asyncio.Task[object] | None = None  # in `read` or `drained`
        self._error: SlaternetError | None = None
        self._interrupted = False
        self._heartbeat: Callable[[], bytes] | None = None
        self._sent_at = self._loop.time()
        self._reading_since: float | None = None
        self._patience = patience  # until the first message, then the limit of silence
        self._timer = self._loop.call_later(min(patience, limits.heartbeat_seconds), self._tick)

    def send(self, data: bytes) -> None:
        """Queue a message; never waits. It does nothing on a stream that has ended: `read` raises why."""
        if self._error is not None:
            return
        if len(self._outbox) >= self._most:
            self.end(OverBudget(f"{self.peer} does not take the messages meant for it"))
            return
        self._outbox.append(data)
        self._traffic.sent_messages += 1
        self._traffic.sent_bytes += len(data) + PREFIX
        self._sent_at = self._loop.time()
        if self._writer is None:
            self._writer = self._loop.create_task(self._write_out())

    def send_later(self, make: Callable[[], list[bytes]]) -> None:
        """Send what `make` returns after everything queued: so of many messages only one is encoded at a time."""
        if self._error is None:
            self._backlog.append(make)
            if self._writer is None:
                self._writer = self._loop.create_task(self._write_out())

    async def read(self) -> bytes | None:
        """Return the next message; None where the peer has ended the stream in order.

        Otherwise raise why it ended: the error that the peer sent, the one given to `end`, or Unreachable.
        """
        if self._error is not None:
            raise self._error
        self._reading_since = self._loop.time()
        try:
            with self._interruptible():
                data = await self._receive()
                if not isinstance(data, bytes):
                    await self._check_end()
                    return None
        except grpc.aio.AioRpcError as error:
            raise error_of(error.code(), error.details(), error.trailing_metadata(), self.peer) from None
        finally:
            self._reading_since = None
        self._patience = self._limits.silence_seconds
        self._traffic.received_messages += 1
        self._traffic.received_bytes += len(data) + PREFIX
        return data

    @property
    def crowded(self) -> bool:
        """Whether more messages are queued than a peer leaves unread that takes its answers."""
        return len(self._outbox) > self._limits.burst

    async def drained(self) -> None:
        """Wait until gRPC has taken every queued message; raise why the stream has ended, where it ends before."""
        while self._writer is not None and self._error is None:
            with self._interruptible():
                await asyncio.wait((self._writer,))
        self.raise_if_ended()

    def set_host(self, host: str) -> None:
        """Record which host the caller is: its ticket says so."""
        self.host = host

    def keep_alive(self, heartbeat: Callable[[], bytes]) -> None:
        """Send what `heartbeat` returns when nothing else has been sent for a while."""
        self._heartbeat = heartbeat

    def end(self, error: SlaternetError) -> None:
        """End the stream: the current or next read raises `error`, and the peer receives it.

        What was to be sent later is dropped; on a stream that has a successor, everything is: the peer has left it.
        """
        if self._error is not None:
            return
        self._error = error
        self._timer.cancel()
        self._backlog.clear()
        if isinstance(error, (Replaced, Superseded)):
            self._outbox.clear()
        if self._waiter is not None:
            self._interrupted = self._waiter.cancel()
        self._hang_up()

    _receive: Callable[[], Awaitable[object]]
    """gRPC's own read: waits for the next message, and returns something else at the end of the stream."""
    _transmit: Callable[[bytes], Awaitable[None]]
    """gRPC's own write: hands it one message and waits until it is ready for another."""

    @abstractmethod
    async def _check_end(self) -> None:
        """Raise the error that has ended the stream, unless it ended in order."""

    @abstractmethod
    def _hang_up(self) -> None:
        """End the call at once, where that does not need the handler to return."""

    @abstractmethod
    def _lost(self) -> bool:
        """Return whether gRPC has cancelled the reading task because the peer is gone."""

    async def flush(self) -> None:
        """Wait until gRPC has taken every queued message, or cannot take more."""
        if self._writer is not None:
            await asyncio.wait((self._writer,), timeout=self._limits.grace_seconds)

    def raise_if_ended(self) -> None:
        """Raise the error given to `end`, if any."""
        if self._error is not None:
            raise self._error

    def was_ended_with(self, error: SlaternetError) -> bool:
        """Return whether `error` was given to `end`, rather than caused by the peer's message."""
        return self._error is error

    def close(self) -> None:
        """End the stream, and drop what is queued."""
        self.end(Unreachable(f"the link to {self.peer} is closed"))
        self._clear()
        if self._writer is not None:
            self._writer.cancel()

    def _clear(self) -> None:
        self._outbox.clear()
        self._backlog.clear()

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let `end` interrupt what waits in the block, with its error."""
        self._waiter = asyncio.current_task()
        try:
            with cancellable():
                yield
        except asyncio.CancelledError:
            self._explain_cancellation()
            raise
        finally:
            self._waiter = None

    async def _write_out(self) -> None:
        # gRPC allows one write at a time. A task for each burst of messages leaves nothing to clean up when quiet.
        try:
            while self._outbox or self._backlog:
                if self._outbox:
                    await self._transmit(self._outbox.popleft())
                else:
                    for data in self._backlog.popleft()():
                        self.send(data)
        except STREAM_BROKEN:
            self._clear()  # `read` raises why
        finally:
            self._writer = None

    def _explain_cancellation(self) -> None:
        # A cancellation by `end`, or by gRPC because the peer is gone, becomes the error behind it; any other stays.
        task = asyncio.current_task()
        assert task is not None
        if self._interrupted:
            self._interrupted = False
        elif self._lost():
            self._error = Unreachable(f"{self.peer} went away in the middle of a stream")
        else:
            return
        if task.uncancel() == 0 and self._error is not None:
            raise self._error from None

    def _tick(self) -> None:
        # Silence counts only during a read: between reads a message may be waiting.
        now = self._loop.time()
        pause = self._limits.heartbeat_seconds
        if self._reading_since is not None:
            left = self._reading_since + self._patience - now
            if left <= 0.0:
                self.end(Unreachable(f"{self.peer} has been silent for {self._patience:g} seconds"))
                return
            pause = min(pause, left)
        quiet = now - self._sent_at
        if self._heartbeat is not None and quiet >= self._limits.heartbeat_seconds:
            self.send(self._heartbeat())
        elif self._heartbeat is not None:
            pause = min(pause, self._limits.heartbeat_seconds - quiet)
        if self._error is None:
            self._timer = self._loop.call_later(pause, self._tick)
