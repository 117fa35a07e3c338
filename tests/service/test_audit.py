"""An audit finds nothing in an honest run, goes as far as a journal does, and says what it could not check."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.audits import ALGORITHMS, CENTRAL, PLUGIN, T, assert_clean, differing, of, play
from tests.support.journals import altering, change_purchase, forged, nth, nudged

from slaternet_adversary.journal.entries import Entry, Purchase
from slaternet_adversary.journal.journal import JOURNAL
from slaternet_lab import Run
from slaternet_lab.audit.auditor import audit
from slaternet_lab.cli import main


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

    file.unlink()
    report = run.audit()

    assert (report.verdict, differing(report), report.rounds) == ("not checked", [], T)
    assert (of(report, "commitments").verdict, of(report, "commitments").count) == ("ok", T)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["loss", "constraint"])
def test_a_forged_gradient_is_named(part: str, tmp_path: Path) -> None:
    def steeper(entry: Purchase) -> Purchase:
        tangent = getattr(entry.values, part)
        return replace(
            entry, values=replace(entry.values, **{part: replace(tangent, gradient=nudged(tangent.gradient, 1e-3))})
        )

    run = play(tmp_path, "algorithm.name=yi2023-full")
    report = forged(run, tmp_path / "forged", lambda entries: change_purchase(entries, 5, steeper)).audit()

    [first] = of(report, "values").differences
    assert "gradient" in first.what
    assert (first.round, first.agent is None) == (5, False)


@pytest.mark.slow
def test_the_shipped_adaptive_adversary_audits_clean(tmp_path: Path) -> None:
    assert_clean(play(tmp_path, "adversary.plugin=resource-fair", "set.lower=0.0", "set.upper=1.5"))


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
