"""Notices that a host comes no further, and says for whom it waits.

The host is looked at now and then instead of being timed: a game that goes on pays nothing for it, and a process that
was stopped and continued does not take its own sleep for a wait.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from slaternet.limits import LIMITS, Limits

log = structlog.get_logger()


class Playing(Protocol):
    """A host, as far as patience with it goes."""

    @property
    def round(self) -> int:
        """The round being played."""

    @property
    def lacking(self) -> tuple[str, ...]:
        """The names of those who must do something before it can be finished."""


class StallReport:
    """Looks at one host every `waiting_seconds`, until `end`.

    `say(round, names)` is called when the host has come no further since the last look, and again when others hold it
    up than those named. That it goes on needs no word: its progress says so.
    """

    def __init__(self, host: Playing, say: Callable[[int, tuple[str, ...]], None], limits: Limits = LIMITS) -> None:
        self._host = host
        self._say = say
        self._pause = limits.waiting_seconds
        self._warn_after = limits.heartbeat_seconds
        self._round = 0
        self._waited = 0.0
        self._said: tuple[str, ...] = ()
        self._logged: tuple[str, ...] = ()
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._look)

    def end(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def repeat(self) -> None:
        """Say it again at the next look: whoever has heard it may have forgotten."""
        self._said = ()

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._look)
        if self._host.round != self._round:
            self._go_on()
            return
        self._waited += self._pause
        names = self._host.lacking
        if names and names != self._said:
            self._said = names
            self._say(self._round, names)
        if names and names != self._logged and self._waited >= self._warn_after:
            self._logged = names
            log.warning("waiting", round=self._round, **{"for": ", ".join(names)})

    def _go_on(self) -> None:
        if self._logged:
            log.info("going on", round=self._host.round, waited=self._waited)
        self._round, self._waited, self._said, self._logged = self._host.round, 0.0, (), ()
