"""Files of sealed records: journals and checkpoints, read after a restart and by audits.

    file      title, record, record, ...
    title     magic (8 bytes), version (4), length (2), as many bytes of text: whose file it is; SHA-256 of that (32)
    record    length of the payload (8), kind (2), round (8), CRC-32 of these three (4), seal (32), payload

Numbers are little-endian. A record's seal is the SHA-256 of the seal before it (the title's, for the first), of its
length, kind and round, and of its payload: no record can be changed, left out or moved unnoticed. The CRC-32 checks the
length before the payload is read: where the file ends within a record whose head is sound, a crash has torn it; where a
head is not sound, the file was damaged, and the rest is not discarded. A CRC-32 of the payload would cost two thirds of
its SHA-256 and find nothing more.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slaternet.errors import BadSpec, Damaged
from slaternet.storage.disk import Buffer, DiskFile

VERSION = 3
"""Increases when the layout above or that of any payload changes."""

Title = dict[str, str]
"""The owner of a file: one line for each key, which has no space, and value, which has no line end."""

_MAGIC = b"SLATERN\n"
_START = struct.Struct("<8sIH")
_HEAD = struct.Struct("<QHQ")
_CHECK = struct.Struct("<I")
SEAL_BYTES = hashlib.sha256().digest_size
"""How long a seal is; it ends the head of a record."""
HEAD_BYTES = _HEAD.size + _CHECK.size + SEAL_BYTES
"""How long the head of a record is."""
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SealedRecord:
    """One entry: a kind, its round, and a payload in the writer's own format."""

    kind: int
    round: int
    payload: bytes


def title_bytes(title: Title) -> bytes:
    """Return the first bytes of a file; they end with the seal that the first record continues."""
    text = "\n".join(f"{key} {value}" for key, value in title.items()).encode()
    start = _START.pack(_MAGIC, VERSION, len(text)) + text
    return start + hashlib.sha256(start).digest()


def seal_of(beginning: bytes) -> bytes:
    """Return the seal at the end of a title or of a record's head."""
    return beginning[-SEAL_BYTES:]


def head_bytes(before: bytes, kind: int, round: int, *payload: Buffer) -> bytes:
    """Return the head of a record whose payload is given in pieces and which follows the seal `before`."""
    head = _HEAD.pack(sum([memoryview(piece).nbytes for piece in payload]), kind, round)
    digest = hashlib.sha256(before + head)
    for piece in payload:
        digest.update(piece)
    return head + _CHECK.pack(zlib.crc32(head)) + digest.digest()


class Reader:
    """The records of a file, from the first to the last whole one, each checked as it is read.

    BadSpec where it is another kind of file, Damaged, naming record and byte, where it is damaged.
    """

    def __init__(self, path: Path, file: DiskFile, *, largest: int) -> None:
        self._path = path
        self._file = file
        self._largest = largest
        self._chunk, self._chunk_offset = memoryview(b""), 0
        self.count = 0
        self.end = 0
        """The end of the last record read, in bytes."""
        self.title, self.seal = self._read_title()

    def __iter__(self) -> Iterator[SealedRecord]:
        return iter(self._next, None)

    def _next(self) -> SealedRecord | None:
        """Return the next record; None at the end of the file, or where a crash has torn a record."""
        start = self._bytes(self.end, HEAD_BYTES)
        if len(start) < HEAD_BYTES:
            return None
        head, check, seal = start[: _HEAD.size], start[_HEAD.size : -SEAL_BYTES], bytes(start[-SEAL_BYTES:])
        if _CHECK.pack(zlib.crc32(head)) != check:
            raise self._damaged("its head does not fit its checksum")
        length, kind, round = _HEAD.unpack(head)
        if length > self._largest:
            raise self._damaged(f"it claims {length} bytes where {self._largest} are allowed")
        payload = self._bytes(self.end + HEAD_BYTES, length)
        if len(payload) < length:
            return None
        digest = hashlib.sha256(self.seal)
        digest.update(head)
        digest.update(payload)
        if digest.digest() != seal:
            raise self._damaged("it was changed, or does not follow the one before it")
        self.count += 1
        self.end += HEAD_BYTES + length
        self.seal = seal
        return SealedRecord(kind, round, bytes(payload))

    @property
    def remainder(self) -> int:
        """How many bytes follow the last record read."""
        return self._file.size() - self.end

    def expect(self, title: Title) -> None:
        """Refuse a file with another title."""
        for key in title | self.title:
            found, expected = self.title.get(key), title.get(key)
            if found != expected:
                raise BadSpec(
                    f"{self._path} says {key} {found!r} where {expected!r} is expected; put back the right file, or "
                    "choose another --state"
                )

    def _read_title(self) -> tuple[Title, bytes]:
        start = self._file.read(0, _START.size)
        if len(start) < _START.size:
            raise self._damaged("its title is incomplete")
        magic, version, length = _START.unpack(start)
        if magic != _MAGIC:
            raise BadSpec(f"{self._path} was not written by Slaternet, or its first bytes are damaged; put it back")
        if version != VERSION:
            raise BadSpec(
                f"{self._path} has version {version} and this Slaternet reads {VERSION}; "
                "use the Slaternet that wrote it, or begin the whole game anew"
            )
        text, seal = (self._file.read(_START.size + skip, size) for skip, size in ((0, length), (length, SEAL_BYTES)))
        if hashlib.sha256(start + text).digest() != seal:
            raise self._damaged("its title does not fit its checksum")
        self.end = _START.size + length + SEAL_BYTES
        lines = (line.partition(" ") for line in text.decode(errors="replace").split("\n"))
        return {key: value for key, _, value in lines}, seal

    def _bytes(self, offset: int, size: int) -> memoryview:
        """Return bytes of the file, fewer at its end; `offset` never decreases."""
        start = offset - self._chunk_offset
        if start + size > len(self._chunk):
            self._chunk = memoryview(self._file.read(offset, max(size, _CHUNK_BYTES)))
            self._chunk_offset, start = offset, 0
        return self._chunk[start : start + size]

    def _damaged(self, what: str) -> Damaged:
        where = f"record {self.count + 1}, byte {self.end}" if self.end else "the beginning"
        return Damaged(
            f"{self._path} is damaged at {where}: {what}; restore it from a copy, or begin the whole game anew"
        )
