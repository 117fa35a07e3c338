"""A line says whom it misses, and why, as often as that is news."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.network import reconnecting
from slaternet.network.certificates import LOOPBACK
from slaternet.network.reconnecting import ReconnectingStream
from slaternet.network.server import serve
from slaternet.network.stream import Stream
from slaternet.network.traffic import Traffic

METHOD = "/slaternet.v1.Agent/Gossip"


@asynccontextmanager
async def served(listen: str = "127.0.0.1:0") -> AsyncIterator[str]:
    """Serve whoever comes, answering with what he says."""

    async def echo(link: Stream) -> None:
        while (data := await link.read()) is not None:
            link.send(data)

    server = await serve(listen, service="slaternet.v1.Agent", unary={}, streams={"Gossip": echo}, hosts=1)
    try:
        yield server.address
    finally:
        await server.stop()


class Caller:
    """One who keeps a line to a server."""

    def __init__(self, address: str) -> None:
        self.attempts = 0
        self.closed = asyncio.Event()
        self._changed = asyncio.Condition()
        self._answers = 0
        self.line = ReconnectingStream(
            "agent-2",
            address,
            METHOD,
            security=LOOPBACK,
            traffic=Traffic(),
            opening=self._open,
            heartbeat=lambda: b"heartbeat",
            on_message=self._receive,
            closed=self.closed.set,
        )
        self._tasks: set[asyncio.Task[None]] = set()

    def _open(self) -> bytes:
        self.attempts += 1
        self._tell()
        return b"opening"

    def _receive(self, data: bytes) -> None:
        self._answers += 1
        self._tell()

    def _tell(self) -> None:
        async def tell() -> None:
            async with self._changed:
                self._changed.notify_all()

        self._tasks.add(asyncio.create_task(tell()))

    async def is_heard(self) -> None:
        """Wait for the next answer."""
        before = self._answers
        async with self._changed:
            await self._changed.wait_for(lambda: self._answers > before)

    async def tries(self, times: int) -> None:
        """Wait for that many attempts more."""
        enough = self.attempts + times
        async with self._changed:
            await self._changed.wait_for(lambda: self.attempts >= enough)


async def test_a_server_that_goes_is_missed_once_for_every_reason_and_welcomed_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reconnecting, "LIMITS", replace(LIMITS, backoff_seconds=0.02))
    with capture_logs() as said:
        async with asyncio.timeout(30):
            async with served() as address:
                caller = Caller(address)
                running = asyncio.create_task(caller.line.run())
                await caller.is_heard()
            await caller.tries(20)
            async with served(address):
                await caller.is_heard()
                running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    told = [each for each in said if each["event"].startswith("stream ")]
    reasons = [each["reason"] for each in told[:-1]]
    assert {each["event"] for each in told[:-1]} == {"stream broke"}
    assert {(each["server"], each["address"]) for each in told} == {("agent-2", address)}
    assert reasons[0] == f"{address} is shutting down"
    assert any("connection refused" in reason for reason in reasons)
    assert len(set(reasons)) == len(reasons)
    assert (told[-1]["event"], told[-1]["log_level"]) == ("stream is back", "info")


async def test_a_server_that_was_never_heard_is_not_missed_at_once() -> None:
    async with served() as address:
        pass
    with capture_logs() as said:
        caller = Caller(address)
        running = asyncio.create_task(caller.line.run())
        async with asyncio.timeout(30):
            await caller.tries(3)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert [each for each in said if each["event"] == "stream broke"] == []


async def test_a_line_that_is_redirected_leaves_a_stream_to_the_older_life_and_goes_where_the_server_is_now() -> None:
    async with asyncio.timeout(30), served() as there, served() as elsewhere:
        caller = Caller(there)
        running = asyncio.create_task(caller.line.run())
        await caller.is_heard()

        caller.line.redirect(elsewhere)
        await caller.is_heard()

        assert caller.line.reconnections == 1
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_line_that_is_redirected_while_it_pauses_tries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnecting, "_FIRST_PAUSE", 3600.0)
    async with asyncio.timeout(30), served() as elsewhere:
        async with served() as gone:
            pass
        caller = Caller(gone)
        running = asyncio.create_task(caller.line.run())
        await caller.tries(1)
        await caller.closed.wait()

        caller.line.redirect(elsewhere)
        await caller.is_heard()

        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_address_that_may_not_be_dialled_is_an_error_at_once_instead_of_one_more_attempt() -> None:
    async with asyncio.timeout(30):
        with pytest.raises(BadSpec, match=r"the address 192\.0\.2\.1:7000 is not on loopback, and without TLS anybody"):
            await Caller("192.0.2.1:7000").line.run()
