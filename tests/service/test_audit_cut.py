"""A journal that was cut is audited from the round after its snapshot on, and the report says what it rests on."""

import asyncio
import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.journals import Change, forged
from tests.support.services import playing, small_spec

from slaternet_adversary.engine.events import RefereeSnapshot
from slaternet_adversary.journal.compaction import Compaction
from slaternet_adversary.journal.entries import Entry, Purchase
from slaternet_adversary.journal.journal import AdversaryJournal, read
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_lab import Run
from slaternet_lab.audit.report import AuditReport

T, CUT = 12, 7


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    async def play() -> Run:
        folder = tmp_path_factory.mktemp("runs") / "game"
        async with playing(small_spec("record.score_every=2", rounds=T), folder, hosts=2) as game:
            return await game.over()

    return asyncio.run(play())


def digest_after(run: Run, last: int) -> bytes:
    """Return d_t, from the decisions that were journalled."""
    bought = [entry.asked.question for entry in read(run.folder) if isinstance(entry, Purchase)]
    digest = bytes(32)
    for round in range(1, last + 1):
        x = np.empty((run.spec.run.agents, run.spec.run.dimension))
        for question in (each for each in bought if each.round == round):
            x[question.agents] = question.x
        digest = hashlib.sha256(digest + x.tobytes()).digest()
    return digest


@pytest.fixture(scope="module")
def cut(whole: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the same run with a journal that begins after a round."""
    folder = tmp_path_factory.mktemp("cut") / "game"
    shutil.copytree(whole.folder, folder)
    names = ("cumulative_loss", "cumulative_violation", "zero_loss", "zero_violation")
    loss, violation, zero_loss, zero_violation = (float(whole.metrics[name][CUT - 1]) for name in names)
    standing = RefereeSnapshot(CUT, T, digest_after(whole, CUT), (loss, violation, zero_loss, zero_violation))
    journal = AdversaryJournal.open(folder, str(whole.summary["run"]), again=True)
    assert list(journal.replay())
    assert Compaction(journal.file, Snapshot(standing)).step(lambda: None)
    journal.close()
    return Run.open(folder)


def verdicts(report: AuditReport) -> dict[str, str]:
    return {each.name: each.verdict for each in report.checks}


def test_what_is_left_is_checked_and_what_rests_on_the_rest_is_named(whole: Run, cut: Run) -> None:
    report = cut.audit()

    others = {name: "ok" for name in verdicts(whole.audit()) if name != "decisions"}
    assert verdicts(report) == others | {"decisions": "not checked"}, report.sentences()
    counts = {each.name: each.count for each in report.checks}
    left = T - CUT
    assert counts["budgets"] == left * whole.spec.run.agents
    assert counts["commitments"] == counts["graphs"] == counts["metrics"] == left
    assert counts["scores"] == 3  # 8, 10, 12
    assert (report.rounds, report.digest) == (T, whole.summary["digest"])
    said = report.sentences()
    assert f"decisions: not checked: they rest on rounds 1 to {CUT}, which the journal has no more" in said
    assert any(f"can be checked from round {CUT + 1} on" in each for each in said)


def other_digest(entries: list[Entry]) -> None:
    first = entries[0]
    assert isinstance(first, Snapshot)
    entries[0] = replace(first, standing=replace(first.standing, digest=bytes(32)))


def other_sums(entries: list[Entry]) -> None:
    first = entries[0]
    assert isinstance(first, Snapshot)
    entries[0] = replace(first, standing=replace(first.standing, totals=(0.0, *first.standing.totals[1:])))


def far_away(entries: list[Entry]) -> None:
    first = entries[0]
    assert isinstance(first, Snapshot)
    entries[0] = replace(first, standing=replace(first.standing, round=2**63))


def moved(entries: list[Entry]) -> None:
    entries.insert(5, entries[0])


def dropped(entries: list[Entry]) -> None:
    del entries[0]


@pytest.mark.parametrize(
    ("change", "differing", "says"),
    [
        (other_digest, {"metrics", "summary"}, f"metrics: round {CUT}: digest is "),
        (other_sums, {"metrics", "summary"}, f"metrics: round {CUT}: cumulative_loss is "),
        (far_away, {"journal"}, f"it begins after round {2**63}, of which metrics.csv has no row"),
        (moved, {"journal"}, "journal: record 6: a snapshot stands where the journal does not begin"),
        (dropped, {"budgets", "commitments"}, f"round 1 must be bought before round {CUT + 1}"),
    ],
)
def test_a_snapshot_that_is_not_the_one_is_found(
    cut: Run, change: Change, differing: set[str], says: str, tmp_path: Path
) -> None:
    report = forged(cut, tmp_path / "forged", change).audit()

    assert {name for name, verdict in verdicts(report).items() if verdict == "differs"} >= differing
    assert any(says in each for each in report.sentences()), report.sentences()
