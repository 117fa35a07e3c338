import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.simulation.disk import SimDisk

from slaternet.errors import BadSpec, Diverged, RunFailed
from slaternet.storage.checkpoints import Checkpoints

FOLDER = Path("/state/agent-1/checkpoints")
SPEC = "ab" * 32


def small(disk: SimDisk) -> Checkpoints:
    return Checkpoints(FOLDER, "agent-1", "r1", SPEC, disk)


def test_what_was_known_after_a_round_is_known_again(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "agent-1" / "checkpoints", "agent-1", "r1", SPEC)
    assert checkpoints.rounds() == []

    for round in (100, 50, 1_000_000):
        checkpoints.write(round, round.to_bytes(3, "little"))
    checkpoints.write(150, memoryview(bytes(range(16))).cast("d"))

    assert checkpoints.rounds() == [50, 100, 150, 1_000_000]
    assert [checkpoints.read(round)[:3] for round in (50, 100, 1_000_000)] == [b"2\0\0", b"d\0\0", b"@B\x0f"]
    assert checkpoints.read(150) == bytes(range(16))
    assert sorted(each.name for each in checkpoints.folder.iterdir()) == ["000050", "000100", "000150", "1000000"]


async def test_a_service_writes_it_in_a_thread(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "agent-1", "r1", SPEC)

    await asyncio.gather(*(asyncio.to_thread(checkpoints.write, round, bytes([round])) for round in range(8)))

    assert [checkpoints.read(round) for round in checkpoints.rounds()] == [bytes([round]) for round in range(8)]


@pytest.mark.parametrize(("mark", "kept"), [(9, [10, 20, 30]), (20, [20, 30]), (29, [20, 30]), (99, [30])])
def test_the_newest_at_or_before_the_mark_stays_and_all_after_it(tmp_path: Path, mark: int, kept: list[int]) -> None:
    checkpoints = Checkpoints(tmp_path, "agent-1", "r1", SPEC)
    for round in (10, 20, 30):
        checkpoints.write(round, b"known")
    for leftover in ("000005.draft", "000030.draft", "notes.txt"):
        (tmp_path / leftover).write_bytes(b"")

    checkpoints.forget_before(mark)

    assert checkpoints.rounds() == kept
    assert (tmp_path / "000005.draft").exists() == (mark == 9)
    assert (tmp_path / "000030.draft").exists()
    assert (tmp_path / "notes.txt").exists()


def test_a_checkpoint_is_written_again_in_the_place_of_the_first(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "agent-1", "r1", SPEC)
    for payload in (b"longer than the next", b"next"):
        checkpoints.write(10, payload)

    assert checkpoints.read(10) == b"next"


def test_a_missing_one_is_refused_by_name() -> None:
    checkpoints = small(SimDisk())

    with pytest.raises(BadSpec, match="/state/agent-1/checkpoints/000010 is missing; put it back"):
        checkpoints.read(10)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"name": "agent-2"}, "says name 'agent-1' where 'agent-2' is expected"),
        ({"run": "r2"}, "says run 'r1' where 'r2' is expected"),
        ({"spec": "cd" * 32}, f"says spec '{SPEC}' where '{'cd' * 32}' is expected"),
    ],
)
def test_one_of_another_process_run_or_spec_is_refused_by_name(other: dict[str, str], said: str) -> None:
    checkpoints = small(SimDisk())
    checkpoints.write(10, b"known")

    with pytest.raises(BadSpec, match=f"checkpoints/000010 {said}"):
        replace(checkpoints, **other).read(10)  # type: ignore[arg-type]


def test_one_of_another_round_is_refused() -> None:
    disk = SimDisk()
    checkpoints = small(disk)
    checkpoints.write(10, b"known")
    disk.rename(FOLDER / "000010", FOLDER / "000020")

    with pytest.raises(Diverged, match="000020 is damaged: it must hold one record, of round 20, and nothing more"):
        checkpoints.read(20)


def test_one_damaged_in_any_bit_or_cut_or_lengthened_anywhere_is_refused() -> None:
    disk = SimDisk()
    checkpoints = small(disk)
    checkpoints.write(10, b"all that is known")
    path = FOLDER / "000010"
    file = disk.open(path, write=True)
    whole = file.read(0, 1000)

    for byte in range(len(whole)):
        for bit in range(8):
            disk.damage(path, byte, 1 << bit)
            with pytest.raises((Diverged, BadSpec), match="000010"):
                checkpoints.read(10)
            disk.damage(path, byte, 1 << bit)
    for size in range(len(whole)):
        file.truncate(size)
        with pytest.raises(Diverged, match="000010 is damaged"):
            checkpoints.read(10)
        file.append(whole[size:])
    assert checkpoints.read(10) == b"all that is known"
    file.append(b"!")
    with pytest.raises(Diverged, match="000010 is damaged"):
        checkpoints.read(10)


def test_a_full_disk_leaves_the_older_ones_and_the_room() -> None:
    disk = SimDisk()
    checkpoints = small(disk)
    checkpoints.write(10, b"known")
    disk.capacity = 400

    with pytest.raises(RunFailed, match=r"no room for .*000020\.draft.* nothing acknowledged is lost"):
        checkpoints.write(20, bytes(400))

    assert disk.names(FOLDER) == ["000010"]
    assert checkpoints.read(10) == b"known"


@pytest.mark.parametrize(
    ("failpoint", "rounds"), [("agent_after_checkpoint_write", [10]), ("agent_after_checkpoint_sync", [10, 20])]
)
def test_a_process_killed_while_it_writes_leaves_the_old_one_or_the_new(
    tmp_path: Path, failpoint: str, rounds: list[int]
) -> None:
    script = f"""
from pathlib import Path
from slaternet.storage.checkpoints import Checkpoints
checkpoints = Checkpoints(Path({str(tmp_path)!r}), "agent-1", "r1", "{SPEC}")
for round in (10, 20):
    checkpoints.write(round, b"known after %d" % round)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SLATERNET_FAILPOINT": f"{failpoint}:kill@2"},
    )

    assert ended.returncode == -signal.SIGKILL
    checkpoints = Checkpoints(tmp_path, "agent-1", "r1", SPEC)
    assert checkpoints.rounds() == rounds
    assert [checkpoints.read(round) for round in rounds] == [b"known after %d" % round for round in rounds]
