"""The one interface to the file system for durable data: small enough for a test to replace it.

Written data has reached the kernel when a call returns, so it survives the process. It survives a loss of power only
after `sync` has returned for a file's content and `sync_folder` for its name.

Nothing is ever written through a link: a folder may come from somebody else, with names in it that lead elsewhere. A
file that is written anew replaces its name, and the file behind a link stays as it was; a file that grows, or a folder
in which files are written, must not be a link.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

from slaternet.errors import BadSpec, RunFailed, SlaternetError

Buffer: TypeAlias = "bytes | bytearray | memoryview[Any]"

DRAFT = ".draft"
"""Suffix of a file that is still being written."""

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of a disk that is full."""
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}
# without fdatasync, the slower fsync gives the same guarantee
_sync = getattr(os, "fdatasync", os.fsync)


class DiskFile(Protocol):
    """An open file. Every failure is a BadSpec or RunFailed of one sentence, made by `refusal`."""

    def size(self) -> int:
        """Return its length in bytes."""

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset` on."""

    def append(self, data: Buffer) -> None:
        """Add to its end. If this raises, any part of `data` may have been written."""

    def truncate(self, size: int) -> None:
        """Cut it to its first `size` bytes."""

    def sync(self) -> None:
        """Return once the content would survive a loss of power."""

    def close(self) -> None:
        """Close it; a second call does nothing."""


class Disk(Protocol):
    """A file system. Every failure is a BadSpec or RunFailed of one sentence, made by `refusal`."""

    def create(self, path: Path) -> DiskFile:
        """Open an empty file, in place of any file at `path`."""

    def open(self, path: Path, *, write: bool = False) -> DiskFile:
        """Open a file that exists."""

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file within its folder; it replaces any file of the new name."""

    def remove(self, path: Path) -> None:
        """Remove a file; a loss of power may undo that."""

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, sorted; none if the folder does not exist."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder and its parents where they are missing; they survive a loss of power.

        The folder itself must not be a link: its parents may be, which are chosen by the user.
        """

    def sync_folder(self, folder: Path) -> None:
        """Return once the names in a folder would survive a loss of power."""

    def lock(self, path: Path) -> DiskFile | None:
        """Open a file and lock it until it is closed or the process ends; None if another process has locked it."""


def draft(disk: Disk, path: Path, *pieces: Buffer) -> Path:
    """Write the new content of `path` into a file beside it; return that file once it survives a loss of power."""
    beside = path.with_name(path.name + DRAFT)
    with closing(disk.create(beside)) as file:
        try:
            for piece in pieces:
                file.append(piece)
            file.sync()
        except SlaternetError:
            with suppress(SlaternetError):  # on a full disk, half a file would only take space
                disk.remove(beside)
            raise
    return beside


def publish(disk: Disk, beside: Path, path: Path) -> None:
    """Rename a draft to its final name. A crash leaves either the old file or the new one, whole."""
    disk.rename(beside, path)
    disk.sync_folder(path.parent)


def refusal(path: Path, error: OSError) -> SlaternetError:
    """Return an error that names the refused path, the cause and the remedy."""
    if error.errno in FULL:
        return RunFailed(
            f"there is no room for {path}: {error.strerror}; nothing acknowledged is lost: free space and start again"
        )
    if error.errno == errno.ENOENT:
        return BadSpec(f"{path} is missing; put it back, or begin the whole game anew")
    if error.errno == errno.ELOOP:
        return BadSpec(f"{path} is a link, and nothing is written through links; put what it leads to in its place")
    if error.errno in (errno.ENXIO, errno.ENODEV):
        return BadSpec(f"{path} is not an ordinary file; put one in its place")
    if error.errno in _FORBIDDEN:
        return BadSpec(f"{path} cannot be used: {error.strerror}; make it accessible, or choose another folder")
    return RunFailed(f"{path} cannot be used: {error.strerror}; see to its disk and start again")


@dataclass(frozen=True, slots=True)
class _Using:
    """Turns an OSError about a path into a `refusal`."""

    path: Path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise refusal(self.path, error) from None


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file and return its descriptor; OSError where it is a device or a pipe, or to be written and a link."""
    # O_NONBLOCK: opening a pipe would wait for somebody at its other end
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    found = os.fstat(descriptor)
    regular = stat.S_ISREG(found.st_mode)
    if regular and (flags & os.O_ACCMODE == os.O_RDONLY or found.st_nlink == 1):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.ELOOP, "it is a link") if regular else OSError(errno.ENXIO, "it is not an ordinary file")


def create_anew(path: Path, flags: int = 0) -> int:
    """Create a file in place of any file or link of this name and return its descriptor; OSError where that fails."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o644)


def open_data(path: Path, *, anew: bool) -> IO[bytes]:
    """Open a file to read and write, `anew` in place of any file of its name; BadSpec where it is no ordinary one."""
    with _Using(path):
        return open(create_anew(path) if anew else open_regular(path, os.O_RDWR | os.O_NOFOLLOW), "r+b")


def open_log(path: Path) -> IO[bytes]:
    """Open a file to append to, without a buffer; BadSpec where it is a link."""
    with _Using(path):
        return open(open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW), "ab", buffering=0)


def is_link(path: Path) -> bool:
    """Return whether a name stands for something that has another place: what is written there changes that."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink > 1)


def refuse_link(path: Path) -> None:
    """Raise BadSpec where a path is a link."""
    if is_link(path):
        raise refusal(path, OSError(errno.ELOOP, ""))


class _RealFile:
    __slots__ = ("_using", "descriptor")

    def __init__(self, path: Path, descriptor: int) -> None:
        self._using = _Using(path)
        self.descriptor = descriptor

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
            while written < size:  # the call after a short one raises its cause
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
        with _Using(path):
            return _RealFile(path, create_anew(path, os.O_APPEND))

    def open(self, path: Path, *, write: bool = False) -> DiskFile:
        with _Using(path):
            flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW if write else os.O_RDONLY
            return _RealFile(path, open_regular(path, flags))

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
        refuse_link(folder)
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

        with _Using(path):
            file = _RealFile(path, open_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW))
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
    """Replace a file, whole or not at all; when this returns, it survives a loss of power."""
    publish(disk, draft(disk, path, *pieces), path)


def read_file(path: Path, *, most: int | None = None, disk: Disk = DISK) -> bytes:
    """Return the content of a file; BadSpec where it is longer than `most` bytes."""
    with closing(disk.open(path)) as file:
        size = file.size()
        if most is not None and size > most:
            raise BadSpec(f"{path} is longer than the {most} bytes that such a file may have; put back the right one")
        return file.read(0, size)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file beside `path` for a library to write to; after the block, rename it to `path`.

    `path` is replaced whole or not at all, and then survives a loss of power. RunFailed where the disk is full, else an
    OSError that names the path.
    """
    beside = path.with_name(path.name + DRAFT)
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # to replace /dev/null would be a calamity
            raise OSError(errno.EINVAL, "It is no ordinary file")
        descriptor = create_anew(beside)
        try:
            with open(descriptor, "w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
            DISK.sync_folder(path.parent)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        if error.errno in FULL:
            raise refusal(path, error) from None
        error.filename = str(path)
        raise
