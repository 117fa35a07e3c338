"""An adversary that is ended within a game and started again with the same state goes on to the same digest."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock

import pytest
from structlog.testing import capture_logs
from tests.support.services import DEADLINE, LOOPBACK, Game, gathering, small_spec

from slaternet.errors import BadSpec, Diverged, Mismatch, RunFailed
from slaternet.limits import LIMITS
from slaternet.service.config import ProcessConfig
from slaternet.storage.failpoints import VARIABLE
from slaternet.storage.journal import Durability, Journal
from slaternet_adversary.journal.entries import Purchase
from slaternet_adversary.journal.journal import JOURNAL, read
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService

ADAPTIVE = """
from slaternet_adversary.builtin.moving_target import MovingTarget

class Adaptive(MovingTarget):
    history = 2
"""


class Lives:
    """The adversary's processes, one after the other."""

    def __init__(self, address: str, folder: Path) -> None:
        self._folder = folder
        self._config = ProcessConfig(
            "adversary", address, LOOPBACK, state=folder / "state", durability=Durability.FSYNC
        )
        self._stop = asyncio.Event()
        self.last: asyncio.Task[int] | None = None

    def start(self, out: str = "game") -> "asyncio.Task[int]":
        self._stop = asyncio.Event()
        # as the same command would: it may say --force, and that is no reason to lose what it has begun
        service = AdversaryService(self._config, self._folder / out, force=True)
        self.last = asyncio.create_task(service.run(self._stop))
        return self.last

    async def end(self) -> None:
        assert self.last is not None
        self._stop.set()
        async with asyncio.timeout(DEADLINE):
            assert await self.last == 130


@asynccontextmanager
async def playing(folder: Path, *settings: str) -> AsyncIterator[tuple[Game, Lives]]:
    """Begin a game without end; at the end of the block it is stopped, and compared with its simulation."""
    async with gathering(small_spec(*settings, rounds=None), hosts=2) as gathered:
        lives = Lives(gathered.address, folder)
        for name in ("agent-1", "agent-2"):
            gathered.start(HostService(ProcessConfig(name, gathered.address, LOOPBACK)))
        lives.start()
        game = Game(gathered.address, folder / "game", gathered.tasks, "")
        try:
            await game.until(lambda status: status.phase == "playing")
            yield game, lives
            assert lives.last is not None
            gathered.tasks.append(lives.last)
            await game.ends_as_its_simulation(folder / "simulation")
        finally:
            if lives.last is not None:
                lives.last.cancel()
                await asyncio.gather(lives.last, return_exceptions=True)


async def test_an_adversary_that_is_started_again_goes_on_in_its_folder(tmp_path: Path) -> None:
    async with playing(tmp_path) as (game, lives):
        for _ in range(2):
            await game.goes_on()
            await lives.end()
            lives.start()
        await game.goes_on()

    asked = [
        (entry.asked.host, entry.asked.question.round) for entry in read(game.folder) if isinstance(entry, Purchase)
    ]
    assert len(set(asked)) == len(asked)  # nothing was bought twice


async def test_a_game_that_is_recorded_elsewhere_is_not_begun_again(tmp_path: Path) -> None:
    async with playing(tmp_path) as (game, lives):
        await game.goes_on()
        await lives.end()
        with pytest.raises(BadSpec, match=r"this game is recorded in .*game, not in .*other; start with --out .*game$"):
            await lives.start("other")
        lives.start()


@pytest.mark.parametrize("lost", ["game", "state"])
async def test_an_adversary_without_its_journal_does_not_begin_another_within_the_game(
    lost: str, tmp_path: Path
) -> None:
    async with playing(tmp_path) as (game, lives):
        await game.goes_on()
        await lives.end()
        (tmp_path / lost).rename(tmp_path / "elsewhere")
        with pytest.raises(
            Mismatch, match=r"under way, and its journal .*adversary is missing; put back the run folder"
        ):
            await lives.start()
        assert not (tmp_path / "game" / JOURNAL).exists() or lost == "state"

        shutil.rmtree(tmp_path / lost, ignore_errors=True)
        (tmp_path / "elsewhere").rename(tmp_path / lost)
        lives.start()


async def test_a_full_disk_ends_the_process_and_not_the_game(tmp_path: Path) -> None:
    async with playing(tmp_path) as (game, lives):
        await game.goes_on()
        assert lives.last is not None
        with (
            mock.patch.object(Journal, "append", side_effect=RunFailed("there is no room")),
            pytest.raises(RunFailed, match="there is no room"),
        ):
            await asyncio.wait_for(lives.last, DEADLINE)
        lives.start()
        await game.goes_on()


@pytest.mark.slow
async def test_a_plugin_whose_process_is_killed_again_and_again_is_played_again_within_the_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "adversary_during_evaluation:kill@80")  # in each life of the worker
    async with playing(tmp_path, "adversary.isolation=process") as (game, lives):
        with capture_logs() as logs:
            await game.until(lambda status: sum("played again" in each["event"] for each in logs) >= 2)
        await game.goes_on()
        assert lives.last is not None
        assert not lives.last.done()


@pytest.mark.slow
async def test_an_adaptive_plugin_in_a_process_of_its_own_plays_again_from_the_first_round(tmp_path: Path) -> None:
    plugin = tmp_path / "adaptive.py"
    plugin.write_text(ADAPTIVE)
    async with playing(tmp_path, f"adversary.plugin={plugin}:Adaptive") as (game, lives):
        for _ in range(3):
            await game.goes_on()
            await lives.end()
            lives.start()


async def test_a_journal_that_lacks_what_hosts_go_on_from_is_refused_and_nothing_is_cut_to_fit(tmp_path: Path) -> None:
    async with playing(tmp_path) as (game, lives):
        await game.until(lambda status: status.round > 2 * LIMITS.window)
        await lives.end()
        journal, rows = game.folder / JOURNAL, game.folder / "metrics.csv"
        whole = journal.read_bytes()
        journal.write_bytes(whole[: len(whole) // 3])
        before = {path: path.read_bytes() for path in (journal, rows, game.folder / "commitments.csv")}

        with pytest.raises(Diverged, match=rf"{JOURNAL} ends in round \d+, and it was complete up to round \d+, from"):
            await lives.start()

        assert {path: path.read_bytes() for path in before} == before
        journal.write_bytes(whole)
        lives.start()
