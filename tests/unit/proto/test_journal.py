import errno
import itertools
import os
import struct
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.simulation.disk import SimDisk

from slaternet.errors import BadSpec, Diverged, RunFailed, SlaternetError
from slaternet.limits import Limits
from slaternet.storage.disk import DISK
from slaternet.storage.journal import Durability, Journal, read, read_title
from slaternet.storage.record_file import SealedRecord, head_bytes, seal_of, title_bytes

PATH = Path("/state/adversary/journal")
TITLE = {"file": "journal", "role": "adversary", "run": "r1"}
RECORDS = [
    SealedRecord(1, 1, b""),
    SealedRecord(2, 1, b"x"),
    SealedRecord(3, 2, b"twenty bytes of text"),
    SealedRecord(65535, 2**64 - 1, bytes(9)),
    SealedRecord(2, 3, b"the last"),
]


def laid_out(records: list[SealedRecord], title: dict[str, str] = TITLE) -> list[bytes]:
    """Return title and records as the layout demands, in pieces."""
    pieces = [title_bytes(title)]
    seal = seal_of(pieces[0])
    for record in records:
        head = head_bytes(seal, record.kind, record.round, record.payload)
        pieces.append(head + record.payload)
        seal = seal_of(head)
    return pieces


PIECES = laid_out(RECORDS)
WHOLE = b"".join(PIECES)
ENDS = list(itertools.accumulate(map(len, PIECES)))


def holding(content: bytes) -> SimDisk:
    """Return a disk with a journal that was acknowledged as it is."""
    disk = SimDisk()
    disk.make_folder(PATH.parent)
    file = disk.create(PATH)
    file.append(content)
    file.sync()
    disk.sync_folder(PATH.parent)
    return disk


def opened(disk: SimDisk, run: str = "r1", role: str = "adversary", limits: Limits | None = None) -> Journal:
    return Journal.open(PATH, role=role, run=run, disk=disk, limits=limits or Limits())


def replayed(disk: SimDisk) -> list[SealedRecord]:
    with opened(disk) as journal:
        return list(journal.replay())


def replayed_until_refused(disk: SimDisk) -> tuple[list[SealedRecord], SlaternetError | None]:
    found: list[SealedRecord] = []
    try:
        with opened(disk) as journal:
            found.extend(journal.replay())
    except SlaternetError as error:
        return found, error
    return found, None


def test_what_is_appended_is_laid_out_as_promised_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "state" / "journal"
    with Journal.create(path, role="adversary", run="r1") as journal:
        for record in RECORDS[:3]:
            journal.append(record.kind, record.round, record.payload)
    with Journal.open(path, role="adversary", run="r1", durability=Durability.FSYNC) as journal:
        assert list(journal.replay()) == RECORDS[:3]
        for record in RECORDS[3:]:
            journal.append(record.kind, record.round, record.payload[:3], memoryview(record.payload)[3:])

    assert path.read_bytes() == WHOLE
    assert list(read(path)) == RECORDS
    assert read_title(path) == TITLE


def test_pieces_of_any_items_become_one_payload(tmp_path: Path) -> None:
    floats = memoryview(bytes(range(32))).cast("d")
    with Journal.create(tmp_path / "journal", role="adversary", run="r1") as journal:
        journal.append(1, 1, floats, b"", bytearray(b"!"))

    assert list(read(tmp_path / "journal")) == [SealedRecord(1, 1, bytes(range(32)) + b"!")]


def test_a_journal_cut_at_any_byte_of_its_title_is_refused() -> None:
    for size in range(ENDS[0]):
        with pytest.raises(Diverged, match="damaged at the beginning"):
            opened(holding(WHOLE[:size]))


def test_a_journal_cut_at_any_other_byte_gives_the_whole_records_before_it_and_goes_on() -> None:
    for size in range(ENDS[0], len(WHOLE) + 1):
        disk = holding(WHOLE[:size])
        kept = RECORDS[: sum(end <= size for end in ENDS) - 1]

        with opened(disk) as journal:
            assert list(journal.replay()) == kept, f"cut at byte {size}"
            journal.append(7, 8, b"next")

        assert replayed(disk) == [*kept, SealedRecord(7, 8, b"next")], f"cut at byte {size}"


