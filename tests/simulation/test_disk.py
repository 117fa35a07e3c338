"""The forgetting disk forgets what it may and keeps what it must; journals and checkpoints lose nothing on it."""

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.simulation.disk import Died, SimDisk

from slaternet.errors import BadSpec, RunFailed, SlaternetError
from slaternet.storage.checkpoints import Checkpoints
from slaternet.storage.disk import DISK, Disk, DiskFile, draft, publish
from slaternet.storage.journal import Durability, Journal
from slaternet.storage.record_file import SealedRecord

FOLDER = Path("/state/agent-1")
JOURNAL = FOLDER / "journal"
SPEC = "ab" * 32

SEEDS = st.integers(0, 2**32)
PAYLOADS = st.binary(max_size=40)
DEATHS = st.tuples(st.integers(0, 6), st.integers(0, 120))


class JournalMachine(RuleBasedStateMachine):
    """A journal against the list of what it has acknowledged."""

    @initialize(durability=st.sampled_from(Durability))
    def begin(self, durability: Durability) -> None:
        self.durability = durability
        self.disk = SimDisk()
        self.acknowledged: list[SealedRecord] = []
        self.doubtful: list[SealedRecord] = []  # at most one record, whose append has not returned
        self.journal = Journal.create(JOURNAL, role="agent", run="r1", durability=durability, disk=self.disk)
        self.works = True

    @precondition(lambda self: self.works)
    @rule(kind=st.integers(0, 9), payload=PAYLOADS)
    def append(self, kind: int, payload: bytes) -> None:
        record = SealedRecord(kind, len(self.acknowledged), payload)
        self.journal.append(record.kind, record.round, payload[:7], payload[7:])
        self.acknowledged.append(record)

    @precondition(lambda self: not self.works)
    @rule()
    def append_in_vain(self) -> None:
        with pytest.raises(RunFailed):
            self.journal.append(1, 1, b"after a failure")

    @precondition(lambda self: self.works)
    @rule(payload=PAYLOADS, room=st.integers(0, 60), operation=st.sampled_from(["room", "append", "sync"]))
    def fail(self, payload: bytes, room: int, operation: str) -> None:
        if operation == "room":
            self.disk.capacity = len(self.contents()) + room
        else:
            self.disk.refuse(operation, errno.EIO)
        before = self.contents()
        try:
            self.append(1, payload)
        except RunFailed:
            assert self.contents() == before  # it is taken back
            self.doubtful = [SealedRecord(1, len(self.acknowledged), payload)]  # and may come again if the power fails
            self.works = False
        self.disk.capacity = None

    @precondition(lambda self: self.works)
    @rule(payload=PAYLOADS, death=DEATHS, seed=st.none() | SEEDS, again=st.none() | st.integers(0, 1))
    def die_appending(self, payload: bytes, death: tuple[int, int], seed: int | None, again: int | None) -> None:
        self.disk.die_after(*death)
        try:
            self.append(1, payload)
        except Died:
            self.doubtful = [SealedRecord(1, len(self.acknowledged), payload)]
        self.end(seed, again)

    @rule(seed=st.none() | SEEDS, again=st.none() | st.integers(0, 1))
    def end(self, seed: int | None, again: int | None) -> None:
        """Kill the process, or let the power fail; perhaps `again` while it recovers; and look what is left."""
        self.disk.kill() if seed is None else self.disk.crash(Random(seed))
        if again is not None:
            self.disk.die_after(again)
            with suppress(Died):
                self.reopened()
            self.disk.kill()
        found = self.reopened()
        assert found == [*self.acknowledged, *self.doubtful][: len(found)]
        if seed is None or self.durability is Durability.FSYNC:
            assert len(found) >= len(self.acknowledged)
        # Whoever replays a record acts on it: it is acknowledged from now on.
        self.acknowledged, self.doubtful, self.works = found, [], True

    def contents(self) -> bytes:
        file = self.disk.open(JOURNAL)
        return file.read(0, file.size())

    def reopened(self) -> list[SealedRecord]:
        self.journal = Journal.open(JOURNAL, role="agent", run="r1", durability=self.durability, disk=self.disk)
        return list(self.journal.replay())


