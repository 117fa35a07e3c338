"""Watching a game until it is over: a page that is drawn anew, or a line for every change."""

import abc
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import takewhile

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from slaternet.errors import RunFailed, Unreachable
from slaternet.model import COORDINATOR, Status
from slaternet.network.certificates import Security
from slaternet.network.client import open_channel
from slaternet_lab.status.operator import GameStatus, ask_standing
from slaternet_lab.status.page import as_json, line, page, told

_LOOK_SECONDS = 1.0


class View(abc.ABC):
    """Where a game is shown."""

    def shown(self) -> AbstractContextManager[object]:
        """Return what holds the view open, if anything does."""
        return nullcontext()

    @abc.abstractmethod
    def show(self, standing: GameStatus) -> None:
        """Show how the game stands."""

    @abc.abstractmethod
    def miss(self, error: Unreachable) -> None:
        """Show that the coordinator does not answer."""


def watch(address: str, security: Security, view: View) -> None:
    """Show the game of the coordinator at HOST:PORT until it is over; RunFailed where it fails.

    A coordinator that does not answer is asked again: it may be on its way.
    """

    async def to_the_end() -> Status:
        async with open_channel(address, COORDINATOR, security=security) as channel:
            with view.shown():
                return await look_on(lambda: ask_standing(channel, again=True), view)

    status = asyncio.run(to_the_end())
    if status.failure:
        raise RunFailed(f"the game failed: {status.failure}")


async def look_on(ask: Callable[[], Awaitable[GameStatus]], view: View, pause: float = _LOOK_SECONDS) -> Status:
    """Show every answer until the game is over, and return the last."""
    while True:
        try:
            standing = await ask()
        except Unreachable as error:
            view.miss(error)
        else:
            view.show(standing)
            if standing.status.phase in ("over", "failed"):
                return standing.status
        await asyncio.sleep(pause)


class Screen(View):
    """A page on a terminal, drawn anew with every answer."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._live = Live(console=console, auto_refresh=False)
        self._last: Status | None = None
        self._answered = clock()

    def shown(self) -> AbstractContextManager[object]:
        """Return the page, which stays on the terminal when it is closed."""
        return self._live

    def show(self, standing: GameStatus) -> None:
        """Draw how the game stands."""
        self._last, self._answered = standing.status, self._clock()
        self._live.update(page(standing.status, self._console.height), refresh=True)

    def miss(self, error: Unreachable) -> None:
        """Draw how the game stood, and since when nothing is known."""
        silence = self._clock() - self._answered
        notice = Text(f"no answer for {silence:.0f} s: {error}", style="bold red")
        before = [page(self._last, self._console.height - 1)] if self._last else []
        self._live.update(Group(*before, notice), refresh=True)


class Lines(View):
    """A line for every change, where there is no terminal."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._said = ""
        self._troubles: Sequence[str] = ()

    def show(self, standing: GameStatus) -> None:
        """Write how the game stands, and what went wrong since the last time."""
        troubles = standing.status.troubles
        whats = [each.what for each in troubles]
        # of the first, those known before: the oldest are forgotten, and what happens again moves last
        before = iter(self._troubles)
        known = sum(1 for _ in takewhile(lambda what: what in before, whats))
        for each in troubles[known:]:
            self._write(told(each))
        self._troubles = whats
        self._say(line(standing.status))

    def miss(self, error: Unreachable) -> None:
        """Write that the coordinator does not answer."""
        self._say(f"no answer: {error}")

    def _say(self, text: str) -> None:
        if text != self._said:
            self._write(text)
        self._said = text


class Objects(View):
    """An object a line for every answer, for programs."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def show(self, standing: GameStatus) -> None:
        """Write everything that is known."""
        self._write(json.dumps(as_json(standing)))

    def miss(self, error: Unreachable) -> None:
        """Write that the coordinator does not answer."""
        self._write(json.dumps({"unreachable": str(error)}))
