"""The machines of a world: what of a process outlives it, through a disk that may forget and files that may tear."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NoReturn, Protocol

from tests.simulation.disk import SimDisk
from tests.simulation.loop import Died, Life, current

from slaternet.storage.disk import Buffer, DiskFile


class Machine:
    """One process's machine: a disk that forgets, but for SQLite's file below `folder`, which does not."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.disk = SimDisk()
        self._closing: list[Callable[[], None]] = []
        (folder / "state" / name).mkdir(parents=True, exist_ok=True)

    def at_death(self, close: Callable[[], None]) -> None:
        """Have something closed that the kernel would close when the process dies."""
        self._closing.append(close)

    def kill(self) -> None:
        """Let the process die."""
        self._close()
        self.disk.kill()

    def crash(self, random: Random) -> None:
        """Let the power fail."""
        self._close()
        self.disk.crash(random)

    def _close(self) -> None:
        for close in self._closing:
            with suppress(Exception):
                close()
        self._closing.clear()


class Fate(Protocol):
    """Who decides where a process dies."""

    random: Random

    def machine_of(self, life: Life) -> Machine:
        """Return the machine of a process."""

    def point(self, where: str) -> None:
        """Let the process that runs die here, if that is its fate; one that is dead already does no more."""

    def doomed(self, where: str) -> bool:
        """Whether the process that runs shall die in the middle of what it does."""

    def die(self, where: str) -> NoReturn:
        """Let it die."""


class Disks:
    """Stands in for DISK: each process has the disk of its own machine, and may die at every operation."""

    def __init__(self, fate: Fate) -> None:
        self._fate = fate

    def _disk(self) -> SimDisk:
        life = current()
        assert life is not None, "only processes touch disks"
        if not life.alive:
            raise Died
        return self._fate.machine_of(life).disk

    def step(self, operation: str, work: Callable[..., Any], *args: object) -> Any:
        """Do something that changes the disk, between two points at which the process may die."""
        self._fate.point(f"before {operation}")
        result = work(*args)
        self._fate.point(f"after {operation}")
        return result

    def tear(self, file: DiskFile, data: bytes) -> None:
        """Die in the middle of a write, if that is what shall happen here."""
        if self._fate.doomed("within append"):
            file.append(data[: self._fate.random.randint(0, len(data))])
            self._fate.die("within append")

    def create(self, path: Path) -> DiskFile:
        return _File(self, self.step("create", self._disk().create, path))

    def open(self, path: Path, *, write: bool = False) -> DiskFile:
        return _File(self, self._disk().open(path, write=write))

    def rename(self, old: Path, new: Path) -> None:
        self.step("rename", self._disk().rename, old, new)

    def remove(self, path: Path) -> None:
        self.step("remove", self._disk().remove, path)

    def names(self, folder: Path) -> list[str]:
        return self._disk().names(folder)

    def make_folder(self, folder: Path) -> None:
        self._disk().make_folder(folder)

    def sync_folder(self, folder: Path) -> None:
        self.step("sync of a folder", self._disk().sync_folder, folder)

    def lock(self, path: Path) -> DiskFile | None:
        return self._disk().lock(path)


class _File:
    """An open file on the disk of one's own machine."""

    def __init__(self, disks: Disks, file: DiskFile) -> None:
        self._disks = disks
        self._file = file

    def size(self) -> int:
        return self._file.size()

    def read(self, offset: int, size: int) -> bytes:
        return self._file.read(offset, size)

    def append(self, data: Buffer) -> None:
        self._disks.tear(self._file, bytes(data))
        self._disks.step("append", self._file.append, data)

    def truncate(self, size: int) -> None:
        self._disks.step("truncate", self._file.truncate, size)

    def sync(self) -> None:
        self._disks.step("sync", self._file.sync)

    def close(self) -> None:
        self._file.close()
