"""An audit names what was changed in a run, though every seal was made anew."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.audits import T, differing, of, play
from tests.support.journals import Change, altering, change_purchase, forged, nth, nudged

from slaternet.errors import BadSpec, Diverged
from slaternet.model import Array
from slaternet_adversary.engine.events import Commit
from slaternet_adversary.journal.entries import Entry, Purchase, SeatingEntry
from slaternet_adversary.journal.journal import JOURNAL, read
from slaternet_adversary.scoring import Scored
from slaternet_lab import Run

# What is changed: the record's place in the journal is found by what it is.


def _four_rounds_later(entry: Purchase) -> Purchase:
    question = entry.asked.question
    return replace(entry, asked=replace(entry.asked, question=replace(question, round=question.round + 4)))


def _one_point_more(entry: Purchase) -> Purchase:
    question, values = entry.asked.question, entry.values
    points = np.concatenate((question.points, question.points[:, :1]), axis=1)
    f, g = (np.concatenate((each, each[:, :1]), axis=1) for each in (values.f, values.g))
    return Purchase(replace(entry.asked, question=replace(question, points=points)), replace(values, f=f, g=g))


def _one_bit_more(entry: Purchase) -> Purchase:
    return replace(entry, values=replace(entry.values, f=np.nextafter(entry.values.f, np.inf)))


def _other_commitment(entries: list[Entry]) -> None:
    place = next(place for place, entry in enumerate(entries) if isinstance(entry, Commit))
    entry = entries[place]
    assert isinstance(entry, Commit)
    first, second, *rest = entry.commitments
    entries[place] = replace(entry, commitments=(first, second[::-1], *rest))


def _late_commitment(entries: list[Entry]) -> None:
    place = next(place for place, entry in enumerate(entries) if isinstance(entry, Commit))
    entries.insert(nth(entries, Purchase, 1) + 1, entries.pop(place))


def _other_score(entries: list[Entry]) -> None:
    place = nth(entries, Scored, 6)
    entry = entries[place]
    assert isinstance(entry, Scored)
    entries[place] = replace(entry, violation=entry.violation / 2)


def _twice(entries: list[Entry]) -> None:
    place = nth(entries, Purchase, 5)
    entries.insert(place + 1, entries[place])


def _twice_much_later(entries: list[Entry]) -> None:
    entries.insert(nth(entries, Purchase, 12), entries[nth(entries, Purchase, 5)])


def _strange_host(entry: Purchase) -> Purchase:
    return Purchase(replace(entry.asked, host="stranger"), entry.values)


def _one_constraint_more(entry: Purchase) -> Purchase:
    g = entry.values.g
    return replace(entry, values=replace(entry.values, g=np.concatenate((g, g[..., :1]), axis=2)))


def _other_host(entry: Purchase) -> Purchase:
    name = "agent-1" if entry.asked.host != "agent-1" else "agent-2"
    return Purchase(replace(entry.asked, host=name), entry.values)


def _unseated(entries: list[Entry]) -> None:
    assert isinstance(entries[0], SeatingEntry)
    entries[0] = SeatingEntry(entries[0].hosts[1:])


@dataclass(frozen=True)
class Forgery:
    """A change, the check that must name it, and what it must say; where: kind and round of the record named."""

    change: Change
    check: str
    words: str
    where: tuple[type[Entry], int] | None = (Purchase, 5)
    round: int | None = 5
    agent: bool = True


FORGERIES = {
    "a decision": Forgery(altering(5, x=1e-12), "decisions", "x has a coordinate"),
    "a point": Forgery(altering(5, points=1e-12), "decisions", "a point has a coordinate"),
    "a loss": Forgery(altering(5, f=1e-3), "values", "f was sold as"),
    "a constraint": Forgery(altering(5, g=-1e-3), "values", "g was sold as"),
    "a value that is none": Forgery(altering(5, f=np.nan), "budgets", "not finite", agent=False),
    "a decision outside the set": Forgery(altering(5, x=100.0), "budgets", "must lie in the feasible set"),
    "a point too many": Forgery(
        lambda entries: change_purchase(entries, 5, _one_point_more),
        "budgets",
        "3 points are asked about, and the game grants 2",
    ),
    "another host": Forgery(
        lambda entries: change_purchase(entries, 5, _other_host), "budgets", "only for the agents seated there"
    ),
    "a host without seats": Forgery(
        _unseated, "budgets", "does not seat every agent", (SeatingEntry, 0), None, agent=False
    ),
    "a host that is none": Forgery(
        lambda entries: change_purchase(entries, 5, _strange_host), "budgets", "stranger, which buys,", agent=False
    ),
    "a constraint too many": Forgery(
        lambda entries: change_purchase(entries, 5, _one_constraint_more), "budgets", "the game has 2", agent=False
    ),
    "a purchase twice": Forgery(_twice, "budgets", "buys a second time", None),
    "a purchase twice, much later": Forgery(_twice_much_later, "budgets", "buys a second time", None),
    "a purchase of another round": Forgery(
        lambda entries: change_purchase(entries, 5, _four_rounds_later),
        "budgets",
        "round 5 must be bought before round 9",
        None,
        9,
    ),
    "a commitment": Forgery(_other_commitment, "commitments", "and by the spec", (Commit, 1), 2, agent=False),
    "a commitment made late": Forgery(
        _late_commitment, "commitments", "is not committed to yet", (Purchase, 1), 1, agent=False
    ),
    "a score": Forgery(_other_score, "scores", "violation is", (Scored, 6), 6, agent=False),
    "a score left out": Forgery(
        lambda entries: entries.pop(nth(entries, Scored, 6)), "scores", "its score is missing", None, 6, agent=False
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_record_is_named_though_its_seal_is_right(name: str, played: Run, tmp_path: Path) -> None:
    forgery, spoilt = FORGERIES[name], []

    def change(entries: list[Entry]) -> None:
        forgery.change(entries)
        spoilt.extend(entries)

    report = forged(played, tmp_path / "forged", change).audit()

    first = of(report, forgery.check).differences[0]
    assert of(report, "journal").verdict == "ok"
    assert forgery.words in first.what
    assert first.round == forgery.round
    assert (first.agent is not None) == forgery.agent
    if forgery.where is not None:
        assert first.record == nth(spoilt, *forgery.where) + 1
    if first.agent is not None:
        assert first.record is not None
        record = spoilt[first.record - 1]
        assert isinstance(record, Purchase)
        assert first.agent in record.asked.question.agents


@pytest.mark.parametrize("change", [altering(5, x=100.0), altering(5, points=100.0)], ids=["decision", "point"])
def test_of_a_question_against_the_rules_the_agent_is_named_and_what_follows_is_not_called_ok(
    change: Change, played: Run, tmp_path: Path
) -> None:
    run = forged(played, tmp_path / "forged", change)

    report = run.audit()

    [first] = of(report, "budgets").differences
    assert first.record is not None
    record = list(read(run.folder))[first.record - 1]
    assert isinstance(record, Purchase)
    assert first.agent == record.asked.question.agents[-1]  # `altering` changes what the last one asks
    assert record.asked.host in first.what
    assert {each.verdict for each in report.checks} == {"ok", "differs", "not checked"}
    assert (of(report, "journal").verdict, of(report, "journal").count) == ("ok", len(list(read(run.folder))))
    assert of(report, "decisions").reason == f"not checked beyond record {first.record}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x", "points", "f", "g"])
def test_every_number_of_a_purchase_is_guarded(name: str, played: Run, tmp_path: Path) -> None:
    purchases = (each for each in read(played.folder) if isinstance(each, Purchase))
    bought = next(each for each in purchases if each.asked.question.round == 5)
    decided = name in ("x", "points")
    array: Array = getattr(bought.asked.question if decided else bought.values, name)
    for index in np.ndindex(array.shape):
        changed = array.copy()
        changed[index] *= 1.0 + 1e-6
        spoilt = _asking(bought, name, changed) if decided else _selling(bought, name, changed)

        report = forged(played, tmp_path / "-".join(map(str, index)), _putting(spoilt)).audit()

        first = of(report, "decisions" if decided else "values").differences[0]
        assert first.round == 5
        assert first.agent == bought.asked.question.agents.tolist()[index[0]]


def _asking(entry: Purchase, name: str, array: Any) -> Purchase:
    question = replace(entry.asked.question, **{name: array}, x_is_first_point=False)
    return replace(entry, asked=replace(entry.asked, question=question))


def _selling(entry: Purchase, name: str, array: Any) -> Purchase:
    return replace(entry, values=replace(entry.values, **{name: array}))


def _putting(entry: Purchase) -> Change:
    """Put an entry in the place of the first purchase of its round."""
    return lambda entries: change_purchase(entries, entry.asked.question.round, lambda _: entry)


def test_a_purchase_left_out_is_named_by_its_agent_and_round(played: Run, tmp_path: Path) -> None:
    gone: list[Entry] = []

    report = forged(
        played, tmp_path / "forged", lambda entries: gone.append(entries.pop(nth(entries, Purchase, 5)))
    ).audit()

    [entry] = gone
    assert isinstance(entry, Purchase)
    [first, *_] = of(report, "budgets").differences
    assert (first.round, first.agent) == (6, entry.asked.question.agents[0])
    assert "round 5 must be bought before round 6" in first.what
    assert report.rounds == 4
    assert differing(report) == ["budgets"]  # what it would have to be held against is not there


def test_a_value_changed_in_its_last_bit_is_named_and_nobody_accused(played: Run, tmp_path: Path) -> None:
    def change(entries: list[Entry]) -> None:
        change_purchase(entries, 5, _one_bit_more)

    report = forged(played, tmp_path / "forged", change).audit()

    assert of(report, "values").verdict == "not checked"
    assert "round 5 on some differ by rounding" in of(report, "values").reason
    assert of(report, "values").count == T * 6 * 2 * (1 + 2)  # and the others were checked all the same


def _in_the_spec(folder: Path, **changes: object) -> None:
    (folder / "spec.toml").write_text(Run.open(folder).spec.replace(**changes).to_toml())


def _in_the_summary(folder: Path, **changes: object) -> None:
    path = folder / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _in_a_row(folder: Path, round: int, column: str, value: str) -> None:
    path = folder / "metrics.csv"
    rows = [line.split(",") for line in path.read_text().splitlines()]
    rows[round][rows[0].index(column)] = value
    path.write_text("".join(",".join(row) + "\n" for row in rows))


ELSEWHERE: dict[str, tuple[Callable[[Path], None], str, str, int | None]] = {
    "another graph": (lambda run: _in_the_spec(run, **{"graph.rho": 0.9}), "decisions", "on W_t gives", None),
    "another seed": (lambda run: _in_the_spec(run, **{"run.seed": 2}), "commitments", "and by the spec", 1),
    "another seed of the functions": (
        lambda run: _in_the_spec(run, **{"adversary.seed": 2}),
        "commitments",
        "and by the spec",
        1,
    ),
    "other options": (lambda run: _in_the_spec(run, **{"adversary.options.b": 0.02}), "commitments", "by the spec", 1),
    "another schedule": (
        lambda run: _in_the_spec(
            run, **{"algorithm.schedule": "theorem1", "algorithm.c": 0.5, "algorithm.gamma0": 0.1}
        ),
        "decisions",
        "gives",
        None,
    ),
    "a smaller grant": (lambda run: _in_the_spec(run, **{"feedback.points": 1}), "budgets", "the game grants 1", 1),
    "a smaller question": (lambda run: _in_the_spec(run, **{"question.points": 1}), "budgets", "the game grants 1", 1),
    "a larger question": (
        lambda run: _in_the_spec(run, **{"feedback.points": 3, "question.points": 3}),
        "budgets",
        "all the points",
        1,
    ),
    "a digest": (lambda run: _in_the_summary(run, digest="0" * 64), "summary", "digest is 000", None),
    "a sum": (
        lambda run: _in_the_summary(run, cumulative_violation=0.0),
        "summary",
        "cumulative_violation is 0.0",
        None,
    ),
    "another run": (lambda run: _in_the_summary(run, run="another"), "journal", "its title says run", None),
    "a row's loss": (lambda run: _in_a_row(run, 6, "loss", "0.5"), "metrics", "loss is 0.5 in metrics.csv", 6),
    "a row's digest": (lambda run: _in_a_row(run, 7, "digest", "f" * 16), "metrics", "digest is fff", 7),
    "a row's number": (lambda run: _in_a_row(run, 9, "round", "10"), "metrics", "round is 10", 9),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_was_changed_beside_the_journal_is_named(name: str, played: Run, tmp_path: Path) -> None:
    change, check, words, round = ELSEWHERE[name]
    shutil.copytree(played.folder, tmp_path / "forged")
    change(tmp_path / "forged")

    report = Run.open(tmp_path / "forged").audit()

    first = of(report, check).differences[0]
    assert words in first.what
    assert round is None or first.round == round


@pytest.mark.parametrize("flips", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_a_flipped_bit_anywhere_is_found(flips: int, played: Run, tmp_path: Path) -> None:
    shutil.copytree(played.folder, tmp_path / "flipped")
    path = tmp_path / "flipped" / JOURNAL
    sound = path.read_bytes()
    for place in np.linspace(0, len(sound) - 1, flips).astype(int).tolist():
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1 << place % 8]) + sound[place + 1 :])
        try:
            report = Run.open(tmp_path / "flipped").audit()
        except (BadSpec, Diverged):
            assert place < 200  # in the title: there is nothing to read
        else:
            assert of(report, "journal").differences, place


@pytest.mark.parametrize(
    ("width", "check", "words"), [(None, "decisions", "the memo has a coordinate"), (2, "budgets", "memo")]
)
def test_a_forged_memo_is_named(width: int | None, check: str, words: str, tmp_path: Path) -> None:
    run = play(tmp_path / "played", "algorithm.name=tracking")

    def other(entry: Purchase) -> Purchase:
        question = entry.asked.question
        assert question.memo is not None
        memo = nudged(question.memo, 1e-12)[:, :width]
        return replace(entry, asked=replace(entry.asked, question=replace(question, memo=memo)))

    report = forged(run, tmp_path / "forged", lambda entries: change_purchase(entries, 5, other)).audit()

    first = of(report, check).differences[0]
    assert words in first.what
    assert first.round == 5
    assert run.audit().verdict == "ok"
