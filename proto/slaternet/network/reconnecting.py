"""A stream to a server that is opened again whenever it breaks.

Messages sent while it is down are dropped. Nothing is lost by that: the opening of a stream names the sender's last
round, and the engines send again what the other side lacks.
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
    """Pauses between attempts: doubling, capped, and jittered so that many callers do not call at the same time."""

    def __init__(self, environment: Environment = REAL) -> None:
        self._environment = environment
        self.reset()

    def reset(self) -> None:
        """Begin again with a short pause."""
        self._pause = _FIRST_PAUSE
        self._since = self._environment.clock()

    @property
    def long(self) -> bool:
        """Whether more time than the longest pause has passed since `reset`; one attempt may take seconds."""
        return self._environment.clock() - self._since >= LIMITS.backoff_seconds

    async def wait(self, news: asyncio.Event | None = None) -> None:
        """Pause, longer each time, but only until `news` is set."""
        pause = self._pause * self._environment.random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, LIMITS.backoff_seconds)
        if news is None:
            await asyncio.sleep(pause)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await news.wait()


class ReconnectingStream:
    """A stream to one server that lasts as long as the game."""

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
        self.server = server
        """The name of the process at the other end."""
        self.up = False
        """Whether there is a stream on which a message has arrived."""
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
        self._times = 0  # how often it came up
        self._reasons: deque[str] = deque(maxlen=_REASONS)  # the errors since it was last up
        self._down = asyncio.Event()
        self._ended = asyncio.Event()
        self._moved = asyncio.Event()

    @property
    def reconnections(self) -> int:
        """How many streams followed the first."""
        return max(self._times - 1, 0)

    def send(self, data: bytes) -> None:
        """Send a message, or drop it where the stream is down."""
        if self._link is not None:
            self._link.send(data)

    def send_later(self, make: Callable[[], list[bytes]]) -> None:
        """Send the result of `make` once all else is sent, or drop it where the stream is down."""
        if self._link is not None:
            self._link.send_later(make)

    def redirect(self, address: str) -> None:
        """Use the server's new address, and end any stream to its previous incarnation."""
        self._address = address
        self._moved.set()
        if self._link is not None:
            self._link.end(Unreachable(f"{self.server} has restarted"))

    async def wait_down(self) -> None:
        """Wait until the stream is down; it may come up again."""
        await self._down.wait()

    async def wait_ended(self) -> None:
        """Wait until the server has ended the newest stream in order."""
        await self._ended.wait()

    async def run(self) -> None:
        """Keep the stream open until cancelled, or until an error that a new stream would not cure."""
        backoff = Backoff(self._environment)
        while True:
            self._moved.clear()
            try:
                await self._talk()
                self._ended.set()
                log.debug("stream ended", server=self.server)
            except (Refused, Diverged, BadSpec):
                raise  # the same bytes would be refused again, and a forbidden address stays forbidden
            except SlaternetError as error:
                # a server that has never answered may just be starting: log only a long wait, and each reason once
                reason = str(error)
                if (self.up or backoff.long) and reason not in self._reasons:
                    log.warning("stream broke", server=self.server, address=self._address, reason=reason)
                    self._reasons.append(reason)
            finally:
                if self.up:
                    backoff.reset()
                self._link, self.up = None, False
                self._down.set()
                self._closed()
            await backoff.wait(self._moved)
            if self._moved.is_set():
                backoff.reset()

    async def _talk(self) -> None:
        there = open_channel(self._address, self.server, security=self._security)
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
                    raise Unreachable(f"{self.server} sent a message against the contract: {error}") from None
                if not self.up:
                    self.up = True
                    self._times += 1
                    if self._reasons:
                        log.info("stream is back", server=self.server, address=self._address)
                        self._reasons.clear()
