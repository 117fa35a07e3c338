"""Journals: what a process must not forget, recorded before anyone is told; record_file has the layout.

Example:
    with Journal.open(path, role="adversary", run=run) as journal:
        for record in journal.replay():  # what was acknowledged, and at most one record more
            ...
        journal.append(GRANT, round, points, values)
"""

from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Self

from slaternet.errors import BadSpec, Diverged, RunFailed, SlaternetError
from slaternet.limits import LIMITS, Limits
from slaternet.storage.disk import DISK, DRAFT, Buffer, Disk, DiskFile, publish, replace_file
from slaternet.storage.record_file import (
    HEAD_BYTES,
    SEAL_BYTES,
    Reader,
    SealedRecord,
    Title,
    head_bytes,
    seal_of,
    title_bytes,
)


class Durability(StrEnum):
    """What an acknowledged record survives."""

    KILL = "kill"
    """The death of the process, however it dies."""
    FSYNC = "fsync"
    """A loss of power."""


class Journal:
    """A file that only grows. One thread at a time; the state's lock keeps other processes away."""

    def __init__(
        self, path: Path, file: DiskFile, title: Title, durability: Durability, disk: Disk, limits: Limits
    ) -> None:
        self._path = path
        self._file = file
        self._title = title
        self._disk = disk
        self._durability = durability
        self._largest = _largest(limits)
        reader = Reader(path, file, largest=self._largest)
        reader.expect(title)
        self._reader: Reader | None = reader
        self._seal = b""
        self._end = 0
        self._closed = "it must be replayed first"

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        role: str,
        run: str,
        durability: Durability = Durability.KILL,
        disk: Disk = DISK,
        limits: Limits = LIMITS,
    ) -> Self:
        """Begin the journal of a game; BadSpec where `path` holds more than a title, so that no record is ever lost."""
        start = title_bytes(_title(role, run))
        disk.make_folder(path.parent)
        if path.name in disk.names(path.parent) and _size(disk, path) > len(start):
            raise BadSpec(f"{path} holds a game already; start with --fresh to forget it, or choose another --state")
        replace_file(path, start, disk=disk)
        journal = cls.open(path, role=role, run=run, durability=durability, disk=disk, limits=limits)
        for _ in journal.replay():  # there is none; now it may grow
            pass
        return journal

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        role: str,
        run: str,
        durability: Durability = Durability.KILL,
        disk: Disk = DISK,
        limits: Limits = LIMITS,
    ) -> Self:
        """Go on with a journal: `replay` it, then `append`.

        BadSpec where it is missing or another's, Diverged where its title is damaged; nothing is ever guessed.
        """
        file = disk.open(path, write=True)
        try:
            return cls(path, file, _title(role, run), durability, disk, limits)
        except BaseException:
            file.close()
            raise

    def replay(self) -> Iterator[SealedRecord]:
        """Return what is there, record by record as it is read; at the end cut off what a crash has torn.

        Diverged, naming record and byte, where anything else does not fit.
        """
        reader, self._reader = self._reader, None
        if reader is None:  # what has been appended since would look torn to it
            raise RuntimeError(f"{self._path} is replayed once, before it grows; see `read`")
        yield from reader
        self._seal, self._end = reader.seal, reader.end
        if reader.remainder:
            self._file.truncate(self._end)
        # A record may have been written whole, and its writer died before it was synced: from here on it counts.
        self._file.sync()
        self._closed = ""

    def append(self, kind: int, round: int, *payload: Buffer, sync: bool = False) -> None:
        """Write a record down; when this returns it is acknowledged, and survives what `durability` says.

        With `sync`, it and all before it survive a loss of power in any case.

        Where it fails the record is taken back, and the journal takes no other: after a failed sync nobody knows what
        the disk holds. The process ends, and its next life replays what was acknowledged.
        """
        if self._closed:
            self._check_open()
        record = b"".join((head_bytes(self._seal, kind, round, *payload), *payload))
        if (size := len(record) - HEAD_BYTES) > self._largest:
            raise RunFailed(
                f"{self._path} takes no record of {size} bytes, more than {self._largest}; make the game smaller: "
                "fewer agents a host, or fewer coordinates"
            )
        try:
            self._file.append(record)
            if sync or self._durability is Durability.FSYNC:
                self._file.sync()
        except BaseException:
            self._closed = "an earlier one could not be written; start the process again"
            with suppress(SlaternetError):  # what is left then is torn, and the next replay cuts it off
                self._file.truncate(self._end)
            raise
        self._seal = record[HEAD_BYTES - SEAL_BYTES : HEAD_BYTES]
        self._end += len(record)

    def _check_open(self) -> None:
        if self._closed:
            raise RunFailed(f"{self._path} takes no records: {self._closed}")

    def rewrite(self) -> "JournalRewrite":
        """Begin to write the journal anew beside itself; it may grow meanwhile."""
        self._check_open()
        return JournalRewrite(self._path, self._title, self._largest, self._disk)

    def succeed(self, rewriting: "JournalRewrite") -> None:
        """Put what was written anew in this journal's place, and go on there.

        Whatever happens meanwhile, the old file stands there or the new one, whole; where it fails, the journal takes
        no other record, and the next life goes on from the one that it finds.
        """
        self._check_open()
        self._closed = "its successor could not be put in its place; start the process again"
        rewriting.sync()
        publish(self._disk, rewriting.path, self._path)
        self._file.close()
        self._file, self._seal, self._end = rewriting.hand_over()
        self._closed = ""

    def close(self) -> None:
        """Let go of the file."""
        self._closed = "it is closed"
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class JournalRewrite:
    """A journal that is written anew, from what is read of the old one: with other records, and seals of its own."""

    def __init__(self, path: Path, title: Title, largest: int, disk: Disk) -> None:
        self.path = path.with_name(path.name + DRAFT)
        self._disk = disk
        self._old = disk.open(path)
        self._reader = Reader(path, self._old, largest=largest)
        self._file = disk.create(self.path)
        start = title_bytes(title)
        self._file.append(start)
        self._seal, self._end = seal_of(start), len(start)

    @property
    def remainder(self) -> int:
        """How many bytes of the old journal have not been read yet."""
        return self._reader.remainder

    def read(self, size: int) -> Iterator[SealedRecord]:
        """Return the next records of the old journal, so many bytes of them or a little more."""
        end = self._reader.end + size
        while self._reader.end < end and (record := next(iter(self._reader), None)) is not None:
            yield record

    def append(self, kind: int, round: int, payload: bytes) -> None:
        """Write a record."""
        head = head_bytes(self._seal, kind, round, payload)
        self._file.append(head + payload)
        self._seal = seal_of(head)
        self._end += len(head) + len(payload)

    def sync(self) -> None:
        """Return once all that was written would survive a loss of power."""
        self._file.sync()

    def hand_over(self) -> tuple[DiskFile, bytes, int]:
        """Return the file, the last seal and where it ends."""
        self._old.close()
        return self._file, self._seal, self._end

    def abandon(self) -> None:
        """Leave the old journal as it is."""
        self._old.close()
        self._file.close()
        self._disk.remove(self.path)


def read(path: Path, *, disk: Disk = DISK, limits: Limits = LIMITS) -> Iterator[SealedRecord]:
    """Return the records of anybody's journal, for whoever checks them; the file is only read.

    Diverged, naming record and byte, where it is damaged, and at its end where it ends within a record.
    """
    file = disk.open(path)
    try:
        reader = Reader(path, file, largest=_largest(limits))
        yield from reader
        if reader.remainder:
            raise Diverged(
                f"{path} ends within record {reader.count + 1}, which begins at byte {reader.end}; if its process was "
                "killed, start it again: it cuts off what nobody was told"
            )
    finally:
        file.close()


def read_title(path: Path, *, disk: Disk = DISK) -> Title:
    """Return of which role and run a journal is; BadSpec or Diverged where it is none, or damaged."""
    file = disk.open(path)
    try:
        return Reader(path, file, largest=0).title
    finally:
        file.close()


def _title(role: str, run: str) -> Title:
    return {"file": "journal", "role": role, "run": run}


def _largest(limits: Limits) -> int:
    """Return how long a payload may be: what one payload may be on the wire."""
    return limits.parts * limits.part_bytes


def _size(disk: Disk, path: Path) -> int:
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()