def test_a_journal_with_any_bit_flipped_is_refused_where_the_bit_is() -> None:
    disk = holding(WHOLE)
    for byte, bit in itertools.product(range(len(WHOLE)), range(8)):
        disk.damage(PATH, byte, 1 << bit)
        found, refused = replayed_until_refused(disk)
        disk.damage(PATH, byte, 1 << bit)

        ordinal = sum(end <= byte for end in ENDS)  # 0 is the title
        place = f"damaged at record {ordinal}, byte {ENDS[ordinal - 1]}: " if ordinal else str(PATH)
        assert found == RECORDS[: max(ordinal - 1, 0)], f"bit {bit} of byte {byte}"
        assert isinstance(refused, Diverged if ordinal else Diverged | BadSpec), f"bit {bit} of byte {byte}"
        assert place in str(refused), f"bit {bit} of byte {byte}"
    assert replayed(disk) == RECORDS  # nothing was cut off on the way


def test_sound_records_in_any_other_order_are_refused() -> None:
    for order in itertools.product(range(1, 6), repeat=3):
        if order == (1, 2, 3):
            continue
        found, refused = replayed_until_refused(holding(PIECES[0] + b"".join(PIECES[each] for each in order)))

        assert isinstance(refused, Diverged), order
        assert found == RECORDS[: next(at for at, each in enumerate(order) if each != at + 1)], order


def test_a_record_of_another_journal_is_refused() -> None:
    other = laid_out(RECORDS, TITLE | {"run": "r2"})

    found, refused = replayed_until_refused(holding(PIECES[0] + other[1]))

    assert not found
    assert isinstance(refused, Diverged)


def test_a_head_changed_along_with_its_checksum_is_refused() -> None:
    head = struct.pack("<QHQ", len(RECORDS[0].payload), RECORDS[0].kind, RECORDS[0].round + 1)
    forged = head + struct.pack("<I", zlib.crc32(head)) + PIECES[1][len(head) + 4 :]

    found, refused = replayed_until_refused(holding(PIECES[0] + forged))

    assert not found
    assert isinstance(refused, Diverged)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04 something else entirely", "was not written by Slaternet"),
        (WHOLE[:8] + b"\4" + WHOLE[9:], "has version 4 and this Slaternet reads 3"),
        (
            WHOLE[:8] + b"\2" + WHOLE[9:],
            "has version 2 .* use the Slaternet that wrote it, or begin the whole",
        ),
        (title_bytes(TITLE | {"run": "r2"}), "says run 'r2' where 'r1' is expected"),
        (title_bytes(TITLE | {"role": "host"}), "says role 'host' where 'adversary' is expected"),
        (title_bytes(TITLE | {"file": "checkpoint"}), "says file 'checkpoint' where 'journal' is expected"),
        (title_bytes(TITLE | {"more": "than that"}), "says more 'than that' where None is expected"),
    ],
)
def test_another_file_in_its_place_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(BadSpec, match=said):
        opened(holding(content))


def test_a_missing_journal_is_refused_and_not_begun_anew() -> None:
    disk = SimDisk()
    disk.make_folder(PATH.parent)

    with pytest.raises(BadSpec, match="journal is missing; put it back, or begin the whole game anew"):
        opened(disk)
    assert disk.names(PATH.parent) == []


def test_a_journal_is_begun_anew_only_where_none_holds_a_record() -> None:
    disk = holding(title_bytes(TITLE | {"run": "r0"}))
    Journal.create(PATH, role="adversary", run="r1", disk=disk).append(1, 1, b"kept")

    with pytest.raises(BadSpec, match="holds a game already; start with --fresh"):
        Journal.create(PATH, role="adversary", run="r2", disk=disk)

    assert replayed(disk) == [SealedRecord(1, 1, b"kept")]


def test_a_record_longer_than_the_limit_is_neither_written_nor_read(tmp_path: Path) -> None:
    limits = Limits(parts=2, part_bytes=10)
    path = tmp_path / "journal"
    with Journal.create(path, role="adversary", run="r1", limits=limits) as journal:
        journal.append(1, 1, bytes(20))
        with pytest.raises(RunFailed, match="takes no record of 21 bytes, more than 20"):
            journal.append(1, 2, bytes(20), b"!")
        journal.append(1, 2, bytes(1))

    assert [len(record.payload) for record in read(path, limits=limits)] == [20, 1]
    with pytest.raises(Diverged, match=r"record 1, byte .*: it claims 20 bytes where 10 are allowed"):
        list(read(path, limits=Limits(parts=1, part_bytes=10)))


