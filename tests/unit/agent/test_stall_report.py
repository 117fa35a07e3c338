import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import structlog
from structlog.typing import EventDict

from slaternet.limits import LIMITS
from slaternet_agent.shell.stall_report import StallReport

WAITING = 1e-3
SHORT = replace(LIMITS, waiting_seconds=WAITING, heartbeat_seconds=3 * WAITING)


class Actor:
    """A host that does as it is told, and counts how often it is looked at."""

    def __init__(self) -> None:
        self.looks = 0
        self.waiting_for: tuple[str, ...] = ("agent-2",)
        self.runs = False
        self._round = 1
        self._looked = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def round(self) -> int:
        self.looks += 1
        self._round += self.runs
        self._tasks.add(asyncio.create_task(self._tell()))
        return self._round

    async def _tell(self) -> None:
        async with self._looked:
            self._looked.notify_all()

    def go_on(self) -> None:
        self._round += 1

    async def is_looked_at(self, times: int) -> None:
        """Wait until the host has been looked at that often from now on."""
        enough = self.looks + times
        async with self._looked:
            await self._looked.wait_for(lambda: self.looks >= enough)


class Watched:
    """A host under watch, and what was said of it."""

    def __init__(self) -> None:
        self.actor = Actor()
        self.said: list[tuple[int, tuple[str, ...]]] = []
        self.log: list[EventDict] = []
        self.patience = StallReport(self.actor, lambda *words: self.said.append(words), SHORT)


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    with structlog.testing.capture_logs() as log:
        host = Watched()
        host.log = log
        async with asyncio.timeout(30):
            yield host
    host.patience.end()


async def test_a_host_that_comes_no_further_says_for_whom_it_waits_and_says_it_once() -> None:
    async with watched() as host:
        await host.actor.is_looked_at(20)

    assert host.said == [(1, ("agent-2",))]


async def test_it_says_so_again_when_it_waits_for_others_or_in_another_round() -> None:
    async with watched() as host:
        await host.actor.is_looked_at(6)
        host.actor.waiting_for = ("adversary",)
        await host.actor.is_looked_at(6)
        host.actor.go_on()
        await host.actor.is_looked_at(6)

    assert host.said == [(1, ("agent-2",)), (1, ("adversary",)), (2, ("adversary",))]


async def test_it_says_so_again_when_it_is_asked_to_and_never_for_nobody() -> None:
    async with watched() as host:
        await host.actor.is_looked_at(6)
        host.patience.repeat()
        await host.actor.is_looked_at(6)
        host.actor.waiting_for = ()  # the last round is finished
        host.patience.repeat()
        await host.actor.is_looked_at(6)

    assert host.said == [(1, ("agent-2",))] * 2


async def test_a_host_that_goes_on_says_nothing() -> None:
    async with watched() as host:
        host.actor.runs = True
        await host.actor.is_looked_at(20)

    assert (host.said, host.log) == ([], [])


async def test_a_long_wait_is_logged_once_and_so_is_its_end() -> None:
    async with watched() as host:
        host.actor.waiting_for = ("agent-2", "agent-3")
        await host.actor.is_looked_at(12)
        host.actor.go_on()
        host.actor.waiting_for = ()
        await host.actor.is_looked_at(6)

    waiting, going_on = host.log
    assert waiting == {"log_level": "warning", "event": "waiting", "round": 1, "for": "agent-2, agent-3"}
    assert (going_on["log_level"], going_on["event"], going_on["round"]) == ("info", "going on", 2)
    assert going_on["waited"] > 0
