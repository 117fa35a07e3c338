"""One end of a long-lived bidirectional stream."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import grpc.aio

from slaternet.errors import OverBudget, Replaced, SlaternetError, Superseded, Unreachable
from slaternet.limits import Limits
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
        self._write: Generator[Any, None, None] | None = None  # under way: gRPC allows one at a time
        self._ready: asyncio.Future[Any] | None = None  # what that waits for
        self._written: asyncio.Future[None] | None = None  # for who waits until all is written
        self._waiter: asyncio.Task[object] | None = None  # in `read` or `drained`
        self._error: SlaternetError | None = None
        self._by_peer = False
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
        self._queue(data)
        if self._write is None:
            self._write_on()

    def _queue(self, data: bytes) -> None:
        self._outbox.append(data)
        self._traffic.sent_messages += 1
        self._traffic.sent_bytes += len(data) + PREFIX
        self._sent_at = self._loop.time()

    def send_later(self, make: Callable[[], list[bytes]], /, *, lacked: bool = True) -> None:
        """Send what `make` returns after everything queued: so of many messages only one is encoded at a time.

        A peer may lack as many as it likes. One that does not take those that are new loses its stream, as with `send`.
        """
        if self._error is not None:
            return
        if not lacked and len(self._backlog) >= self._most:
            self.end(OverBudget(f"{self.peer} does not take the messages meant for it"))
            return
        self._backlog.append(make)
        if self._write is None:
            self._write_on()

    async def read(self) -> bytes | None:
        """Return the next message; None where the peer has ended the stream in order.

        Otherwise raise why it ended: the error that the peer sent, the one given to `end`, or Unreachable.
        """
        self.raise_if_ended()
        task, cancelled = self._begin_waiting()
        self._reading_since = self._loop.time()
        try:
            data = await self._receive()
            if not isinstance(data, bytes):
                await self._check_end()
                return None
        except grpc.aio.AioRpcError as error:
            raise error_of(error.code(), error.details(), error.trailing_metadata(), self.peer) from None
        finally:
            self._reading_since = self._waiter = None
            if task.cancelling() > cancelled:
                self._explain_cancellation(task)
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
        while self._write is not None and self._error is None:
            task, cancelled = self._begin_waiting()
            try:
                await asyncio.wait((self._all_written(),))
            finally:
                self._waiter = None
                if task.cancelling() > cancelled:
                    self._explain_cancellation(task)
        self.raise_if_ended()

    def set_host(self, host: str) -> None:
        """Record which host the caller is: its ticket says so."""
        self.host = host

    def keep_alive(self, heartbeat: Callable[[], bytes]) -> None:
        """Send what `heartbeat` returns when nothing else has been sent for a while."""
        self._heartbeat = heartbeat

    def end(self, error: SlaternetError, *, by_peer: bool = False) -> None:
        """End the stream: the current or next read raises `error`, and the peer receives it.

        `by_peer`: one of its messages has caused it.
        What was to be sent later is dropped; on a stream that has a successor, everything is: the peer has left it.
        """
        if self._error is not None:
            return
        self._error, self._by_peer = error, by_peer
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
        if self._write is not None:
            await asyncio.wait((self._all_written(),), timeout=self._limits.grace_seconds)

    def raise_if_ended(self) -> None:
        """Raise the error given to `end`, if any."""
        if self._error is not None:
            raise self._error

    def was_ended_with(self, error: SlaternetError) -> bool:
        """Return whether `error` was given to `end`, rather than caused by the peer's message."""
        return self._error is error and not self._by_peer

    def close(self) -> None:
        """End the stream, and drop what is queued."""
        self.end(Unreachable(f"the link to {self.peer} is closed"))
        self._end_writing()

    def _begin_waiting(self) -> tuple[asyncio.Task[object], int]:
        """Let `end` interrupt this task; return it, and how often it was cancelled before."""
        self._waiter = task = asyncio.current_task()
        assert task is not None
        return task, task.cancelling()

    def _explain_cancellation(self, task: asyncio.Task[object]) -> None:
        """Raise the error behind a cancellation by `end`, or by gRPC because the peer is gone; any other stays one.

        It is raised however the wait has ended: grpc.aio swallows a cancellation that arrives in the moment in which
        its call fails by itself, and a task that dials again after an error would never end.
        """
        if self._interrupted:
            self._interrupted = False
        elif self._lost():
            self._error = Unreachable(f"{self.peer} went away in the middle of a stream")
        else:
            raise asyncio.CancelledError
        if task.uncancel() == 0 and self._error is not None:
            raise self._error from None
        raise asyncio.CancelledError

    def _write_on(self, _: object = None) -> None:
        """Write what is queued until gRPC makes us wait; called again when it is ready.

        The coroutine of a write is driven by hand: a task for each message takes a third of the time of a write, and
        would begin it one turn of the loop later.
        """
        try:
            while self._write is not None or self._outbox or self._backlog:
                if self._write is None and not self._outbox:
                    for data in self._backlog.popleft()():
                        self._queue(data)
                    continue
                if self._write is None:
                    self._write = self._transmit(self._outbox.popleft()).__await__()
                try:
                    self._ready = self._write.send(None)
                except StopIteration:
                    self._write = None
                    continue
                if self._ready is None:
                    self._loop.call_soon(self._write_on)
                else:
                    self._ready._asyncio_future_blocking = False  # as a task does with what its coroutine waits for
                    self._ready.add_done_callback(self._write_on)
                return
        except STREAM_BROKEN:
            pass  # `read` raises why
        self._end_writing()

    def _end_writing(self) -> None:
        self._outbox.clear()
        self._backlog.clear()
        if self._write is not None:
            self._write.close()
            self._write = None
            if self._ready is not None:
                self._ready.cancel()
        if self._written is not None and not self._written.done():
            self._written.set_result(None)
        self._written = None

    def _all_written(self) -> asyncio.Future[None]:
        """Return what is done when nothing is queued any more."""
        if self._written is None:
            self._written = self._loop.create_future()
        return self._written

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