def test_no_more_memory_is_taken_than_a_record_needs(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal.create(path, role="adversary", run="r1") as journal:
        for round in range(100):
            journal.append(1, round, bytes(80_000))
    size = path.stat().st_size
    torn = struct.pack("<QHQ", 1 << 30, 1, 100)  # what it claims is within the limit, and not there
    with path.open("ab") as file:
        file.write(torn + struct.pack("<I", zlib.crc32(torn)) + bytes(100))

    tracemalloc.start()
    try:
        with Journal.open(path, role="adversary", run="r1") as journal:
            assert sum(1 for _ in journal.replay()) == 100
            left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
    assert left < 1 << 16
    assert path.stat().st_size == size


def test_it_grows_only_when_it_has_been_replayed_to_the_end() -> None:
    journal = opened(holding(WHOLE))
    records = journal.replay()
    next(records)

    with pytest.raises(RunFailed, match="takes no records: it must be replayed first"):
        journal.append(1, 1, b"too early")
    assert len(list(records)) == 4
    journal.append(1, 1, b"now")
    with pytest.raises(RuntimeError, match="replayed once, before it grows"):
        next(journal.replay())
    journal.append(1, 1, b"and again")
    journal.close()
    with pytest.raises(RunFailed, match="takes no records: it is closed"):
        journal.append(1, 1, b"too late")


def fill(disk: SimDisk) -> None:
    disk.capacity = len(WHOLE) + 30


def fill_and_forbid_to_cut(disk: SimDisk) -> None:
    fill(disk)
    disk.refuse("truncate", errno.EIO)


def break_writing(disk: SimDisk) -> None:
    disk.refuse("append", errno.EIO)


def break_syncing(disk: SimDisk) -> None:
    disk.refuse("sync", errno.EIO)


@pytest.mark.parametrize("trouble", [fill, fill_and_forbid_to_cut, break_writing, break_syncing])
def test_a_record_that_cannot_be_written_is_taken_back_and_none_follows(trouble: Callable[[SimDisk], None]) -> None:
    disk = holding(WHOLE)
    journal = Journal.open(PATH, role="adversary", run="r1", durability=Durability.FSYNC, disk=disk)
    assert list(journal.replay()) == RECORDS
    trouble(disk)

    with pytest.raises(RunFailed):
        journal.append(1, 4, b"never acknowledged")
    disk.capacity = None
    with pytest.raises(RunFailed, match="an earlier one could not be written; start the process again"):
        journal.append(1, 5, b"must not follow it")

    disk.kill()
    assert replayed(disk) == RECORDS


def test_a_process_killed_while_it_appends_has_lost_nothing_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    script = f"""
import itertools, os
from pathlib import Path
from slaternet.storage.journal import Journal
journal = Journal.create(Path({str(path)!r}), role="adversary", run="r1")
for round in itertools.count(1):
    journal.append(1, round, round.to_bytes(8, "little") * 2000)
    os.write(1, b".")
"""
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    ) as writer:
        assert writer.stdout is not None
        acknowledged = len(writer.stdout.read(200))
        writer.kill()
        acknowledged += len(writer.stdout.read())

    with Journal.open(path, role="adversary", run="r1") as journal:
        found = list(journal.replay())
    assert acknowledged <= len(found) <= acknowledged + 1
    assert found == [
        SealedRecord(1, round + 1, (round + 1).to_bytes(8, "little") * 2000) for round in range(len(found))
    ]


def test_whoever_checks_a_journal_hears_of_damage_after_the_records_before_it(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    damaged = bytearray(WHOLE)
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    records = read(path)

    assert list(itertools.islice(records, 4)) == RECORDS[:4]
    with pytest.raises(Diverged, match=f"record 5, byte {ENDS[4]}: it was changed, or does not follow the one before"):
        next(records)


def test_whoever_checks_a_journal_hears_that_its_end_is_torn_and_leaves_it_so(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(WHOLE[:-1])
    path.chmod(0o400)
    records = read(path, disk=DISK)

    assert list(itertools.islice(records, 4)) == RECORDS[:4]
    with pytest.raises(Diverged, match=f"ends within record 5, which begins at byte {ENDS[4]}"):
        next(records)
    assert path.read_bytes() == WHOLE[:-1]
