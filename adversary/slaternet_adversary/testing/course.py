"""How an exam goes on: what it asks of the author's code, where that code stands, and when the exam must end."""

import math
import time
from collections.abc import Callable

from slaternet.spec.author_frames import definition

Told = Callable[[str, int], None]
"""Receives the call that comes next, and how many rounds have been played."""


class OutOfTime(Exception):
    """The seconds of the exam are over; never leaves it."""


class Course:
    """Follows an exam from call to call."""

    def __init__(
        self,
        seconds: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
        told: Told = lambda call, played: None,
    ) -> None:
        self.seconds = seconds
        self._clock = clock
        self._told = told
        self._until = None if seconds is None else clock() + seconds
        self.call = ""
        """The last call."""
        self.where = ""
        """File and line of the method that it was of; empty where they are not known."""
        self._standing: dict[str, str] = {}
        self._places: dict[tuple[type, str], str] = {}
        self._played = 0

    def ask(self, call: str, method: str, of: object) -> None:
        """Note that a method of an object is called next; OutOfTime where no time is left for it."""
        if self.rest <= 0.0:
            raise OutOfTime
        place = self._places.get((type(of), method))
        if place is None:  # to be found once: that takes longer than many a call
            frames = definition(of, method) if of is not None else ()
            place = self._places[type(of), method] = f"{frames[0].file}:{frames[0].line}" if frames else ""
        self.call, self.where, self._standing[method] = call, place, place
        self._played += method == "play"
        self._told(call, self._played)

    def answered(self) -> None:
        """Note that the call has returned."""

    @property
    def rest(self) -> float:
        """Seconds that are left; infinite where there is no limit."""
        return math.inf if self._until is None else self._until - self._clock()

    def standing(self, method: str) -> str:
        """Return file and line of a method as it was last called; of "" those of the last call of all."""
        return self._standing.get(method, "") if method else self.where
