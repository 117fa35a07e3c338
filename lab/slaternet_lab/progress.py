"""What a user sees while a game runs: a live line on a terminal, a plain line now and then elsewhere."""

import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

_PAUSE = 2.0
"""Seconds between two plain lines."""


class Watcher(Protocol):
    """Whoever is told how far a game has come."""

    def update(self, round: int, loss: float, violation: float, note: str = "") -> None:
        """Hear that `round` is scored, with the cumulative scores so far; `note` says what is waited for."""


class Progress:
    """Shows round, rounds per second, cumulative loss and violation, and the time that remains.

    with Progress(1000, Console()) as progress:
        progress.update(17, loss=301.5, violation=12.25)

    `rounds` None is a game without end. Calls are cheap: the terminal is redrawn ten times a second at most.
    """

    def __init__(self, rounds: int | None, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._rounds = rounds
        self._console = console
        self._clock = clock
        self._first: tuple[int, float] | None = None
        self._shown = clock()
        self._unshown = ""
        self._bars = _bars(console, rounds) if console.is_terminal else None
        self._task = self._bars.add_task("", total=rounds, speed="", score="starting") if self._bars else None

    def __enter__(self) -> Self:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars:
            self._bars.stop()
        elif self._unshown:
            self._print(self._unshown)

    def update(self, round: int, loss: float, violation: float, note: str = "") -> None:
        """Say that `round` is scored, with the cumulative scores so far; `note` says what is waited for."""
        now = self._clock()
        speed = self._speed(round, now)
        pace = f"{speed:.1f} rounds/s" if speed > 0 else ""
        score = f"loss {loss:.1f}  violation {violation:.1f}" if round > 0 else ""
        score = "  ".join(part for part in (score, note) if part)
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=round, speed=pace, score=score)
            return
        line = (f"round {round}{self._of()}", pace, score, self._remaining(round, speed))
        self._unshown = "  ".join(part for part in line if part)
        if now - self._shown >= _PAUSE:
            self._print(self._unshown)
            self._shown, self._unshown = now, ""

    def _speed(self, round: int, now: float) -> float:
        """Return rounds per second since the first one; the wait for everyone to join does not count."""
        if self._first is None and round > 0:
            self._first = (round, now)
        if self._first is None or now <= self._first[1]:
            return 0.0
        return (round - self._first[0]) / (now - self._first[1])

    def _of(self) -> str:
        return "" if self._rounds is None else f"/{self._rounds}"

    def _remaining(self, round: int, speed: float) -> str:
        if self._rounds is None or round >= self._rounds or speed <= 0:
            return ""
        return f"ETA {timedelta(seconds=_whole((self._rounds - round) / speed))}"

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def _whole(seconds: float) -> int:
    """Return whole seconds, so that ETA 0 means done."""
    return -int(-seconds // 1)


def _bars(console: Console, rounds: int | None) -> Bars:
    count = "{task.completed:.0f}/{task.total:.0f}" if rounds else "{task.completed:.0f}"
    columns = [
        SpinnerColumn(),
        TextColumn(f"round {count}"),
        *([BarColumn(bar_width=20)] if rounds else []),
        TextColumn("{task.fields[speed]}", style="cyan"),
        TextColumn("{task.fields[score]}"),
        *([TextColumn("ETA"), TimeRemainingColumn()] if rounds else [TimeElapsedColumn()]),
    ]
    return Bars(*columns, console=console)
