"""Whenever the adversary dies, its next life goes on from the journal, and the run folder ends in the same bits."""

import itertools
import os
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.adversary_games import (
    KINDS,
    SEATS,
    Bowls,
    Hosts,
    Kind,
    Life,
    T,
    Walk,
    lasting,
    outcome,
    played_on,
    undisturbed,
)
from tests.support.telling import Telling, Told

from slaternet.errors import BadSpec, Damaged, Diverged
from slaternet.limits import LIMITS
from slaternet.model import Departure, Finished, StopAt
from slaternet.storage.disk import read_file
from slaternet_adversary.engine.commitments import Commitments
from slaternet_adversary.engine.events import Asked, Commit, Reply, Used
from slaternet_adversary.journal.entries import Entry, Purchase, SeatingEntry, encode
from slaternet_adversary.journal.journal import JOURNAL, AdversaryJournal, survey
from slaternet_adversary.scoring import Scored


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the real disk: only the process dies here, and the journal stands on another."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.parametrize("name", KINDS)
def test_a_death_after_any_entry_changes_nothing(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    expected, entries = undisturbed(kind, tmp_path / "reference")
    assert len(expected["rows"]) == (kind.stop or T)

    for death in itertools.count():
        life, hosts = Life(kind, tmp_path / f"{death}"), Hosts(kind)
        if not life.die(hosts, death, written=death * 7):
            break
        life.low_water = min(map(len, hosts.answers.values()))
        life.run(hosts.play)
        assert outcome(life) == expected, f"death at operation {death}"
    assert death > entries


@pytest.mark.parametrize("name", KINDS)
def test_a_process_that_dies_again_and_again_gets_there(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    expected, _ = undisturbed(kind, tmp_path / "reference")

    life, hosts = Life(kind, tmp_path / "run"), Hosts(kind)
    while life.die(hosts, 6, written=30):
        pass

    assert life.lives > 3
    assert outcome(life) == expected


# What a crash may leave, and what it may not


@pytest.mark.parametrize("name", KINDS)
def test_a_game_that_is_over_is_played_on_and_on_as_if_it_had_been_longer(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    longer = Life(replace(kind, rounds=9, stop=0), tmp_path / "reference")
    longer.run(Hosts(longer.kind).play)
    expected = lasting(longer)
    assert len(expected["rows"]) == 9

    for death in itertools.count():
        life, hosts = Life(kind, tmp_path / f"{death}"), Hosts(kind)
        life.run(hosts.play)
        life, hosts = played_on(life, hosts, 6)
        cut_short = life.die(hosts, death)
        life.run(hosts.play)
        life, hosts = played_on(life, hosts, 9)
        life.run(hosts.play)
        assert lasting(life) == expected, f"death at operation {death}"
        if not cut_short:
            break
    assert death > 2 * len(SEATS)


def died(tmp_path: Path, operations: int = 18) -> tuple[Life, Hosts]:
    """Return a game whose adversary has died with some rounds recorded."""
    life, hosts = Life(Kind(), tmp_path / "run"), Hosts(Kind())
    assert life.die(hosts, operations)
    assert 2 <= len((life.folder / "metrics.csv").read_text().splitlines()) - 1 < T
    return life, hosts


def tear(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


def run_ahead(file: Path) -> None:
    file.write_text(file.read_text() + "3,1.0\n4,1.0\n")  # a loss of power has taken what the journal said of them


def begin_again(file: Path) -> None:
    file.write_text("round,lo")


CRASHES = [(crash, name) for crash in (tear, begin_again, Path.unlink) for name in ("metrics.csv", "commitments.csv")]


@pytest.mark.parametrize(
    ("happen", "name"), [*CRASHES, (run_ahead, "metrics.csv"), (tear, "decisions.f64"), (Path.unlink, "spec.toml")]
)
def test_what_a_crash_does_to_a_file_is_mended(happen: Callable[[Path], None], name: str, tmp_path: Path) -> None:
    expected, _ = undisturbed(Kind(), tmp_path / "reference")
    life, hosts = died(tmp_path)
    happen(life.folder / name)

    life.run(hosts.play)

    assert outcome(life) == expected


def test_rows_that_stand_keep_the_time_they_were_written_at(tmp_path: Path) -> None:
    life, hosts = died(tmp_path)
    file = life.folder / "metrics.csv"
    file.write_text(file.read_text().replace(",0.000000,", ",8.250000,"))
    before = file.read_text()

    life.run(hosts.play)

    assert file.read_text().startswith(before)


def test_a_row_that_says_something_else_stops_the_run(tmp_path: Path) -> None:
    life, hosts = died(tmp_path)
    file = life.folder / "metrics.csv"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join((lines[0], lines[1].replace("0.", "1.", 1), *lines[2:])))

    with pytest.raises(Diverged, match=r"metrics.csv has another row where the journal gives 1,0\."):
        life.run(hosts.play)


def test_another_plugin_stops_the_run_and_the_first_round_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, hosts = died(tmp_path)
    monkeypatch.setattr(Commitments, "of", lambda self, t, digest=b"": f"{t:064x}")

    with pytest.raises(Diverged, match="the commitment of round 1 is not the one in the journal"):
        life.run(hosts.play)


def test_a_plugin_that_answers_otherwise_than_the_journal_stops_the_run_before_anything_is_revealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, hosts = died(tmp_path)
    before = {path: path.read_bytes() for path in life.folder.iterdir()}
    loss = Bowls.loss
    monkeypatch.setattr(Bowls, "loss", lambda self, agents, points: loss(self, agents, points) + (agents == 1)[:, None])

    with pytest.raises(Diverged, match=r"^the adversary plugin Walk is not reproducible.* for agent 1 in round 1 than"):
        life.run(hosts.play)

    assert {path: path.read_bytes() for path in life.folder.iterdir()} == before


@pytest.mark.parametrize("gradient", ["loss_gradient", "constraint_gradient"])
def test_gradients_are_compared_too(gradient: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = KINDS["adaptive"]
    life, hosts = Life(kind, tmp_path / "run"), Hosts(kind)
    assert life.die(hosts, 18)
    other = getattr(Bowls, gradient)
    monkeypatch.setattr(Bowls, gradient, lambda self, agents, points: other(self, agents, points) * 2)

    with pytest.raises(Diverged, match=r"for agent 0 in round 1 than the one it gave"):
        life.run(hosts.play)


def test_answers_of_so_many_rounds_at_most_are_asked_for_again_the_newest_among_them(tmp_path: Path) -> None:
    kind = Kind(rounds=5 * LIMITS.reasked_rounds)
    life, hosts = Life(kind, tmp_path / "run"), Hosts(kind)
    life.run(hosts.play)

    journal = AdversaryJournal.open(life.folder, "id", disk=life.disk, again=True)

    assert [*journal.reasked] == list(range(kind.rounds, 0, -5))
    assert len(journal.reasked) == LIMITS.reasked_rounds


def test_a_journal_that_ends_before_the_low_water_mark_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    life, hosts = Life(Kind(), tmp_path / "run"), Hosts(Kind())
    life.run(hosts.play)
    path = life.folder / JOURNAL
    with closing(life.disk.open(path, write=True)) as file:
        file.truncate(file.size() // 2)
    before = read_file(path, disk=life.disk)

    short = pytest.raises(
        Diverged, match=rf"{JOURNAL} ends in round 2, and it was complete up to round {T}, from which"
    )
    with short:
        AdversaryJournal.open(life.folder, "id", disk=life.disk, again=True, low_water=T)

    assert read_file(path, disk=life.disk) == before
    assert survey(life.folder, least=2, disk=life.disk).held == range(1, 3)


@pytest.mark.parametrize("what", ["seats", "departure", "question"])
def test_a_forged_journal_that_names_agents_without_a_seat_is_refused(what: str, tmp_path: Path) -> None:
    life, hosts = Life(Kind(), tmp_path / "run"), Hosts(Kind())
    life.run(hosts.play)
    journal = AdversaryJournal.open(life.folder, "id", disk=life.disk, again=True)
    *_, purchase = (each for each in journal.replay() if isinstance(each, Purchase))
    strange = np.array([10_000], np.intp)
    entries: dict[str, Entry] = {
        "seats": SeatingEntry((("a", np.arange(2)),), 2),
        "departure": SeatingEntry(tuple(SEATS.items()), 2, (Departure(2, strange),)),
        "question": replace(
            purchase,
            asked=replace(
                purchase.asked,
                question=replace(purchase.asked.question, agents=purchase.asked.question.agents + 10_000),
            ),
        ),
    }
    kind, round, payload = encode(entries[what])
    journal.file.append(kind, round, *payload)
    journal.close()

    with pytest.raises(Damaged, match="names agents that have no seat"):
        survey(life.folder, disk=life.disk)


def test_another_seating_stops_the_run(tmp_path: Path) -> None:
    life, _ = died(tmp_path)
    others = [("c", SEATS["a"]), ("b", SEATS["b"])]

    with pytest.raises(Diverged, match="the coordinator seats a, c otherwise than the journal says"):
        life.run(lambda runtime, _: Hosts(Kind()).play(runtime, runtime.seat(1, others)))


def test_the_journal_of_another_game_is_refused(tmp_path: Path) -> None:
    life, _ = died(tmp_path)

    with pytest.raises(BadSpec, match="says run 'id' where 'another' is expected"):
        AdversaryJournal.open(life.folder, "another", disk=life.disk, again=True)


def test_a_run_that_is_complete_is_left_alone_and_still_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, hosts = Life(Kind(), tmp_path / "run"), Hosts(Kind())
    life.run(hosts.play)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in life.folder.iterdir()}
    monkeypatch.setattr(Walk, "play", None)  # nobody will ask for functions

    def ask_again(runtime: Telling, said: list[Told]) -> None:
        (end,) = said
        assert isinstance(end, Finished)
        last = {host: answers.pop() for host, answers in hosts.answers.items()}
        for host, answer in last.items():
            (reply,) = runtime.handle(Asked(host, hosts.question(host)))
            assert isinstance(reply, Reply)
            assert reply.answer.values.f.tobytes() == answer.values.f.tobytes()

    life.run(ask_again)

    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in life.folder.iterdir()} == before


def test_a_summary_that_the_journal_does_not_give_stops_the_run(tmp_path: Path) -> None:
    life, hosts = Life(Kind(), tmp_path / "run"), Hosts(Kind())
    life.run(hosts.play)
    (life.folder / "summary.json").write_text('{"digest": "00"}')
    with pytest.raises(Diverged, match=r"summary\.json has not the digest that the journal gives"):
        life.run(hosts.play)

    other, hosts = died(tmp_path / "other")
    (other.folder / "summary.json").write_text("{}")
    with pytest.raises(Diverged, match="has a summary, and its journal ends in round 2"):
        other.run(hosts.play)


def test_nothing_is_revealed_before_it_is_bound_and_nothing_said_twice_is_written_twice(tmp_path: Path) -> None:
    kind = KINDS["stopped"]
    life, hosts = Life(kind, tmp_path / "run"), Hosts(kind)
    while life.die(hosts, 7):
        pass

    bound: Counter[int] = Counter()
    for entry in life.entries:
        match entry:
            case Commit(round, commitments):
                bound.update(range(round, round + len(commitments)))
            case Purchase(asked):
                assert bound[asked.question.round] == 1
    assert set(bound.values()) == {1}
    kinds = Counter(type(entry) for entry in life.entries)
    assert kinds == {SeatingEntry: 1, Commit: 4, Purchase: 8, Scored: 4, Used: 2, StopAt: 1}
