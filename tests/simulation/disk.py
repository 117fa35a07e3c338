"""A disk that forgets: what was not synced may vanish, tear, or never have had its name, when the power fails.

It stands in for slaternet.storage.disk.DISK. All chance is drawn from the generator given to `crash`, so
that a seed decides it.
"""

import errno
import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from slaternet.storage.disk import Buffer, DiskFile, refusal


class Died(Exception):
    """The process was to die at this operation, and has: until `kill` or `crash` the disk answers nothing else."""


@dataclass(slots=True, eq=False)
class _Content:
    """What a file holds, what of it is safe, and what has happened since: bytes appended, or a size it was cut to."""

    now: bytearray = field(default_factory=bytearray)
    safe: bytearray = field(default_factory=bytearray)
    since: list[bytes | int] = field(default_factory=list)

    def change(self, change: bytes | int) -> None:
        _apply(self.now, change)
        self.since.append(change)

    def sync(self) -> None:
        for change in self.since:
            _apply(self.safe, change)
        self.since.clear()

    def forget(self, random: Random) -> None:
        """Keep the first few changes, and of the next, if it was a write, a part."""
        kept = random.randint(0, len(self.since))
        torn = self.since[kept : kept + 1]
        del self.since[kept:]
        self.since += [write[: random.randint(0, len(write))] for write in torn if isinstance(write, bytes)]
        self.sync()
        self.now = bytearray(self.safe)


def _apply(content: bytearray, change: bytes | int) -> None:
    if isinstance(change, int):
        del content[change:]
    else:
        content += change


_Names = dict[Path, _Content]


