"""Ctrl-C and SIGTERM as events of a game that is under way."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """The user's wishes to end a game, in the order in which they come."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[None] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Take note of signals within the block; elsewhere than in the main thread none arrive."""
        loop = self._loop = asyncio.get_running_loop()
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        with contextlib.suppress(RuntimeError):  # what asyncio raises where signals cannot be caught
            for number in _SIGNALS:
                loop.add_signal_handler(number, self._queue.put_nowait, None)
        try:
            yield
        finally:
            for number, handler in before.items():
                if loop.remove_signal_handler(number):
                    signal.signal(number, handler)

    def add(self) -> None:
        """Interrupt the game from another thread."""
        with contextlib.suppress(RuntimeError):  # its loop is closed: the game has ended already
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._queue.put_nowait, None)

    def next(self) -> "asyncio.Task[None]":
        """Return a task that is done with the next interrupt."""
        return asyncio.create_task(self._queue.get(), name="the next interrupt")

    async def cut(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work that an interrupt cuts short, with KeyboardInterrupt."""
        doing, interrupted = asyncio.create_task(work), self.next()
        try:
            await asyncio.wait((doing, interrupted), return_when=asyncio.FIRST_COMPLETED)
            if interrupted.done():
                raise KeyboardInterrupt
            return doing.result()
        finally:
            for task in (doing, interrupted):
                task.cancel()
            await asyncio.gather(doing, interrupted, return_exceptions=True)
