"""An audit finds nothing in an honest run, and names what was changed in any other, though every seal was made anew."""

import asyncio
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import playing, small_spec
from journals import Change, forged

from slaternet.errors import BadSpec, Diverged
from slaternet.model import Array
from slaternet.spec import Spec
from slaternet_adversary.chronicle import JOURNAL, Entry, Purchase, Seats, read
from slaternet_adversary.referee import Commit, Scored
from slaternet_lab import Run
from slaternet_lab.audit.auditor import audit
from slaternet_lab.audit.report import Check, Report
from slaternet_lab.cli import main

T = 12
CHECKS = ["journal", "budgets", "commitments", "graphs", "decisions", "values", "scores", "metrics", "summary"]
ALGORITHMS = sorted(entry.name for entry in entry_points(group="slaternet.algorithms"))
CENTRAL = ("mahdavi2012", "flaxman2005", "zinkevich2003", "yi2023")
PLUGIN = """
import os
from dataclasses import dataclass
import numpy as np
from slaternet_adversary import Adversary

@dataclass
class Bowls:
    shift: float

    def loss(self, agents, points):
        return ((points - self.shift) ** 2).sum(axis=-1)

    def constraint(self, agents, points):
        return points[..., :1] - self.shift

class Adaptive(Adversary):
    constraints, history, rowwise = 1, 2, True

    def __init__(self, game):
        super().__init__(game)

    def play(self, round, past):
        return Bowls(float(np.tanh(past.decisions.sum())) + 0.1 * round)

class Fickle(Adversary):
    constraints, rowwise = 1, True

    def __init__(self, game):
        super().__init__(game)
        self._mood = int.from_bytes(os.urandom(6), "little") / 2**48

    def play(self, round, past):
        return Bowls(self._mood)
"""


async def _play(spec: Spec, folder: Path, hosts: int) -> Run:
    async with playing(spec, folder, hosts=hosts) as game:
        return await game.over()


