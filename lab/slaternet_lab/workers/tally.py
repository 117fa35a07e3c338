"""What a user sees while many games are played: a live line on a terminal, a plain line now and then elsewhere."""

import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bars

_PAUSE, _GROWTH = 2.0, 0.05
"""Seconds between two plain lines, at least; on long work they come ever more seldom, in proportion to its time."""


class Tally:
    """Shows runs done of all, and the time that remains; that is told by the rounds, of which runs may have many.

    with Tally(20, 20_000, Console()) as tally:
        tally.update(runs=3, rounds=3500, note="yi2023, seed 2")
    """

    def __init__(self, runs: int, rounds: int, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._runs = runs
        self._rounds = rounds
        self._console = console
        self._clock = clock
        self._before: int | None = None
        self._began: tuple[int, float] | None = None
        self._started = self._shown = clock()
        self._complete = False
        self._bars: Bars | None = None
        if console.is_terminal:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.fields[runs]} runs"),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[remaining]}", style="cyan"),
                TextColumn("{task.fields[note]}"),
            )
            self._bars = Bars(*columns, console=console)
            self._task = self._bars.add_task("", total=rounds, runs=f"0/{runs}", remaining="", note="starting")

    def __enter__(self) -> Self:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars:
            self._bars.stop()

    def update(self, runs: int, rounds: int, note: str = "") -> None:
        """Say how many runs are done, how many rounds in all, and what else there is to say."""
        now = self._clock()
        done, remaining = f"{runs}/{self._runs}", self._remaining(rounds, now)
        if self._bars:
            self._bars.update(self._task, completed=rounds, runs=done, remaining=remaining, note=note)
        elif now - self._shown >= _PAUSE or (runs == self._runs and not self._complete):
            self._shown, self._complete = now, runs == self._runs
            line = "  ".join(part for part in (f"{done} runs", remaining, note) if part)
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _remaining(self, rounds: int, now: float) -> str:
        """Estimate the time by the rounds since the first new ones; neither kept runs nor the start-up count."""
        self._before = rounds if self._before is None else self._before
        if self._began is None and rounds > self._before:
            self._began = (rounds, now)
        if self._began is None or not self._began[0] < rounds < self._rounds:
            return ""
        first, began = self._began
        seconds = (now - began) * (self._rounds - rounds) / (rounds - first)
        return f"ETA {timedelta(seconds=-int(-seconds // 1))}"
