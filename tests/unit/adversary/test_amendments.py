"""A plugin whose code was changed between two lives goes on where it agrees with the journal, and nowhere else."""

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.adversary_games import CODE, KINDS, MENDED, Bowls, Hosts, Life, outcome, undisturbed

from slaternet.errors import Diverged
from slaternet.limits import LIMITS
from slaternet.storage.record_file import SealedRecord
from slaternet_adversary.engine.amendments import Amendment, Segment, segments
from slaternet_adversary.engine.commitments import Commitments
from slaternet_adversary.engine.events import Commit
from slaternet_adversary.journal.entries import Purchase, decode, encode
from slaternet_adversary.journal.journal import AdversaryJournal

LATER = "77" * 32


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the real disk: only the process dies here, and the journal stands on another."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.parametrize(
    ("made", "due"),
    [
        ((), [(1, CODE)]),
        ((Amendment(5, CODE, MENDED),), [(1, CODE), (5, MENDED)]),
        ((Amendment(1, CODE, MENDED),), [(1, MENDED)]),
        ((Amendment(5, CODE, MENDED), Amendment(5, MENDED, LATER)), [(1, CODE), (5, LATER)]),
        ((Amendment(5, CODE, MENDED), Amendment(9, MENDED, CODE)), [(1, CODE), (5, MENDED), (9, CODE)]),
    ],
)
def test_an_amendment_begins_a_segment_and_replaces_one_of_which_nothing_was_revealed(
    made: tuple[Amendment, ...], due: list[tuple[int, str]]
) -> None:
    assert segments(CODE, made) == tuple(Segment(*each) for each in due)


@pytest.mark.parametrize("wrong", [Amendment(4, MENDED, LATER), Amendment(9, CODE, LATER)])
def test_an_amendment_that_does_not_follow_from_the_one_before_is_refused(wrong: Amendment) -> None:
    with pytest.raises(Diverged, match=f"an amendment from round {wrong.round} on that does not follow"):
        segments(CODE, [Amendment(5, CODE, MENDED), wrong])


def test_each_round_is_committed_to_by_the_code_of_its_segment() -> None:
    amended = Commitments(CODE, {}, 7, [Segment(5, MENDED)])

    assert [amended.of(t) for t in (1, 4)] == [Commitments(CODE, {}, 7).of(t) for t in (1, 4)]
    assert [amended.of(t) for t in (5, 99)] == [Commitments(MENDED, {}, 7).of(t) for t in (5, 99)]


@pytest.mark.parametrize("old", [CODE, ""])
def test_an_amendment_stands_in_the_journal(old: str) -> None:
    kind, round, payload = encode(Amendment(250, old, MENDED))
    record = SealedRecord(kind, round, b"".join(payload))

    assert decode(record) == Amendment(250, old, MENDED)
    with pytest.raises(Diverged, match="an entry that is not of its kind"):
        decode(replace(record, payload=record.payload[:-1]))


@pytest.mark.parametrize("name", KINDS)
def test_a_plugin_that_is_mended_between_any_two_entries_ends_the_game_as_if_nothing_had_happened(
    name: str, tmp_path: Path
) -> None:
    kind = KINDS[name]
    expected, entries = undisturbed(kind, tmp_path / "reference")

    for death in itertools.count():
        life, hosts = Life(kind, tmp_path / f"{death}"), Hosts(kind)
        if not life.die(hosts, death, written=death * 7):
            break
        life.code = MENDED
        life.die(hosts, 1 + death % 5)  # once more, maybe between the amendment and what follows it
        life.run(hosts.play)

        left = outcome(life)
        assert {**left, "commitments": ...} == {**expected, "commitments": ...}, f"death at operation {death}"
        assert left["commitments"] == bound(life, len(left["commitments"])), f"death at operation {death}"
    assert death > entries


def bound(life: Life, rows: int) -> list[str]:
    """Return commitments.csv as the journal gives it: of each round the last commitment, before values are revealed."""
    made: dict[int, str] = {}
    for entry in life.entries:
        match entry:
            case Commit(round, commitments):
                made |= dict(enumerate(commitments, round))
            case Amendment(round):
                made = {t: each for t, each in made.items() if t < round}
            case Purchase(asked):
                assert asked.question.round in made
    return ["round,commitment", *(f"{t},{each}" for t, each in made.items())][:rows]


def test_a_plugin_that_is_changed_back_and_forth_has_a_segment_for_each_time(tmp_path: Path) -> None:
    kind = KINDS["oblivious"]
    expected, _ = undisturbed(kind, tmp_path / "reference")
    life, hosts = Life(kind, tmp_path / "run"), Hosts(kind)
    for code in itertools.cycle((CODE, MENDED)):
        life.code = code
        if not life.die(hosts, 9):
            break

    assert outcome(life)["values"] == expected["values"]
    made = [each for each in life.entries if isinstance(each, Amendment)]
    assert len(made) > 2
    assert segments(CODE, made)[-1].code == life.code


def test_a_changed_plugin_that_contradicts_the_journal_is_refused_with_round_and_agent_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = replace(KINDS["oblivious"], rounds=60)
    life, hosts = Life(kind, tmp_path / "run"), Hosts(kind)
    assert life.die(hosts, 200)
    before, entries = {path: path.read_bytes() for path in life.folder.iterdir()}, life.entries
    life.code, loss = MENDED, Bowls.loss
    calls = itertools.count(1)
    monkeypatch.setattr(
        Bowls,
        "loss",
        lambda self, agents, points: loss(self, agents, points) + (next(calls) > 16) * (agents == 2)[:, None],
    )

    with pytest.raises(
        Diverged, match=r"was changed, and contradicts the game: .* for agent 2 in round \d+ than the one"
    ):
        life.run(hosts.play)

    assert {path: path.read_bytes() for path in life.folder.iterdir()} == before
    assert [encode(each)[:2] for each in life.entries] == [encode(each)[:2] for each in entries]


def test_answers_of_every_round_are_asked_for_again_where_the_code_has_changed(tmp_path: Path) -> None:
    kind = replace(KINDS["oblivious"], rounds=5 * LIMITS.reasked_rounds)
    life, hosts = Life(kind, tmp_path / "run"), Hosts(kind)
    life.run(hosts.play)
    newest = max(each.asked.question.round for each in life.entries if isinstance(each, Purchase))

    journal = AdversaryJournal.open(life.folder, "id", disk=life.disk, again=True)
    few = len(journal.reasked)
    played = journal.segments(CODE, MENDED)

    assert newest > 2 * few
    assert journal.reasked == range(1, newest + 1)
    assert played == (Segment(1, CODE), Segment(newest + 1, MENDED))
