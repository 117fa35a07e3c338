"""Watch a game until it is over: a page that is redrawn, or a line for every change."""

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
from slaternet_lab.status.operator import GameStatus, ask_status
from slaternet_lab.status.page import as_json, incident_line, line, page

_LOOK_SECONDS = 1.0


class View(abc.ABC):
    """Shows a game; `context` is open as long as the view is used."""

    context: AbstractContextManager[object] = nullcontext()

    @abc.abstractmethod
    def show(self, game: GameStatus) -> None:
        """Show the status."""

    @abc.abstractmethod
    def show_unreachable(self, error: Unreachable) -> None:
        """Show that the coordinator does not answer."""


def watch(address: str, security: Security, view: View) -> None:
    """Show the game of the coordinator at HOST:PORT until it is over; RunFailed where it fails.

    A coordinator that does not answer is asked again: it may be restarting.
    """

    async def to_the_end() -> Status:
        async with open_channel(address, COORDINATOR, security=security) as channel:
            with view.context:
                return await poll(lambda: ask_status(channel, again=True), view)

    status = asyncio.run(to_the_end())
    if status.failure:
        raise RunFailed(f"the game failed: {status.failure}")


async def poll(ask: Callable[[], Awaitable[GameStatus]], view: View, pause: float = _LOOK_SECONDS) -> Status:
    """Show the status every `pause` seconds until the game is over; return the last."""
    while True:
        try:
            game = await ask()
        except Unreachable as error:
            view.show_unreachable(error)
        else:
            view.show(game)
            if game.status.phase in ("over", "failed"):
                return game.status
        await asyncio.sleep(pause)


class Screen(View):
    """A page on a terminal, redrawn with every answer."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self.context = self._live = Live(console=console, auto_refresh=False)  # the page stays when it is closed
        self._last: Status | None = None
        self._answered = clock()

    def show(self, game: GameStatus) -> None:
        """Draw the status."""
        self._last, self._answered = game.status, self._clock()
        self._live.update(page(game.status, self._console.height), refresh=True)

    def show_unreachable(self, error: Unreachable) -> None:
        """Draw the last status, and since when there is no answer."""
        silence = self._clock() - self._answered
        notice = Text(f"no answer for {silence:.0f} s: {error}", style="bold red")
        before = [page(self._last, self._console.height - 1)] if self._last else []
        self._live.update(Group(*before, notice), refresh=True)


class Lines(View):
    """A line for every change, where there is no terminal."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._last = ""
        self._incidents: Sequence[str] = ()

    def show(self, game: GameStatus) -> None:
        """Write new incidents, and the status where it has changed."""
        incidents = game.status.troubles
        whats = [each.what for each in incidents]
        # the first ones may be known: the coordinator drops the oldest, and one that happens again moves to the end
        before = iter(self._incidents)
        known = sum(1 for _ in takewhile(lambda what: what in before, whats))
        for each in incidents[known:]:
            self._write(incident_line(each))
        self._incidents = whats
        self._write_change(line(game.status))

    def show_unreachable(self, error: Unreachable) -> None:
        """Write that the coordinator does not answer."""
        self._write_change(f"no answer: {error}")

    def _write_change(self, text: str) -> None:
        if text != self._last:
            self._write(text)
        self._last = text


class Objects(View):
    """A JSON object per line for every answer, for programs."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def show(self, game: GameStatus) -> None:
        """Write the whole status."""
        self._write(json.dumps(as_json(game)))

    def show_unreachable(self, error: Unreachable) -> None:
        """Write that the coordinator does not answer."""
        self._write(json.dumps({"unreachable": str(error)}))
