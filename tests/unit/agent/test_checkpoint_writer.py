"""Checkpoints are written in order, one at a time, and never in the way of the rounds."""

import asyncio
import threading
from pathlib import Path

from slaternet.errors import RunFailed, SlaternetError
from slaternet.storage.checkpoints import Checkpoints
from slaternet.storage.disk import DISK, Disk, DiskFile
from slaternet_agent.engine.events import Checkpoint
from slaternet_agent.shell.checkpoint_writer import CheckpointWriter


class SlowDisk:
    """A disk that takes its time with every new file, until it is told that it may go on."""

    def __init__(self, full_at: int = 0) -> None:
        self.may_go_on = threading.Event()
        self.creating = threading.Semaphore(0)
        self.at_once, self.most = 0, 0
        self._full_at = full_at

    def create(self, path: Path) -> DiskFile:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.creating.release()
        assert self.may_go_on.wait(30)
        self.at_once -= 1
        if self._full_at and path.name.startswith(f"{self._full_at:06d}"):
            raise RunFailed("there is no room")
        return DISK.create(path)

    def __getattr__(self, name: str) -> object:
        return getattr(DISK, name)


class Desk:
    """A writer, and what it reports."""

    def __init__(self, folder: Path, disk: object = DISK) -> None:
        self.said: list[object] = []
        self.done = asyncio.Event()
        real: Disk = disk  # type: ignore[assignment]
        self.checkpoints = Checkpoints(folder / "checkpoints", "agent-1", "run-1", "5" * 64, real)
        self.writer = CheckpointWriter(self.checkpoints, kept=self.said.append, failed=self._fail)

    def _fail(self, error: SlaternetError) -> None:
        self.said.append(str(error))
        self.done.set()

    async def finished(self) -> None:
        async with asyncio.timeout(30):
            await self.done.wait()


def payload(round: int) -> bytes:
    return round.to_bytes(8, "little")


async def test_every_checkpoint_is_kept_in_order_one_at_a_time_while_others_go_on(tmp_path: Path) -> None:
    disk = SlowDisk()
    desk = Desk(tmp_path, disk)
    for round in (64, 128, 192, 200):
        desk.writer.write(Checkpoint(round, payload(round)))
    desk.writer.then(desk.done.set)
    await asyncio.to_thread(disk.creating.acquire)
    assert (desk.said, desk.checkpoints.rounds()) == ([], [])  # the disk is being waited for, and this goes on

    disk.may_go_on.set()
    await desk.finished()

    assert desk.said == [64, 128, 192, 200]
    assert disk.most == 1
    assert [desk.checkpoints.read(round) for round in desk.checkpoints.rounds()] == [
        payload(round) for round in (64, 128, 192, 200)
    ]
    assert desk.writer.read(128) == payload(128)


async def test_what_nobody_goes_back_to_is_removed_and_the_checkpoint_at_the_mark_is_not(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for round in (64, 128, 192):
        desk.writer.write(Checkpoint(round, payload(round)))
    for mark in (0, 128, 64):  # the last is old news
        desk.writer.forget_before(mark)
    desk.writer.then(desk.done.set)
    await desk.finished()

    assert desk.checkpoints.rounds() == [128, 192]


async def test_a_disk_that_is_full_says_so_once_and_nothing_is_kept_after_the_gap(tmp_path: Path) -> None:
    disk = SlowDisk(full_at=128)
    disk.may_go_on.set()
    desk = Desk(tmp_path, disk)
    for round in (64, 128, 192):
        desk.writer.write(Checkpoint(round, payload(round)))
    desk.writer.then(lambda: desk.said.append("the end"))
    await desk.finished()
    await desk.writer.close()

    assert desk.said == [64, "there is no room"]
    assert desk.checkpoints.rounds() == [64]


async def test_a_keeper_that_is_closed_waits_for_the_write_under_way_and_begins_no_other(tmp_path: Path) -> None:
    disk = SlowDisk()
    desk = Desk(tmp_path, disk)
    for round in (64, 128):
        desk.writer.write(Checkpoint(round, payload(round)))
    await asyncio.to_thread(disk.creating.acquire)
    closing = asyncio.create_task(desk.writer.close())
    await asyncio.sleep(0)
    assert not closing.done()

    disk.may_go_on.set()
    await closing

    assert (desk.said, desk.checkpoints.rounds()) == ([64], [64])
    await desk.writer.close()
