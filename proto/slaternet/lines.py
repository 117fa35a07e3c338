"""A line: a stream to a server that is dialled again whenever it breaks.

What is sent while a line is down is dropped. Nothing is lost by that: whoever opens a stream says how far it has come,
and the engines send again what the other side lacks.
"""

import asyncio
import random
from collections.abc import Callable

import structlog

from slaternet.errors import Diverged, Refused, SlaternetError, Unreachable
from slaternet.limits import LIMITS
from slaternet.link import Link
from slaternet.transport import dial, open_channel

log = structlog.get_logger()

_FIRST_PAUSE = 0.01


class Backoff:
    """Pauses between attempts: doubling, capped, and jittered so that many callers do not come at once."""

    def __init__(self) -> None:
        self._pause = _FIRST_PAUSE

    def reset(self) -> None:
        """Begin again with a short pause."""
        self._pause = _FIRST_PAUSE

    @property
    def long(self) -> bool:
        """Whether the pauses have grown to their longest."""
        return self._pause >= LIMITS.backoff_seconds

    async def wait(self) -> None:
        """Pause, longer each time."""
        await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))
        self._pause = min(2 * self._pause, LIMITS.backoff_seconds)


class Line:
    """A stream to one server for as long as the game lasts."""

    def __init__(
        self,
        server: str,
        address: str,
        method: str,
        *,
        opening: Callable[[], bytes],
        heartbeat: Callable[[], bytes],
        hear: Callable[[bytes], None],
        opened: Callable[[], None] = lambda: None,
    ) -> None:
        self._server = server
        self._address = address
        self._method = method
        self._opening = opening
        self._heartbeat = heartbeat
        self._hear = hear
        self._opened = opened
        self._link: Link | None = None
        self._heard = False
        self._down = asyncio.Event()

    def send(self, data: bytes) -> None:
        """Send, or drop where the line is down."""
        if self._link is not None:
            self._link.send(data)

    async def wait_down(self) -> None:
        """Wait until the line is down; it may come up again."""
        await self._down.wait()

    async def run(self) -> None:
        """Keep the line up; ends only by cancellation, or by an error after which going on would be wrong."""
        backoff = Backoff()
        while True:
            try:
                await self._talk(backoff)
                log.debug("stream ended", server=self._server)
            except (Refused, Diverged):
                raise  # the same bytes would be refused again
            except SlaternetError as error:
                # a server that was never heard may just be starting; only a long wait for it is worth a line
                if self._heard or backoff.long:
                    log.warning("stream broke", server=self._server, address=self._address, reason=str(error))
            finally:
                self._link, self._heard = None, False
                self._down.set()
            await backoff.wait()

    async def _talk(self, backoff: Backoff) -> None:
        async with open_channel(self._address) as channel, dial(channel, self._method) as link:
            link.send(self._opening())
            link.keep_alive(self._heartbeat)
            self._link = link
            self._down.clear()
            self._opened()
            while (data := await link.read()) is not None:
                self._take(data)
                self._heard = True
                backoff.reset()

    def _take(self, data: bytes) -> None:
        try:
            self._hear(data)
        except Refused as error:
            raise Unreachable(f"{self._server} sent what it may not send: {error}") from None
