"""Streams: two ends and the messages between them, in order until they break."""

import asyncio
import functools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc
from tests.simulation.air import BROKEN, LOOK, Air, Status, failure
from tests.simulation.loop import Life

_REORDERED = ("Gossip", "Reveal")
_IN_FLIGHT = 32
"""Messages that a stream takes before whoever writes must wait for the other end."""


@dataclass(eq=False)
class End:
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


class Stream:
    """Two ends, and the messages between them."""

    def __init__(self, air: Air, method: str, client: Life, server: Life) -> None:
        self.air = air
        self.method = method.rpartition("/")[2]
        self.client = End(client)
        self.server = End(server)
        self.broken = False

    @property
    def over(self) -> bool:
        return self.broken or (self.client.ended is not None and self.server.ended is not None)

    def other(self, end: End) -> End:
        return self.server if end is self.client else self.client

    async def write(self, end: End, data: bytes) -> None:
        """Send a message from an end; wait while too much is under way."""
        weather = self.air.weather
        weather.point(f"send {self.method}")
        while len(end.flying) >= _IN_FLIGHT and not self.broken and end.ended is None:
            end.writer = self.air.loop.create_future()
            await end.writer
        if end.ended is not None:
            raise failure(end.ended)
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

    def _transmit(self, end: End, data: bytes, *, spared: bool = False) -> None:
        """Have a message arrive, and perhaps once more; whatever it has overtaken follows."""
        other, weather = self.other(end), self.air.weather
        again = not spared and weather.doubled()

        def arrive() -> None:
            if other.ended is None:
                other.inbox.append(data)
                other.wake()

        def arrive_and_return() -> None:
            arrive()
            self.air.post(end.life.name, other.life.name, arrive, other.life)

        late = again and self.method in _REORDERED
        self._fly(end, arrive_and_return if late else arrive)
        if again and not late:
            self._fly(end, arrive)
        held, end.held = end.held, None
        if held is not None:
            self._transmit(end, held)

    def _fly(self, end: End, arrive: Callable[[], None]) -> None:
        """Have something happen at the other end, after all that was sent before."""
        arrival = self.air.loop.time() + self.air.weather.delay()
        if end.flying:
            arrival = max(arrival, end.flying[-1][0])
        end.flying.append((arrival, arrive))
        if len(end.flying) == 1:
            self._await(end, arrival)

    def _await(self, end: End, when: float) -> None:
        self.air.loop.call_at(when, self._land, end, context=self.other(end).life.context)

    def _land(self, end: End) -> None:
        loop = self.air.loop
        now, held = loop.time(), self.air.weather.held(end.life.name, self.other(end).life.name)
        if held > now:
            self._await(end, min(held, now + LOOK))
            return
        while end.flying and end.flying[0][0] <= now:
            end.flying.popleft()[1]()
        end.release()
        if end.flying:
            self._await(end, end.flying[0][0])

    async def read(self, end: End) -> bytes | None:
        """Return the next message at an end; None where the stream has ended in order."""
        while not end.inbox and end.ended is None and not end.all_read:
            end.reader = self.air.loop.create_future()
            try:
                await end.reader
            finally:
                end.reader = None
        if end.inbox:
            return end.inbox.popleft()
        if end.ended is None or end.ended.code is grpc.StatusCode.OK:
            return None
        raise failure(end.ended)

    def half_close(self) -> None:
        """Let the server know that the client sends no more."""

        def tell() -> None:
            self.server.all_read = True
            self.server.wake()

        self._fly(self.client, tell)

    def finish(self, end: End, status: Status) -> None:
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
            if end.life.alive and not self.air.weather.silent():
                self.air.post(self.other(end).life.name, end.life.name, functools.partial(self._end, end), end.life)

    def _end(self, end: End, status: Status = BROKEN) -> None:
        if end.ended is None:
            end.ended = status
            end.wake()
            end.release()
            end.on_break()
