"""Journals: records that are written before their content is sent to anyone; record_file has the layout.

Example:
    with Journal.open(path, role="adversary", run=run) as journal:
        for record in journal.replay():  # everything acknowledged, and at most one record more
            ...
        journal.append(GRANT, round, points, values)
"""

from collections.abc import Iterator
from contextlib import closing, suppress
from enum import StrEnum
from pathlib import Path
from typing import Self

from slaternet.errors import BadSpec, Damaged, RunFailed, SlaternetError
from slaternet.limits import LIMITS, Limits
from slaternet.storage import record_file
from slaternet.storage.disk import DISK, DRAFT, Buffer, Disk, DiskFile, publish, replace_file


class Durability(StrEnum):
    """The failure that an acknowledged record survives."""

    KILL = "kill"
    """The end of the process, however it ends."""
    FSYNC = "fsync"
    """A loss of power."""


class Journal:
    """An append-only file. One thread at a time; the lock of the state folder excludes other processes."""

    def __init__(
        self, path: Path, file: DiskFile, title: record_file.Title, durability: Durability, disk: Disk, limits: Limits
    ) -> None:
        self._path = path
        self._file = file
        self._title = title
        self._disk = disk
        self._durability = durability
        self._largest = _largest(limits)
        reader = record_file.Reader(path, file, largest=self._largest)
        reader.expect(title)
        self._reader: record_file.Reader | None = reader
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
        start = record_file.title_bytes(_title(role, run))
        disk.make_folder(path.parent)
        if path.name in disk.names(path.parent):
            with closing(disk.open(path)) as file:
                if file.size() > len(start):
                    remedy = "start with --fresh to forget it, or choose another --state"
                    raise BadSpec(f"{path} holds a game already; {remedy}")
        replace_file(path, start, disk=disk)
        journal = cls.open(path, role=role, run=run, durability=durability, disk=disk, limits=limits)
        list(journal.replay())  # there is nothing, but `append` requires a replay
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
        """Continue a journal: `replay` it, then `append`.

        BadSpec where it is missing or belongs to another game, Damaged where its title is damaged.
        """
        file = disk.open(path, write=True)
        try:
            return cls(path, file, _title(role, run), durability, disk, limits)
        except BaseException:
            file.close()
            raise

    def replay(self) -> Iterator[record_file.SealedRecord]:
        """Yield the records; at the end cut off one that a crash has torn.

        Damaged, naming record and byte, where the file is damaged otherwise.
        """
        reader, self._reader = self._reader, None
        if reader is None:  # it would take records appended since for torn ones
            raise RuntimeError(f"{self._path} is replayed once, before it grows; see `read`")
        yield from reader
        self._seal, self._end = reader.seal, reader.end
        if reader.remainder:
            self._file.truncate(self._end)
        # The previous process may have ended after writing the last record and before syncing it: sync it now.
        self._file.sync()
        self._closed = ""

    def append(self, kind: int, round: int, *payload: Buffer, sync: bool = False) -> None:
        """Write a record; when this returns it is acknowledged, and survives what `durability` says.

        With `sync`, it and all before it survive a loss of power in any case. If this fails, the record is removed and
        the journal accepts no other: after a failed sync the content of the disk is unknown. The process must end, and
        replays the acknowledged records when it is started again.
        """
        if self._closed:
            self._check_open()
        record = b"".join((record_file.head_bytes(self._seal, kind, round, *payload), *payload))
        if (size := len(record) - record_file.HEAD_BYTES) > self._largest:
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
            with suppress(SlaternetError):  # if this fails too, the next replay cuts the torn record off
                self._file.truncate(self._end)
            raise
        self._seal = record[record_file.HEAD_BYTES - record_file.SEAL_BYTES : record_file.HEAD_BYTES]
        self._end += len(record)

    def _check_open(self) -> None:
        if self._closed:
            raise RunFailed(f"{self._path} takes no records: {self._closed}")

    def rewrite(self) -> "JournalRewrite":
        """Begin a new version of the journal in a file beside it; the journal may grow meanwhile."""
        self._check_open()
        return JournalRewrite(self._path, self._title, self._largest, self._disk)

    def succeed(self, rewriting: "JournalRewrite") -> None:
        """Replace the journal by its new version, and continue there.

        A crash leaves either the old file or the new one, whole. If this fails, the journal accepts no other record,
        and a restarted process continues from the file that it finds.
        """
        self._check_open()
        self._closed = "its successor could not be put in its place; start the process again"
        rewriting.sync()
        publish(self._disk, rewriting.path, self._path)
        self._file.close()
        self._file, self._seal, self._end = rewriting.hand_over()
        self._closed = ""

    def close(self) -> None:
        """Close the file."""
        self._closed = "it is closed"
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class JournalRewrite:
    """A new version of a journal, made from the records of the old one, with seals of its own."""

    def __init__(self, path: Path, title: record_file.Title, largest: int, disk: Disk) -> None:
        self.path = path.with_name(path.name + DRAFT)
        self._disk = disk
        self._old = disk.open(path)
        self._reader = record_file.Reader(path, self._old, largest=largest)
        self._file = disk.create(self.path)
        start = record_file.title_bytes(title)
        self._file.append(start)
        self._seal, self._end = record_file.seal_of(start), len(start)

    @property
    def remainder(self) -> int:
        """How many bytes of the old journal are still unread."""
        return self._reader.remainder

    def read(self, size: int) -> Iterator[record_file.SealedRecord]:
        """Yield the next records of the old journal, at least `size` bytes of them if there are as many."""
        end = self._reader.end + size
        while self._reader.end < end and (record := next(iter(self._reader), None)) is not None:
            yield record

    def append(self, kind: int, round: int, payload: bytes) -> None:
        """Write a record."""
        head = record_file.head_bytes(self._seal, kind, round, payload)
        self._file.append(head + payload)
        self._seal = record_file.seal_of(head)
        self._end += len(head) + len(payload)

    def sync(self) -> None:
        """Return once the new version would survive a loss of power."""
        self._file.sync()

    def hand_over(self) -> tuple[DiskFile, bytes, int]:
        """Return the new file, its last seal and its length; close the old one."""
        self._old.close()
        return self._file, self._seal, self._end

    def abandon(self) -> None:
        """Remove the new version; the old journal stays as it is."""
        self._old.close()
        self._file.close()
        self._disk.remove(self.path)


def read(
    path: Path, *, torn: bool = False, disk: Disk = DISK, limits: Limits = LIMITS
) -> Iterator[record_file.SealedRecord]:
    """Yield the records of any journal, without changing the file.

    Damaged, naming record and byte, where it is damaged or, unless it may be `torn`, ends within a record.
    """
    with closing(disk.open(path)) as file:
        reader = record_file.Reader(path, file, largest=_largest(limits))
        yield from reader
        if reader.remainder and not torn:
            raise Damaged(
                f"{path} ends within record {reader.count + 1}, which begins at byte {reader.end}; if its process was "
                "killed, start it again: it cuts off what was never acknowledged"
            )


def read_title(path: Path, *, disk: Disk = DISK) -> record_file.Title:
    """Return role and run of a journal; BadSpec where it is none, Damaged where it is damaged."""
    with closing(disk.open(path)) as file:
        return record_file.Reader(path, file, largest=0).title


def _title(role: str, run: str) -> record_file.Title:
    return {"file": "journal", "role": role, "run": run}


def _largest(limits: Limits) -> int:
    """Return the largest payload of a record: the largest on the wire."""
    return limits.parts * limits.part_bytes
