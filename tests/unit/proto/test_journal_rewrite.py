"""A journal that is written anew beside itself: the old one stands there or the new one, whole, whatever happens."""

import errno
import itertools
from pathlib import Path
from random import Random

import pytest
from tests.simulation.disk import Died, SimDisk

from slaternet.errors import RunFailed
from slaternet.storage.journal import Durability, Journal
from slaternet.storage.record_file import SealedRecord

PATH = Path("/journal/adversary")
OLD = [SealedRecord(1, round, bytes([round]) * 40) for round in range(6)]
LATE = [SealedRecord(2, round, b"late") for round in range(3)]
LAST = SealedRecord(3, 9, b"last")
NEW = [SealedRecord(7, 3, b"snapshot"), *OLD[4:], *LATE]


def begun(disk: SimDisk) -> Journal:
    """Return a journal with a few records."""
    journal = Journal.create(PATH, role="adversary", run="id", durability=Durability.FSYNC, disk=disk)
    for record in OLD:
        journal.append(record.kind, record.round, record.payload)
    return journal


def rewritten(journal: Journal) -> None:
    """Write it anew without its first records, while it grows."""
    rewriting = journal.rewrite()
    rewriting.append(7, 3, b"snapshot")
    late = iter(LATE)
    while rewriting.remainder:
        for record in rewriting.read(100):
            if record not in OLD[:4]:
                rewriting.append(record.kind, record.round, record.payload)
        for record in itertools.islice(late, 1):
            journal.append(record.kind, record.round, record.payload)
    journal.succeed(rewriting)


def left(disk: SimDisk) -> list[SealedRecord]:
    with Journal.open(PATH, role="adversary", run="id", disk=disk) as journal:
        return list(journal.replay())


def test_the_new_one_takes_its_place_and_grows() -> None:
    disk = SimDisk()
    with begun(disk) as journal:
        rewritten(journal)
        assert disk.is_safe(PATH)
        assert disk.names(PATH.parent) == [PATH.name]
        journal.append(LAST.kind, LAST.round, LAST.payload)

    assert left(disk) == [*NEW, LAST]


@pytest.mark.parametrize("power", [False, True])
def test_cut_short_at_any_operation_the_old_one_or_the_new_one_is_whole(power: bool) -> None:
    found = set()
    for trial in itertools.count():
        death = trial // 5  # of what was not synced, something else is lost each time
        disk = SimDisk()
        journal = begun(disk)
        disk.die_after(death, written=death % 5)
        try:
            rewritten(journal)
        except Died:
            disk.crash(Random(trial)) if power else disk.kill()
        else:
            break
        there = left(disk)
        assert there == NEW or there in [OLD + LATE[:count] for count in range(len(LATE) + 1)]
        found.add(there == NEW)
        with Journal.open(PATH, role="adversary", run="id", disk=disk) as journal:
            assert list(journal.replay()) == there
            journal.append(LAST.kind, LAST.round, LAST.payload)  # and it grows on, from whichever it is
        assert left(disk) == [*there, LAST]
    assert death > len(NEW)
    assert found == {False, True}


@pytest.mark.parametrize("operation", ["sync", "rename", "sync_folder"])
def test_what_the_disk_refuses_ends_it_and_nothing_is_lost(operation: str) -> None:
    disk = SimDisk()
    journal = begun(disk)
    rewriting = journal.rewrite()
    for record in rewriting.read(10_000):
        rewriting.append(record.kind, record.round, record.payload)
    disk.refuse(operation, errno.EIO)

    with pytest.raises(RunFailed):
        journal.succeed(rewriting)

    with pytest.raises(RunFailed, match="its successor could not be put in its place; start the process again"):
        journal.append(LAST.kind, LAST.round, LAST.payload)
    disk.kill()
    assert left(disk) == OLD


def test_one_that_is_abandoned_leaves_nothing() -> None:
    disk = SimDisk()
    with begun(disk) as journal:
        rewriting = journal.rewrite()
        rewriting.append(7, 3, b"snapshot")
        rewriting.abandon()
        journal.append(LAST.kind, LAST.round, LAST.payload)

    assert disk.names(PATH.parent) == [PATH.name]
    assert left(disk) == [*OLD, LAST]
