"""A run whose adversary's plugin is called in this process, where a debugger has the terminal."""

import asyncio
import contextlib
from bdb import BdbQuit
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from slaternet_adversary.plugin.foreground import Foreground
from slaternet_lab.games.manifest import ADVERSARY
from slaternet_lab.games.processes import Child, Supervisor


@dataclass(kw_only=True)
class DebuggedRun(Supervisor):
    """Supervises the game in a thread, and calls the plugin in this one, the main thread."""

    foreground: Foreground

    def _run(self) -> None:
        with ThreadPoolExecutor(1) as threads:
            played = threads.submit(lambda: asyncio.run(self._play()))
            played.add_done_callback(lambda _: self.foreground.stop())
            while not played.done():
                try:
                    self.foreground.run()
                except KeyboardInterrupt:
                    self._request(self._interrupt)
                except BdbQuit:
                    self._request(self._kill)
                    wait([played])
                    raise
        played.result()

    async def _start(self, name: str, service: str, *arguments: str, piped: bool = False) -> Child:
        served = ("--served", self.foreground.address) if name == ADVERSARY else ()
        return await super()._start(name, service, *arguments, *served, piped=piped)

    def _kill(self) -> None:
        self._interrupts = 1  # as if the user had interrupted it before
        self._interrupt()

    def _request(self, what: Callable[[], None]) -> None:
        """Have something done in the game's thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the game has ended
            if self._loop is not None:
                self._loop.call_soon_threadsafe(what)
