"""A line: a stream to a server that is dialled again whenever it breaks.

What is sent while a line is down is dropped. Nothing is lost by that: whoever opens a stream says how far it has come,
and the engines send again what the other side lacks.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

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
    """Pauses between attempts: doubling, capped, and jittered so that many callers do not come at once."""

    def __init__(self, environment: Environment = REAL) -> None:
        self._environment = environment
        self.reset()

    def reset(self) -> None:
        """Begin again with a short pause."""
        self._pause = _FIRST_PAUSE
        self._since = self._environment.clock()

    @property
    def long(self) -> bool:
        """Whether this has gone on for longer than the longest pause: one attempt may take seconds to time out."""
        return self._environment.clock() - self._since >= LIMITS.backoff_seconds

    async def wait(self, news: asyncio.Event | None = None) -> None:
        """Pause, longer each time, and no longer than until there is news."""
        pause = self._pause * self._environment.random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, LIMITS.backoff_seconds)
        if news is None:
            await asyncio.sleep(pause)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await news.wait()


class ReconnectingStream:
    """A stream to one server for as long as the game lasts."""

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
        hear: Callable[[bytes], None],
        opened: Callable[[], None] = lambda: None,
        closed: Callable[[], None] = lambda: None,
        environment: Environment = REAL,
    ) -> None:
        self._server = server
        self._environment = environment
        self._address = address
        self._method = method
        self._security = security
        self._traffic = traffic
        self._opening = opening
        self._heartbeat = heartbeat
        self._hear = hear
        self._opened = opened
        self._closed = closed
        self._link: Stream | None = None
        self._heard = False
        self._times = 0  # that the server was heard on a new stream
        self._reasons: deque[str] = deque(maxlen=_REASONS)  # why it was down, since it was last up
        self._down = asyncio.Event()
        self._ended = asyncio.Event()
        self._moved = asyncio.Event()

    @property
    def server(self) -> str:
        """Who is at the other end."""
        return self._server

    @property
    def up(self) -> bool:
        """Whether there is a stream on which the server was heard."""
        return self._heard

    @property
    def reconnections(self) -> int:
        """How often there was a new stream after the first."""
        return max(self._times - 1, 0)

    def send(self, data: bytes) -> None:
        """Send, or drop where the line is down."""
        if self._link is not None:
            self._link.send(data)

    def send_later(self, make: Callable[[], list[bytes]]) -> None:
        """Send what `make` returns once all else is out, or drop it where the line is down."""
        if self._link is not None:
            self._link.send_later(make)

    def redirect(self, address: str) -> None:
        """Take down that the server has come back, at this address: what is left of a stream to its older life ends."""
        self._address = address
        self._moved.set()
        if self._link is not None:
            self._link.end(Unreachable(f"{self._server} has come back"))

    async def wait_down(self) -> None:
        """Wait until the line is down; it may come up again."""
        await self._down.wait()

    async def wait_ended(self) -> None:
        """Wait until the server has ended the newest stream in order: it has heard what it waited for."""
        await self._ended.wait()

    async def run(self) -> None:
        """Keep the line up; ends only by cancellation, or by an error after which going on would be wrong."""
        backoff = Backoff(self._environment)
        while True:
            self._moved.clear()
            try:
                await self._talk()
                self._ended.set()
                log.debug("stream ended", server=self._server)
            except (Refused, Diverged, BadSpec):
                raise  # the same bytes would be refused again, and an address that may not be dialled stays one
            except SlaternetError as error:
                # a server that was never heard may just be starting; only a long wait for it is worth a line
                if self._heard or backoff.long:
                    self._miss(str(error))
            finally:
                if self._heard:
                    backoff.reset()
                self._link, self._heard = None, False
                self._down.set()
                self._closed()
            await backoff.wait(self._moved)
            if self._moved.is_set():
                backoff.reset()

    async def _talk(self) -> None:
        there = open_channel(self._address, self._server, security=self._security)
        async with there as channel, dial(channel, self._method, self._traffic) as link:
            link.send(self._opening())
            link.keep_alive(self._heartbeat)
            self._link = link
            self._down.clear()
            self._ended.clear()
            self._opened()
            while (data := await link.read()) is not None:
                try:
                    self._hear(data)
                except Refused as error:
                    raise Unreachable(f"{self._server} sent what it may not send: {error}") from None
                if not self._heard:
                    self._heard = True
                    self._times += 1
                    self._welcome_back()

    def _miss(self, reason: str) -> None:
        """Say whom we miss, and why: each reason once, however often we try."""
        if reason not in self._reasons:
            log.warning("stream broke", server=self._server, address=self._address, reason=reason)
            self._reasons.append(reason)

    def _welcome_back(self) -> None:
        if self._reasons:
            log.info("stream is back", server=self._server, address=self._address)
            self._reasons.clear()
