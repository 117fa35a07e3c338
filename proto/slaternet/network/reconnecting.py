"""A stream to a server that is dialled again whenever it breaks.

Messages sent while it is down are dropped. Nothing is lost by that: each new stream begins with how far its sender has
got, and the engines send again what the other side lacks.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import structlog

from slaternet.environment import REAL, Environment
from slaternet.errors import BadSpec, Diverged, Refused, SlaternetError, Unreachable
from slaternet.limits import LIMITS
from slaternet.network.certificates import Security
from slaternet.network.client import dial, open_channel
from slaternet.network.stream import Stream
from slaternet.network.traffic import Traffic

log = structlog.get_logger()

_FIRST_PAUSE = 0.01
_REASONS = 8


class Backoff:
    """Pauses between attempts: doubling, capped, and jittered so that many callers do not dial at once."""

    def __init__(self, environment: Environment = REAL) -> None:
        self._environment = environment
        self.reset()

    def reset(self) -> None:
        """Start again with a short pause."""
        self._pause = _FIRST_PAUSE
        self._since = self._environment.clock()

    @property
    def long(self) -> bool:
        """Whether attempts have failed for longer than the longest pause: one may take seconds to time out."""
        return self._environment.clock() - self._since >= LIMITS.backoff_seconds

    async def wait(self, until: asyncio.Event | None = None) -> None:
        """Pause, longer each time, but only until the event is set."""
        pause = self._pause * self._environment.random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, LIMITS.backoff_seconds)
        if until is None:
            await asyncio.sleep(pause)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await until.wait()


class _SendLater(Protocol):
    def __call__(self, make: Callable[[], list[bytes]], /, *, lacked: bool = True) -> None: ...


def _drop(_: object, *, lacked: bool = True) -> None:
    """Drop a message: there is no stream."""


class ReconnectingStream:
    """A stream to one server for as long as the game lasts.

    Every stream begins with the message `opening()`; then `opened` is called, `on_message` for every message received,
    and `closed` at its end. A refusal by the server is final unless `tolerated` returns True for it. Nothing is dialled
    while the address is empty.
    """

    def __init__(
        self,
        server: str,
        address: str,
        method: str,
        *,
        security: Security,
        traffic: Traffic,
        opening: Callable[[], bytes],
        heartbeat: Callable[[], bytes],
        on_message: Callable[[bytes], None],
        opened: Callable[[], None] = lambda: None,
        closed: Callable[[], None] = lambda: None,
        tolerated: Callable[[SlaternetError], bool] = lambda error: False,
        environment: Environment = REAL,
    ) -> None:
        self.server = server
        """The name of the process at the other end."""
        self._environment = environment
        self._address = address
        self._method = method
        self._security = security
        self._traffic = traffic
        self._opening = opening
        self._heartbeat = heartbeat
        self._on_message = on_message
        self._opened = opened
        self._closed = closed
        self._tolerated = tolerated
        self._link: Stream | None = None
        self.send: Callable[[bytes], None] = _drop
        """Queue a message; drop it while there is no stream."""
        self.send_later: _SendLater = _drop
        """Send what the function returns after everything queued; drop it while there is no stream."""
        self.up = False
        """Whether there is a stream on which the server has sent something."""
        self._times = 0  # that it was up
        self._reasons: deque[str] = deque(maxlen=_REASONS)  # why it was down, since it was last up
        self.ended = asyncio.Event()
        """Set while the newest stream is one that the server has ended in order."""
        self._moved = asyncio.Event()

    @property
    def reconnections(self) -> int:
        """How often there was a new stream after the first."""
        return max(self._times - 1, 0)

    def redirect(self, address: str) -> None:
        """Use the server's new address and end any stream to its previous incarnation."""
        self._address = address
        self._moved.set()
        if self._link is not None:
            self._link.end(Unreachable(f"{self.server} has moved"))

    async def run(self) -> None:
        """Keep a stream open; ends only by cancellation, or by an error after which going on would be wrong."""
        backoff = Backoff(self._environment)
        while True:
            while not self._address:
                await self._moved.wait()
                self._moved.clear()
            self._moved.clear()
            try:
                await self._receive()
                self.ended.set()
                log.debug("stream ended", server=self.server)
            except SlaternetError as error:
                # else the same bytes would be refused again, and an address that may not be dialled stays one
                if not self._tolerated(error) and isinstance(error, Refused | Diverged | BadSpec):
                    raise
                # a server that has sent nothing yet may just be starting: only a long wait for it is logged
                if (self.up or backoff.long) and (reason := str(error)) not in self._reasons:  # each reason once
                    log.warning("stream broke", server=self.server, address=self._address, reason=reason)
                    self._reasons.append(reason)
            finally:
                if self.up:
                    backoff.reset()
                self._link, self.up = None, False
                self.send = self.send_later = _drop
                self._closed()
            await backoff.wait(self._moved)
            if self._moved.is_set():
                backoff.reset()

    async def _receive(self) -> None:
        """Open one stream and pass on what it brings, until the server ends it."""
        there = open_channel(self._address, self.server, security=self._security)
        async with there as channel, dial(channel, self._method, self._traffic) as link:
            link.send(self._opening())
            link.keep_alive(self._heartbeat)
            self._link, self.send, self.send_later = link, link.send, link.send_later
            self.ended.clear()
            self._opened()
            while (data := await link.read()) is not None:
                try:
                    self._on_message(data)
                except Refused as error:
                    raise Unreachable(f"{self.server} sent what it may not send: {error}") from None
                if self.up:
                    continue
                self.up = True
                self._times += 1
                if self._reasons:
                    log.info("stream is back", server=self.server, address=self._address)
                    self._reasons.clear()
