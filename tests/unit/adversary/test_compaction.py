"""A journal that is cut begins with a snapshot and keeps the newest rounds; whoever goes on from it misses nothing."""

import itertools
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.adversary_games import Hosts, Kind, Life, Walk, lasting, outcome, played_on
from tests.support.telling import Telling, Told

from slaternet.errors import BadSpec, Diverged
from slaternet.model import Usage
from slaternet.service.config import ProcessConfig
from slaternet.storage import disk
from slaternet.storage.record_file import SealedRecord
from slaternet_adversary.engine.events import Commit, RefereeSnapshot
from slaternet_adversary.engine.host_costs import Total
from slaternet_adversary.journal import compaction
from slaternet_adversary.journal.compaction import LEAST, check_keep
from slaternet_adversary.journal.entries import Entry, Purchase, SeatingEntry, decode, encode
from slaternet_adversary.journal.entries import EntryKind as EntryKind
from slaternet_adversary.journal.journal import read
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_adversary.scoring import Scored
from slaternet_adversary.shell.service import AdversaryService

KEEP = 3
GAME = Kind(rounds=16)
KINDS = {
    "oblivious": GAME,
    "with gradients, scored at times": Kind(rounds=17, gradients=(True, True), score_every=3, burst=3),
    "stopped": Kind(rounds=None, stop=16),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the real disk, and let few rounds and small pieces do."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(compaction, "LEAST", 2)
    monkeypatch.setattr(compaction, "_PIECE_BYTES", 5000)


def left(life: Life) -> dict[str, Any]:
    """Return what a run leaves behind beside its journal."""
    return {name: what for name, what in outcome(life).items() if name != "values"}


def whole(kind: Kind, folder: Path) -> dict[str, Any]:
    """Return what the same game leaves behind whose journal is not cut."""
    life = Life(kind, folder)
    life.run(Hosts(kind).play)
    assert not any(isinstance(entry, Snapshot) for entry in life.entries)
    return left(life)


USAGE = Usage(64, 1, 2, 3, 0.5, 2**63, 6)


def rounds_of(entries: list[Entry]) -> list[int]:
    return sorted({entry.asked.question.round for entry in entries if isinstance(entry, Purchase)})


def test_a_snapshot_comes_back_to_the_bit() -> None:
    standing = RefereeSnapshot(2**40, None, bytes(range(32)), (0.1, -0.0, 1e-300, 3.5))
    for entry in (
        Snapshot(standing, 0.3, {"agent-ü": Total(2**63, 2, 3, 4, 5, 0.1, 0.2, 7, USAGE), "b": Total()}),
        Snapshot(replace(standing, rounds=7)),
    ):
        kind, round, pieces = encode(entry)
        assert (kind, round) == (EntryKind.SNAPSHOT, 2**40)
        assert decode(SealedRecord(kind, round, b"".join(pieces))) == entry


@pytest.mark.parametrize("name", KINDS)
def test_the_journal_keeps_the_newest_rounds_and_the_game_is_the_same(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    lengths = []

    class Watched(Hosts):
        def hear(self, out: list[Told]) -> bool:
            lengths.append(len(rounds_of(life.entries)))
            return super().hear(out)

    life = Life(kind, tmp_path / "run", keep=KEEP)
    life.run(Watched(kind).play)

    assert left(life) == whole(kind, tmp_path / "whole")
    first, second, *rest = life.entries
    assert isinstance(first, Snapshot)
    assert isinstance(second, SeatingEntry)
    bought = rounds_of(life.entries)
    assert bought == list(range(first.round + 1, (kind.stop or kind.rounds or 0) + 1))
    assert len(bought) >= KEEP
    assert max(lengths) <= 2 * (KEEP + kind.burst) + 3  # and what is played while it is cut
    scored = [entry.round for entry in rest if isinstance(entry, Scored)]
    assert scored == [round for round in bought if round % kind.score_every == 0]
    bound = [entry for entry in rest if isinstance(entry, Commit)]
    assert bound[0].round == first.round + 1
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert rows[first.round].endswith(first.standing.digest.hex()[:16])


BEFORE = 36
"""Operations of the disk before a journal is cut."""


@pytest.mark.parametrize(
    ("name", "first", "step"),
    [
        *((name, BEFORE + 3 * place, 9) for place, name in enumerate(KINDS)),
        *(pytest.param(name, BEFORE, 1, marks=pytest.mark.slow) for name in KINDS),
    ],
)
def test_a_death_at_any_operation_changes_nothing(name: str, first: int, step: int, tmp_path: Path) -> None:
    kind = KINDS[name]
    expected = whole(kind, tmp_path / "whole")
    cut = []
    for death in itertools.count(first, step):
        life, hosts = Life(kind, tmp_path / f"{death}", keep=KEEP), Hosts(kind)
        if not life.die(hosts, death, written=death * 7):
            break
        cut.append(life.is_cut)
        life.low_water = min(map(len, hosts.answers.values()))
        life.run(hosts.play)
        assert left(life) == expected, f"death at operation {death}"
    assert not cut[0]
    assert cut[-1]


def test_one_that_dies_again_and_again_gets_there(tmp_path: Path) -> None:
    life, hosts = Life(GAME, tmp_path / "run", keep=KEEP), Hosts(GAME)
    while life.die(hosts, 60, written=30):
        life.low_water = min(map(len, hosts.answers.values()))

    assert life.lives > 2
    assert isinstance(life.entries[0], Snapshot)
    assert left(life) == whole(GAME, tmp_path / "whole")


def test_with_the_option_or_without_it_the_next_life_goes_on(tmp_path: Path) -> None:
    expected = whole(GAME, tmp_path / "whole")
    for before, after, death in ((KEEP, 0, 84), (0, KEEP, 50)):
        life, hosts = Life(GAME, tmp_path / f"{before}", keep=before), Hosts(GAME)
        assert life.die(hosts, death)
        assert isinstance(life.entries[0], Snapshot) == bool(before)
        life.keep, life.low_water = after, min(map(len, hosts.answers.values()))

        life.run(hosts.play)

        assert left(life) == expected
        assert isinstance(life.entries[0], Snapshot)


def test_a_game_that_is_over_is_played_on_from_a_cut_journal(tmp_path: Path) -> None:
    longer = Life(replace(GAME, rounds=24), tmp_path / "longer")
    longer.run(Hosts(longer.kind).play)
    life, hosts = Life(GAME, tmp_path / "run", keep=KEEP), Hosts(GAME)
    life.run(hosts.play)

    life, hosts = played_on(life, hosts, 24)
    life.run(hosts.play)

    assert lasting(life) | {"values": None} == lasting(longer) | {"values": None}


def test_a_complete_run_needs_no_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life, hosts = Life(GAME, tmp_path / "run", keep=KEEP), Hosts(GAME)
    life.run(hosts.play)
    before = left(life)
    monkeypatch.setattr(Walk, "play", None)

    life.run(lambda runtime, said: None)

    assert left(life) == before


def cut_short(tmp_path: Path) -> tuple[Life, Hosts]:
    """Return a game whose adversary has died after its journal was cut."""
    life, hosts = Life(GAME, tmp_path / "run", keep=KEEP), Hosts(GAME)
    assert life.die(hosts, 84)
    assert isinstance(life.entries[0], Snapshot)
    return life, hosts


def without_a_row(file: Path) -> None:
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:1] + lines[2:]))