def play(folder: Path, *settings: str, rounds: int = T, hosts: int = 3) -> Run:
    """Play a game of 6 agents over real gRPC."""
    return asyncio.run(_play(small_spec(*settings, rounds=rounds), folder / "game", hosts))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Play an honest game; two rounds of three are not scored."""
    return play(tmp_path_factory.mktemp("runs"), "record.score_every=3")


def of(report: Report, name: str) -> Check:
    [check] = [each for each in report.checks if each.name == name]
    return check


def differing(report: Report) -> list[str]:
    return [each.name for each in report.checks if each.verdict == "differs"]


def assert_clean(run: Run) -> None:
    report = run.audit()
    assert report.verdict == "ok", report.sentences()
    rounds, agents = run.spec.run.rounds, run.spec.run.agents
    assert rounds is not None
    assert [each.name for each in report.checks] == CHECKS
    assert of(report, "budgets").count == of(report, "decisions").count == rounds * agents
    assert of(report, "commitments").count == of(report, "graphs").count == of(report, "metrics").count == rounds
    assert of(report, "scores").count == rounds // run.spec.record.score_every
    assert of(report, "values").count > 0 or run.spec.algorithm.name == "zero"
    assert (report.rounds, report.digest) == (rounds, run.summary["digest"])


def test_an_honest_run_is_found_clean_to_the_last_record(played: Run) -> None:
    assert_clean(played)
    assert of(played.audit(), "values").count == T * 6 * 2 * (1 + 2)  # f and two constraints at two points


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_audits_clean(name: str, tmp_path: Path) -> None:
    assert_clean(play(tmp_path, f"algorithm.name={name}"))


@pytest.mark.slow
@pytest.mark.parametrize("name", CENTRAL)
def test_one_learner_for_all_audits_clean(name: str, tmp_path: Path) -> None:
    assert_clean(play(tmp_path, f"algorithm.name={name}", "algorithm.mode=central"))


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_an_adaptive_adversary_audits_clean_and_a_forged_decision_shows_in_what_it_knew(
    isolation: str, tmp_path: Path
) -> None:
    file = tmp_path / "plugin.py"
    file.write_text(PLUGIN)
    run = play(
        tmp_path, "algorithm.name=yi2023", f"adversary.plugin={file}:Adaptive", f"adversary.isolation={isolation}"
    )
    assert_clean(run)

    report = forged(run, tmp_path / "forged", altering(5, x=1e-3)).audit()

    [commitment, *_] = of(report, "commitments").differences
    assert commitment.round == 6  # d_5 is part of it
    assert of(report, "decisions").differences[0].round == 5


@pytest.mark.slow
@pytest.mark.parametrize("part", ["loss", "constraint"])
def test_a_forged_gradient_is_named(part: str, tmp_path: Path) -> None:
    def steeper(entry: Purchase) -> Purchase:
        tangent = getattr(entry.values, part)
        return replace(
            entry, values=replace(entry.values, **{part: replace(tangent, gradient=nudged(tangent.gradient, 1e-3))})
        )

    run = play(tmp_path, "algorithm.name=yi2023-full")
    report = forged(run, tmp_path / "forged", lambda entries: _purchase(entries, 5, steeper)).audit()

    [first] = of(report, "values").differences
    assert "gradient" in first.what
    assert (first.round, first.agent is None) == (5, False)


@pytest.mark.slow
def test_the_shipped_adaptive_adversary_audits_clean(tmp_path: Path) -> None:
    assert_clean(play(tmp_path, "adversary.plugin=resource-fair", "set.lower=0.0", "set.upper=1.5"))


# What is changed: the record's place in the journal is found by what it is.


def nth(entries: list[Entry], kind: type[Entry], round: int) -> int:
    """Return the place of the first entry of a kind about a round."""
    for place, entry in enumerate(entries):
        about = entry.asked.question.round if isinstance(entry, Purchase) else getattr(entry, "round", 0)
        if isinstance(entry, kind) and about == round:
            return place
    raise AssertionError(f"no {kind.__name__} of round {round}")


def nudged(array: Array, by: float) -> Array:
    """Return the array with the first number of its last row changed."""
    changed = array.copy()
    changed[(-1, *[0] * (array.ndim - 1))] += by
    return changed


def altering(round: int, *, x: float = 0.0, points: float = 0.0, f: float = 0.0, g: float = 0.0) -> Change:
    """Change the first purchase of a round."""

    def change(entries: list[Entry]) -> None:
        place = nth(entries, Purchase, round)
        entry = entries[place]
        assert isinstance(entry, Purchase)
        asked, values = entry.asked, entry.values
        question = replace(asked.question, x=nudged(asked.question.x, x), points=nudged(asked.question.points, points))
        values = replace(values, f=nudged(values.f, f), g=nudged(values.g, g))
        entries[place] = Purchase(replace(asked, question=question), values)

    return change


def _purchase(entries: list[Entry], round: int, change: Callable[[Purchase], Purchase]) -> None:
    place = nth(entries, Purchase, round)
    entry = entries[place]
    assert isinstance(entry, Purchase)
    entries[place] = change(entry)


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


def _other_host(entry: Purchase) -> Purchase:
    name = "agent-1" if entry.asked.host != "agent-1" else "agent-2"
    return Purchase(replace(entry.asked, host=name), replace(entry.values, host=name))


def _unseated(entries: list[Entry]) -> None:
    assert isinstance(entries[0], Seats)
    entries[0] = Seats(entries[0].hosts[1:])


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
    "a decision outside the set": Forgery(altering(5, x=100.0), "budgets", "outside the feasible set"),
    "a point too many": Forgery(
        lambda entries: _purchase(entries, 5, _one_point_more),
        "budgets",
        "buys 3 points per agent, granted are 2",
        agent=False,
    ),
    "another host": Forgery(lambda entries: _purchase(entries, 5, _other_host), "budgets", "is not seated at"),
    "a host without seats": Forgery(_unseated, "budgets", "does not seat every agent", (Seats, 0), None, agent=False),
    "a purchase twice": Forgery(_twice, "budgets", "buys a second time", None),
    "a purchase of another round": Forgery(
        lambda entries: _purchase(entries, 5, _four_rounds_later), "budgets", "purchase of round 5 is missing", None, 9
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x", "points", "f", "g"])
def test_every_number_of_a_purchase_is_guarded(name: str, played: Run, tmp_path: Path) -> None:
    bought = next(each for each in read(played.folder) if isinstance(each, Purchase) and each.values.round == 5)
    decided = name in ("x", "points")
    array: Array = getattr(bought.asked.question if decided else bought.values, name)
    for index in np.ndindex(array.shape):
        changed = array.copy()
        changed[index] *= 1.0 + 1e-6
        spoilt = _asking(bought, name, changed) if decided else _selling(bought, name, changed)

        report = forged(played, tmp_path / "-".join(map(str, index)), _putting(spoilt)).audit()

        first = of(report, "decisions" if decided else "values").differences[0]
        assert first.round == 5
        assert first.agent == bought.values.agents.tolist()[index[0]]


def _asking(entry: Purchase, name: str, array: Any) -> Purchase:
    return replace(entry, asked=replace(entry.asked, question=replace(entry.asked.question, **{name: array})))


def _selling(entry: Purchase, name: str, array: Any) -> Purchase:
    return replace(entry, values=replace(entry.values, **{name: array}))


def _putting(entry: Purchase) -> Change:
    """Put an entry in the place of the first purchase of its round."""
    return lambda entries: _purchase(entries, entry.values.round, lambda _: entry)


def test_a_purchase_left_out_is_named_by_its_agent_and_round(played: Run, tmp_path: Path) -> None:
    gone: list[Entry] = []

    report = forged(
        played, tmp_path / "forged", lambda entries: gone.append(entries.pop(nth(entries, Purchase, 5)))
    ).audit()

    [entry] = gone
    assert isinstance(entry, Purchase)
    [first, *_] = of(report, "budgets").differences
    assert (first.round, first.agent) == (6, entry.asked.question.agents[0])
    assert "its purchase of round 5 is missing" in first.what
    assert report.rounds == 4
    assert differing(report) == ["budgets"]  # what it would have to be held against is not there


def test_a_value_changed_in_its_last_bit_is_named_and_nobody_accused(played: Run, tmp_path: Path) -> None:
    def change(entries: list[Entry]) -> None:
        _purchase(entries, 5, _one_bit_more)

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
    "other options": (lambda run: _in_the_spec(run, **{"adversary.options.b": 0.02}), "commitments", "by the spec", 1),
    "another schedule": (
        lambda run: _in_the_spec(
            run, **{"algorithm.schedule": "theorem1", "algorithm.c": 0.5, "algorithm.gamma0": 0.1}
        ),
        "decisions",
        "gives",
        None,
    ),
    "a smaller grant": (lambda run: _in_the_spec(run, **{"feedback.points": 1}), "budgets", "granted are 1", 1),
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


def test_a_journal_cut_short_is_missed_where_the_game_has_ended(played: Run, tmp_path: Path) -> None:
    def change(entries: list[Entry]) -> None:
        del entries[nth(entries, Purchase, T) :]

    report = forged(played, tmp_path / "forged", change).audit()

    assert f"the game has {T} rounds, and the journal {T - 1} whole ones" in str(of(report, "budgets").differences[0])


def test_an_unfinished_run_is_audited_as_far_as_it_goes(played: Run, tmp_path: Path) -> None:
    shutil.copytree(played.folder, tmp_path / "cut")
    path = tmp_path / "cut" / JOURNAL
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (tmp_path / "cut" / "summary.json").unlink()

    report = Run.open(tmp_path / "cut").audit()

    assert not differing(report)
    assert 2 < report.rounds < T
    assert of(report, "decisions").count == 6 * report.rounds
    assert any(f"unfinished: it was checked up to round {report.rounds}" in note for note in report.notes)


def test_a_game_under_way_is_audited_to_where_it_stood(played: Run, tmp_path: Path) -> None:
    shutil.copytree(played.folder, tmp_path / "live")
    path = tmp_path / "live" / JOURNAL
    (tmp_path / "live" / "summary.json").unlink()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])

    def write_on(done: int, total: int) -> None:
        path.write_bytes(whole)

    report = audit(Run.open(tmp_path / "live"), write_on)

    assert not differing(report)
    assert 2 < report.rounds < T


def test_a_plugin_that_contradicts_itself_is_not_held_against_the_run(tmp_path: Path) -> None:
    file = tmp_path / "plugin.py"
    file.write_text(PLUGIN)
    run = play(tmp_path, f"adversary.plugin={file}:Fickle", "adversary.isolation=none", rounds=5, hosts=2)

    report = run.audit()

    assert report.verdict == "not checked"
    assert "gives other values each time it plays" in of(report, "values").reason
    assert (of(report, "decisions").verdict, of(report, "decisions").count) == ("ok", 30)

    file.write_text(PLUGIN + "\n# another version\n")
    report = run.audit()

    assert report.verdict == "not checked"
    assert "put that back" in of(report, "values").reason
    assert of(report, "commitments").verdict == of(report, "decisions").verdict == "ok"

    file.unlink()
    report = run.audit()

    assert not differing(report)
    assert "plugin.py" in of(report, "scores").reason
    assert of(report, "commitments").verdict == of(report, "decisions").verdict == "ok"


def test_the_command_says_what_was_checked_and_what_differs(
    played: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as clean:
        main(["audit", str(played.folder)])
    shown = capsys.readouterr().out
    assert clean.value.code == 0
    assert f"digest of rounds 1 to {T}  {played.summary['digest']}" in shown

    spoilt = forged(played, tmp_path / "forged", altering(5, f=1e-3))
    with pytest.raises(SystemExit) as wrong:
        main(["audit", str(spoilt.folder)])
    shown = capsys.readouterr().out
    assert wrong.value.code == 5
    assert "values: record " in shown
    assert ", round 5, agent " in shown

    with pytest.raises(SystemExit) as wrong:
        main(["audit", str(spoilt.folder), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert wrong.value.code == 5
    assert told["verdict"] == "differs"
    [values] = [each for each in told["checks"] if each["name"] == "values"]
    assert values["differences"][0]["round"] == 5


def test_a_run_without_a_journal_is_refused_with_the_command_that_keeps_one(
    played: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(played.folder, tmp_path / "simulated", ignore=shutil.ignore_patterns("journal"))

    for folder, words in ((tmp_path / "simulated", "play it with `slaternet run"), (tmp_path, "is not a run folder")):
        with pytest.raises(SystemExit) as refused:
            main(["audit", str(folder)])
        assert refused.value.code == 2
        assert words in capsys.readouterr().err
