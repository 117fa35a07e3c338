"""The one seam to the file system for what must outlive a process: small enough for a test to stand in for it.

What is written has reached the kernel when a call returns, so the death of the process does not take it back. A loss
of power may, until `sync` has returned for a file's content and `sync_folder` for its name.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from slaternet.errors import BadSpec, RunFailed, SlaternetError

Buffer: TypeAlias = "bytes | bytearray | memoryview[Any]"

DRAFT = ".draft"
"""Ends the name of a file that is not yet what it shall be."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}
# where there is no fdatasync, the slower fsync promises the same
_sync = getattr(os, "fdatasync", os.fsync)


class DiskFile(Protocol):
    """An open file. What goes wrong is one sentence: BadSpec or RunFailed, made by `refusal`."""

    def size(self) -> int:
        """Return how many bytes it has."""

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` on, or those that there are."""

    def append(self, data: Buffer) -> None:
        """Add to its end. Where this raises, any part of `data` may stand there."""

    def truncate(self, size: int) -> None:
        """Cut off what lies behind the first `size` bytes."""

    def sync(self) -> None:
        """Return once the content would survive a loss of power."""

    def close(self) -> None:
        """Close it; once more does nothing."""


class Disk(Protocol):
    """The files that are there. What goes wrong is one sentence: BadSpec or RunFailed, made by `refusal`."""

    def create(self, path: Path) -> DiskFile:
        """Open an empty file; what was at `path` is gone."""

    def open(self, path: Path, *, write: bool = False) -> DiskFile:
        """Open a file that exists."""

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name in its folder, in the place of any file that had it."""

    def remove(self, path: Path) -> None:
        """Remove a file; a loss of power may bring it back."""

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, sorted; none where there is no folder."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder and those it stands in, where they are missing; they survive a loss of power."""

    def sync_folder(self, folder: Path) -> None:
        """Return once the names in a folder would survive a loss of power."""

    def lock(self, path: Path) -> DiskFile | None:
        """Open a file and lock it until it is closed or the process ends; None where another process has locked it."""


def draft(disk: Disk, path: Path, *pieces: Buffer) -> Path:
    """Write what shall stand at `path` into a file beside it, and return which, once it survives a loss of power."""
    beside = path.with_name(path.name + DRAFT)
    file = disk.create(beside)
    try:
        for piece in pieces:
            file.append(piece)
        file.sync()
    except SlaternetError:
        with suppress(SlaternetError):  # half a file would only take room that is lacking
            disk.remove(beside)
        raise
    finally:
        file.close()
    return beside


def publish(disk: Disk, beside: Path, path: Path) -> None:
    """Put a draft in its place. Whatever happens meanwhile, the old file stands there or the new one, whole."""
    disk.rename(beside, path)
    disk.sync_folder(path.parent)


def refusal(path: Path, error: OSError) -> SlaternetError:
    """Say what the file system refused, and what helps."""
    if error.errno in _FULL:
        return RunFailed(
            f"there is no room for {path}: {error.strerror}; nothing acknowledged is lost: free space and start again"
        )
    if error.errno == errno.ENOENT:
        return BadSpec(f"{path} is missing; put it back, or begin the whole game anew")
    if error.errno in _FORBIDDEN:
        return BadSpec(f"{path} cannot be used: {error.strerror}; make it accessible, or choose another folder")
    return RunFailed(f"{path} cannot be used: {error.strerror}; see to its disk and start again")


@dataclass(frozen=True, slots=True)
class _Using:
    """What the file system refuses about a path is said in a sentence."""

    path: Path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise refusal(self.path, error) from None


class _RealFile:
    __slots__ = ("_using", "descriptor")

    def __init__(self, path: Path, flags: int) -> None:
        self._using = _Using(path)
        with self._using:
            self.descriptor = os.open(path, flags, 0o644)

    def size(self) -> int:
        with self._using:
            return os.fstat(self.descriptor).st_size

    def read(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self.size())  # no more memory than there is file
        pieces = []
        with self._using:
            while offset < end and (piece := os.pread(self.descriptor, end - offset, offset)):
                pieces.append(piece)
                offset += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def append(self, data: Buffer) -> None:
        try:
            written, size = os.write(self.descriptor, data), memoryview(data).nbytes
            while written < size:  # the call that follows a short one says why it was short
                written += os.write(self.descriptor, memoryview(data).cast("B")[written:])
        except OSError as error:
            raise refusal(self._using.path, error) from None

    def truncate(self, size: int) -> None:
        with self._using:
            os.ftruncate(self.descriptor, size)

    def sync(self) -> None:
        with self._using:
            _sync(self.descriptor)

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            with self._using:
                os.close(descriptor)


class _RealDisk:
    def create(self, path: Path) -> DiskFile:
        return _RealFile(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC)

    def open(self, path: Path, *, write: bool = False) -> DiskFile:
        return _RealFile(path, os.O_RDWR | os.O_APPEND if write else os.O_RDONLY)

    def rename(self, old: Path, new: Path) -> None:
        with _Using(new):
            old.replace(new)

    def remove(self, path: Path) -> None:
        with _Using(path):
            path.unlink()

    def names(self, folder: Path) -> list[str]:
        with _Using(folder), suppress(FileNotFoundError):
            return sorted(os.listdir(folder))
        return []

    def make_folder(self, folder: Path) -> None:
        with _Using(folder):
            missing = [each for each in (folder, *folder.parents) if not each.exists()]
            for each in reversed(missing):
                each.mkdir(exist_ok=True)
                self.sync_folder(each.parent)

    def sync_folder(self, folder: Path) -> None:
        with _Using(folder):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def lock(self, path: Path) -> DiskFile | None:
        import fcntl  # not on every platform, and needed only with --state

        file = _RealFile(path, os.O_RDWR | os.O_CREAT)
        locked = False
        try:
            with _Using(path), suppress(BlockingIOError):
                fcntl.flock(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                locked = True
        finally:
            if not locked:
                file.close()
        return file if locked else None


DISK: Disk = _RealDisk()


def replace_file(path: Path, *pieces: Buffer, disk: Disk = DISK) -> None:
    """Write a file, whole or not at all; when this returns, it survives a loss of power."""
    publish(disk, draft(disk, path, *pieces), path)


def read_file(path: Path, *, disk: Disk = DISK) -> bytes:
    """Return what a file holds."""
    file = disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Let a library write a file of any size beside `path`, at the block's value; at its end, put it in its place.

    The file is there whole or not at all, and then survives a loss of power.
    """
    beside = path.with_name(path.name + DRAFT)
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
        DISK.sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)