def emptied(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize(
    ("name", "happen", "says"),
    [
        ("metrics.csv", Path.unlink, r"metrics\.csv lacks rows up to round \d, cut from the journal"),
        ("commitments.csv", emptied, r"commitments\.csv lacks rows up to round \d, cut from the journal"),
        ("metrics.csv", without_a_row, r"has another round \d than its journal"),
        ("commitments.csv", without_a_row, r"has another round \d than its journal"),
        ("decisions.f64", emptied, r"decisions\.f64 lacks decisions that the journal has no more"),
    ],
)
def test_what_the_journal_has_no_more_must_stand_in_the_folder(
    name: str, happen: Any, says: str, tmp_path: Path
) -> None:
    life, hosts = cut_short(tmp_path)
    happen(life.folder / name)

    with pytest.raises(Diverged, match=says):
        life.run(hosts.play)


def test_rounds_that_a_host_may_go_back_to_are_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction.JournalTrimmer, "pass_mark", lambda self, low_water: None)
    life = Life(GAME, tmp_path / "run", keep=KEEP)

    life.run(Hosts(GAME).play)

    assert rounds_of(life.entries) == list(range(1, 17))


def test_all_that_follows_from_older_rounds_is_on_disk_before_they_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, synced = Life(GAME, tmp_path / "run", keep=KEEP), []

    def sync(descriptor: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
        first = next(read(life.folder, disk=life.disk), None)
        synced.append((name, first.round if isinstance(first, Snapshot) else 0))

    for module, name in ((os, "fsync"), (disk, "_sync")):
        monkeypatch.setattr(module, name, sync)
    life.run(Hosts(GAME).play)

    for name in ("metrics.csv", "commitments.csv", "decisions.f64"):
        # each time while the older journal stood
        assert [round for each, round in synced if each == name] == [0, 4, 10]


def test_too_few_rounds_are_refused_and_the_least_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert LEAST == 2 * 64 + 64
    check_keep(None)
    check_keep(LEAST)

    with pytest.raises(BadSpec, match=f"--journal-keep 191 is too few.*keep at least {LEAST}"):
        AdversaryService(ProcessConfig("adversary", "127.0.0.1:1"), None, journal_keep=191)


def test_a_snapshot_is_the_first_entry_or_none(tmp_path: Path) -> None:
    life, _ = cut_short(tmp_path)
    snapshot = life.entries[0]

    def snap_again(runtime: Telling, said: list[Told]) -> None:
        runtime.apply_entry(snapshot)

    with pytest.raises(Diverged, match="the journal has a snapshot where it does not begin"):
        life.run(snap_again)
