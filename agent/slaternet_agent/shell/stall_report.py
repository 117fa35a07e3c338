"""Reports for whom a host waits when it makes no progress.

The host is polled now and then instead of being timed: a game that goes on pays nothing for it, and a process that was
suspended does not count its own sleep as a wait.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from slaternet.limits import LIMITS, Limits

log = structlog.get_logger()


class Playing(Protocol):
    """The part of a host that is polled."""

    round: int

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The names of the processes that must act before the round can be finished."""


class StallReport:
    """Polls one host every `waiting_seconds`, until `end`.

    `report(round, names)` is called when the host is in the same round as at the last poll, and again when it waits for
    others. That it goes on is not reported: its progress shows it.
    """

    def __init__(self, host: Playing, report: Callable[[int, tuple[str, ...]], None], limits: Limits = LIMITS) -> None:
        self._host = host
        self._report = report
        self._pause = limits.waiting_seconds
        self._warn_after = limits.heartbeat_seconds
        self._round = 0
        self._waited = 0.0
        self._reported: tuple[str, ...] = ()
        self._logged: tuple[str, ...] = ()
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._poll)

    def end(self) -> None:
        """Stop polling."""
        self._timer.cancel()

    def repeat(self) -> None:
        """Report again at the next poll: the coordinator may have been restarted."""
        self._reported = ()

    def _poll(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._poll)
        if self._host.round != self._round:
            if self._logged:
                log.info("going on", round=self._host.round, waited=self._waited)
            self._round, self._waited, self._reported, self._logged = self._host.round, 0.0, (), ()
            return
        self._waited += self._pause
        names = self._host.waiting_for
        if names and names != self._reported:
            self._reported = names
            self._report(self._round, names)
        if names and names != self._logged and self._waited >= self._warn_after:
            self._logged = names
            log.warning("waiting", round=self._round, **{"for": ", ".join(names)})