class SimDisk:
    """A disk in memory. Folders are durable at once; names and contents when they are synced."""

    def __init__(self) -> None:
        self.capacity: int | None = None
        """Bytes that fit; a write that does not is made as far as it goes, and refused. None: all fit."""
        self._life = 0
        self._folders: set[Path] = set()
        self._now: _Names = {}
        self._safe: _Names = {}
        self._since: defaultdict[Path, list[_Names]] = defaultdict(list)  # by folder: names given or, by _GONE, taken
        self._refusals: dict[str, int] = {}
        self._death: tuple[int, int] | None = None

    # what a test does to it

    def refuse(self, operation: str, code: int) -> None:
        """Let the next operation of this name (`append`, `sync`, `rename`, ...) fail with an error number."""
        self._refusals[operation] = code

    def die_after(self, operations: int, written: int = 0) -> None:
        """Let the process die at the operation after that many; `written` bytes of it are made, if it is a write."""
        self._death = operations, written

    def kill(self) -> None:
        """Let the process die and the machine live: files are closed, and nothing is lost."""
        self._life += 1
        self._death = None
        self._refusals.clear()

    def crash(self, random: Random) -> None:
        """Let the power fail: of what was not synced, each file and folder keeps the first few changes."""
        for folder in sorted(self._since):
            changes = self._since[folder]
            self._keep(changes[: random.randint(0, len(changes))])
        self._since.clear()
        self._now = dict(self._safe)
        for path in sorted(self._now):
            self._now[path].forget(random)
        self.kill()

    def reboot_and_delete(self, folder: Path, random: Random) -> None:
        """Let the power fail, and whoever sets the machine up again find nothing under `folder`."""
        self.crash(random)
        for names in (self._now, self._safe):
            for path in [each for each in names if folder in each.parents]:
                del names[path]

    def is_safe(self, path: Path) -> bool:
        """Whether a file, as it is now, would survive a loss of power."""
        content = self._now.get(path)
        return content is not None and self._safe.get(path) is content and not content.since

    def damage(self, path: Path, byte: int, mask: int) -> None:
        """Flip bits of a byte that was thought to be safe."""
        content = self._now[path]
        content.sync()
        content.now[byte] ^= mask
        content.safe[byte] ^= mask

    # slaternet.disk.Disk

    def create(self, path: Path) -> DiskFile:
        self.step("create", path)
        if path.parent not in self._folders:
            raise _refused(path, errno.ENOENT)
        if path in self._now:
            self._now[path].change(0)
        else:
            self._change(path.parent, {path: _Content()})
        return _SimFile(self, path, self._now[path])

    def open(self, path: Path, *, write: bool = False) -> DiskFile:
        if path not in self._now:
            raise _refused(path, errno.ENOENT)
        return _SimFile(self, path, self._now[path])

    def rename(self, old: Path, new: Path) -> None:
        self.step("rename", new)
        if old not in self._now:
            raise _refused(new, errno.ENOENT)
        self._change(new.parent, {old: _GONE, new: self._now[old]})

    def remove(self, path: Path) -> None:
        self.step("remove", path)
        if path not in self._now:
            raise _refused(path, errno.ENOENT)
        self._change(path.parent, {path: _GONE})

    def names(self, folder: Path) -> list[str]:
        return sorted(path.name for path in self._now if path.parent == folder)

    def make_folder(self, folder: Path) -> None:
        self.step("make_folder", folder)
        self._folders.update((folder, *folder.parents))

    def sync_folder(self, folder: Path) -> None:
        self.step("sync_folder", folder)
        self._keep(self._since.pop(folder, []))

    def lock(self, path: Path) -> DiskFile | None:
        return _SimFile(self, path, self._now.setdefault(path, _Content()))  # one process at a time uses a machine

    # what the files share

    def step(self, operation: str, path: Path, content: _Content | None = None, data: bytes = b"") -> None:
        """Die or refuse, if that is what shall happen at this operation; of a write, a part may be made."""
        if self._death is not None:
            left, written = self._death
            if left <= 0:
                self._death = 0, 0
                _write_part(content, data[:written])
                raise Died(operation)
            self._death = left - 1, written
        if operation in self._refusals:
            raise _refused(path, self._refusals.pop(operation))
        room = self._room()
        if room is not None and len(data) > room:
            _write_part(content, data[:room])
            raise _refused(path, errno.ENOSPC)

    @property
    def life(self) -> int:
        """Counts the deaths of those who use it; no file stays open across one."""
        return self._life

    def _room(self) -> int | None:
        if self.capacity is None:
            return None
        return max(0, self.capacity - sum(len(content.now) for content in self._now.values()))

    def _change(self, folder: Path, names: _Names) -> None:
        self._since[folder].append(names)
        _rename(self._now, names)

    def _keep(self, changes: list[_Names]) -> None:
        for names in changes:
            _rename(self._safe, names)


_GONE = _Content()


def _rename(names: _Names, change: _Names) -> None:
    for path, content in change.items():
        if content is _GONE:
            names.pop(path, None)
        else:
            names[path] = content


def _write_part(content: _Content | None, data: bytes) -> None:
    if content is not None and data:
        content.change(data)


def _refused(path: Path, code: int) -> Exception:
    return refusal(path, OSError(code, os.strerror(code)))


class _SimFile:
    """An open file, until it is closed or its user dies."""

    def __init__(self, disk: SimDisk, path: Path, content: _Content) -> None:
        self._disk = disk
        self._path = path
        self._content = content
        self._life = disk.life

    def size(self) -> int:
        self._check()
        return len(self._content.now)

    def read(self, offset: int, size: int) -> bytes:
        self._check()
        return bytes(self._content.now[offset : offset + size])

    def append(self, data: Buffer) -> None:
        self._check()
        written = bytes(data)
        self._disk.step("append", self._path, self._content, written)
        self._content.change(written)

    def truncate(self, size: int) -> None:
        self._check()
        self._disk.step("truncate", self._path)
        self._content.change(size)

    def sync(self) -> None:
        self._check()
        self._disk.step("sync", self._path)
        self._content.sync()

    def close(self) -> None:
        self._life = -1

    def _check(self) -> None:
        assert self._life == self._disk.life, f"{self._path} is used though it was closed"
