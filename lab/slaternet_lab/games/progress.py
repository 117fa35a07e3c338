"""Progress for the user: a live line on a terminal, a plain line now and then elsewhere."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from types import TracebackType
from typing import Protocol, Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bars

from slaternet.texts import printable

T = TypeVar("T")

_EVER = 10**9
"""Seconds, some decades, beyond which nobody waits for an end."""
_PAUSE = 2.0
"""Seconds between two plain lines."""
_SLOW = 1.0
"""Seconds in which nothing has changed, from which on it is said for how long."""


class Watcher(Protocol):
    """Receives the progress of a game."""

    def update(self, round: int, loss: float, violation: float, note: str = "") -> None:
        """Receive that `round` is scored, with the cumulative scores so far; `note` names what is waited for."""


class ProgressDisplay:
    """Shows how much of some work is done, and the time that remains.

    with ProgressDisplay(1000, Console()) as progress:
        progress.update(17, loss=301.5, violation=12.25)  # or, for other work than a game:
        progress.show(17, "2/20 runs", "yi2023, seed 2")

    `total` None is work without end. `done` was done before and does not count for the speed. A `brief` display is
    shown on terminals only, and vanishes. Calls are cheap: the terminal is redrawn ten times a second at most.
    """

    def __init__(
        self,
        total: int | None,
        console: Console,
        *,
        done: int = 0,
        brief: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._console = console
        self._before = done
        self._brief = brief
        self._clock = clock
        self._first: tuple[int, float] | None = None
        self._printed = clock()
        self._unprinted = ""
        self._standing: tuple[int, str] = (0, "")
        self._stands = clock()  # since when it has been that
        self._lock = threading.Lock()
        texts = ("{task.description}", "{task.fields[details]}", "{task.fields[remaining]}")
        head, details, remaining = (TextColumn(text, markup=False) for text in texts)
        columns = (SpinnerColumn(), head, BarColumn(bar_width=20), details, remaining)
        self._bars = Bars(*columns, console=console, transient=brief, disable=not console.is_terminal)
        self._task = self._bars.add_task("starting", total=total, details="", remaining="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
        if self._unprinted:
            self._print(self._unprinted)

    def release(self) -> None:
        """Show nothing more on a terminal: it belongs to a debugger."""
        self._bars.stop()

    def update(self, round: int, loss: float, violation: float, note: str = "") -> None:
        """Show that `round` is scored, with the cumulative scores so far, a note, and for how long nothing has changed.

        Any thread may call it.
        """
        with self._lock:
            speed = self._speed(round)
            self.show(
                round,
                f"round {round}" if self._total is None else f"round {round}/{self._total}",
                f"{speed:.1f} rounds/s" if speed > 0 else "",
                f"loss {loss:.1f}  violation {violation:.1f}" if round > 0 else "",
                self._since(round, note),
            )

    def _since(self, round: int, note: str) -> str:
        """Return the note, with the time since which nothing has changed where that is long."""
        now = self._clock()
        if self._standing != (round, note):
            self._standing, self._stands = (round, note), now
        if now - self._stands < _SLOW or round == self._total:
            return note
        return f"{note or f'playing round {round + 1}'} (for {now - self._stands:.0f} s)"

    def show(self, done: int, head: str, *details: str) -> None:
        """Show how much is done, and details."""
        speed = self._speed(done)
        remaining = ""
        if self._total is not None and done < self._total and speed > 0:
            whole = min(-int((done - self._total) / speed // 1), _EVER)  # rounded up, so that ETA 0 means done
            remaining = f"ETA {timedelta(seconds=whole)}" if whole < _EVER else ""
        text = "  ".join(detail for detail in details if detail)
        if self._console.is_terminal:
            self._bars.update(
                self._task, completed=done, total=self._total, description=head, details=text, remaining=remaining
            )
        elif not self._brief:
            self._unprinted = "  ".join(part for part in (head, text, remaining) if part)
            if self._clock() - self._printed >= _PAUSE:
                self._print(self._unprinted)
                self._printed, self._unprinted = self._clock(), ""

    def stage(self, head: str, done: int, total: int) -> None:
        """Show how much is done of one stage of the work; every stage has its own total."""
        if total != self._total:
            self._total, self._first = total, None
        self.show(done, head)

    def track(self, items: Iterable[T], head: str, total: int) -> Iterator[T]:
        """Yield the items, and show how many of them are done."""
        for done, item in enumerate(items):
            self.stage(head, done, total)
            yield item

    def _speed(self, done: int) -> float:
        """Return how much is done per second since the first update; the start-up does not count."""
        now = self._clock()
        if self._first is None and done > self._before:
            self._first = (done, now)
        if self._first is None or now <= self._first[1]:
            return 0.0
        return (done - self._first[0]) / (now - self._first[1])

    def _print(self, line: str) -> None:
        self._console.print(printable(line), highlight=False, markup=False, soft_wrap=True)