class CheckpointsMachine(RuleBasedStateMachine):
    """Checkpoints against a dictionary of what each may hold."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk()
        self.checkpoints = Checkpoints(FOLDER, "agent-1", "r1", SPEC, self.disk)
        self.kept: dict[int, bytes] = {}
        self.doubtful: dict[int, set[bytes]] = {}  # written in vain, or forgotten: there or not

    @rule(round=st.integers(0, 12), payload=PAYLOADS)
    def write(self, round: int, payload: bytes) -> None:
        self.checkpoints.write(round, payload)
        self.kept[round] = payload
        self.doubtful.pop(round, None)

    @rule(round=st.integers(0, 12), payload=PAYLOADS, death=DEATHS, seed=st.none() | SEEDS)
    def die_writing(self, round: int, payload: bytes, death: tuple[int, int], seed: int | None) -> None:
        self.disk.die_after(*death)
        try:
            self.write(round, payload)
        except Died:
            self.doubt(round, payload)
        self.end(seed)

    @rule(
        round=st.integers(0, 12),
        payload=PAYLOADS,
        operation=st.sampled_from(["create", "append", "sync", "rename", "sync_folder"]),
    )
    def fail(self, round: int, payload: bytes, operation: str) -> None:
        self.disk.refuse(operation, errno.ENOSPC)
        with pytest.raises(RunFailed, match="nothing acknowledged is lost"):
            self.checkpoints.write(round, payload)
        self.doubt(round, payload)

    @rule(mark=st.integers(0, 13), death=st.none() | DEATHS, seed=st.none() | SEEDS)
    def forget(self, mark: int, death: tuple[int, int] | None, seed: int | None) -> None:
        there = self.checkpoints.rounds()
        newest = max((round for round in there if round <= mark), default=0)
        for round in [each for each in self.kept if each < newest]:
            self.doubtful.setdefault(round, set()).add(self.kept.pop(round))
        if death is None:
            self.checkpoints.forget_before(mark)
            assert self.checkpoints.rounds() == [round for round in there if round >= newest]
            return
        self.disk.die_after(*death)
        with suppress(Died):
            self.checkpoints.forget_before(mark)
        self.end(seed)

    @rule(seed=st.none() | SEEDS)
    def end(self, seed: int | None) -> None:
        """Kill the process, or let the power fail, and look what is left."""
        self.disk.kill() if seed is None else self.disk.crash(Random(seed))
        found = {round: self.checkpoints.read(round) for round in self.checkpoints.rounds()}
        for round, payload in self.kept.items():
            assert found[round] in {payload, *self.doubtful.get(round, set())}
        for round in found.keys() - self.kept.keys():
            assert found[round] in self.doubtful[round]

    def doubt(self, round: int, payload: bytes) -> None:
        self.doubtful.setdefault(round, set()).add(payload)


TestJournal = JournalMachine.TestCase
TestJournal.settings = settings(stateful_step_count=20)
TestCheckpoints = CheckpointsMachine.TestCase
TestCheckpoints.settings = settings(stateful_step_count=20)


def journal_of_three(disk: SimDisk) -> None:
    journal = Journal.create(JOURNAL, role="agent", run="r1", durability=Durability.FSYNC, disk=disk)
    for round in range(3):
        journal.append(1, round, b"acknowledged")


def lost_of_the_journal(disk: SimDisk) -> bool:
    with Journal.open(JOURNAL, role="agent", run="r1", disk=disk) as journal:
        return len(list(journal.replay())) < 3


def three_checkpoints(disk: SimDisk) -> None:
    for round in range(3):
        Checkpoints(FOLDER, "agent-1", "r1", SPEC, disk).write(round, b"acknowledged")


def lost_of_the_checkpoints(disk: SimDisk) -> bool:
    checkpoints = Checkpoints(FOLDER, "agent-1", "r1", SPEC, disk)
    return [checkpoints.read(round) for round in checkpoints.rounds()] != [b"acknowledged"] * 3


@pytest.mark.parametrize("forgotten", ["", "sync", "sync_folder"])
@pytest.mark.parametrize(
    ("write", "lost"), [(journal_of_three, lost_of_the_journal), (three_checkpoints, lost_of_the_checkpoints)]
)
def test_a_sync_left_out_is_found_within_twenty_seeds_and_none_is_found_missing(
    forgotten: str, write: Callable[[SimDisk], None], lost: Callable[[SimDisk], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    if forgotten == "sync":
        disk = SimDisk()
        disk.make_folder(FOLDER)
        monkeypatch.setattr(type(disk.create(JOURNAL)), "sync", lambda _: None)
    elif forgotten:
        monkeypatch.setattr(SimDisk, forgotten, lambda *_: None)

    def suffers(seed: int) -> bool:
        disk = SimDisk()
        write(disk)
        disk.crash(Random(seed))
        try:
            return lost(disk)
        except SlaternetError:
            return True

    assert any(suffers(seed) for seed in range(20)) == bool(forgotten)


def test_a_record_that_was_replayed_is_not_lost_though_its_writer_died_before_the_sync() -> None:
    for seed in range(20):
        disk = SimDisk()
        journal = Journal.create(JOURNAL, role="agent", run="r1", durability=Durability.FSYNC, disk=disk)
        disk.die_after(1)
        with pytest.raises(Died):
            journal.append(1, 1, b"written, and not synced")
        disk.kill()
        for _ in range(2):
            journal = Journal.open(JOURNAL, role="agent", run="r1", durability=Durability.FSYNC, disk=disk)
            assert len(list(journal.replay())) == 1, f"seed {seed}"
            disk.crash(Random(seed))


def test_a_seed_decides_what_is_forgotten() -> None:
    def left(seed: int) -> bytes:
        disk = SimDisk()
        disk.make_folder(FOLDER)
        file = disk.create(JOURNAL)
        disk.sync_folder(FOLDER)
        for piece in range(20):
            file.append(bytes([piece]) * 10)
        disk.crash(Random(seed))
        return disk.open(JOURNAL).read(0, 1000)

    whole = b"".join(bytes([piece]) * 10 for piece in range(20))
    lengths = [len(left(seed)) for seed in range(50)]

    assert [left(seed) for seed in range(50)] == [whole[:length] for length in lengths]
    assert any(length % 10 for length in lengths), "none was torn"
    assert min(lengths) < 20
    assert max(lengths) > 180


def test_a_name_may_be_lost_until_its_folder_is_synced_and_never_afterwards() -> None:
    def left(seed: int, *, synced: bool) -> bytes:
        disk = SimDisk()
        disk.make_folder(FOLDER)
        publish(disk, draft(disk, JOURNAL, b"old"), JOURNAL)
        disk.rename(draft(disk, JOURNAL, b"new"), JOURNAL)
        if synced:
            disk.sync_folder(FOLDER)
        disk.crash(Random(seed))
        return disk.open(JOURNAL).read(0, 10)

    assert {left(seed, synced=False) for seed in range(20)} == {b"old", b"new"}
    assert {left(seed, synced=True) for seed in range(20)} == {b"new"}


def test_a_machine_set_up_again_has_nothing_and_its_process_is_refused() -> None:
    disk = SimDisk()
    journal_of_three(disk)
    three_checkpoints(disk)

    disk.reboot_and_delete(FOLDER, Random(1))

    assert disk.names(FOLDER) == []
    with pytest.raises(BadSpec, match="journal is missing"):
        lost_of_the_journal(disk)
    with pytest.raises(BadSpec, match="000002 is missing"):
        Checkpoints(FOLDER, "agent-1", "r1", SPEC, disk).read(2)


def test_the_dead_use_no_file() -> None:
    disk = SimDisk()
    disk.make_folder(FOLDER)
    file = disk.create(JOURNAL)
    disk.die_after(1)
    file.append(b"one")

    for _ in range(2):
        with pytest.raises(Died):
            file.append(b"two")
    disk.kill()
    with pytest.raises(AssertionError, match="used though it was closed"):
        file.append(b"three")
    assert disk.open(JOURNAL).read(0, 10) == b"one"


@pytest.mark.parametrize("seed", range(10))
def test_it_behaves_like_a_real_one_as_long_as_the_power_is_on(seed: int, tmp_path: Path) -> None:
    scripts = [_played(Random(seed), disk, tmp_path) for disk in (SimDisk(), DISK)]

    assert scripts[0] == scripts[1]


def _played(random: Random, disk: Disk, folder: Path) -> list[object]:
    disk.make_folder(folder)
    files: list[DiskFile] = []
    seen: list[object] = []
    for _ in range(40):
        path, other = (folder / random.choice("abc") for _ in range(2))
        size, at = random.randint(0, 9), random.randint(0, 30)
        operation = random.choice(["create", "append", "append", "truncate", "rename", "remove", "sync_folder"])
        try:
            if operation == "create":
                files.append(disk.create(path))
            elif operation in ("append", "truncate"):
                file = disk.open(path, write=True)
                files.append(file)
                file.append(bytes([size]) * size) if operation == "append" else file.truncate(min(at, file.size()))
                seen.append((file.size(), file.read(at, size), file.read(0, 1000)))
            elif operation == "rename":
                disk.rename(path, other)
            elif operation == "remove":
                disk.remove(path)
            else:
                disk.sync_folder(folder)
        except SlaternetError as error:
            seen.append((operation, type(error)))
        seen.append(disk.names(folder))
    for file in files:
        file.close()
    return seen
