import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.full_programme import full_optimum

import slaternet_lab
from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet_lab.cli import main
from slaternet_lab.functions.replay import replay
from slaternet_lab.games.simulation import simulate
from slaternet_lab.hindsight.comparator import offline
from slaternet_lab.hindsight.regret import COLUMNS, log_spaced, regret
from slaternet_lab.runs.run import Run
from slaternet_lab.specs.resolve import load
from slaternet_lab.specs.shipped import shipped

N, T = 20, 100
SETTINGS = [f"run.agents={N}", f"run.rounds={T}", "adversary.options.b=1.0"]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """zhang2024 on a lively game, decisions recorded."""
    spec = load("paper-short", SETTINGS)
    return simulate(spec, out=tmp_path_factory.mktemp("runs") / "played", figures=False)


def copied(run: Run, folder: Path, *without: str) -> Run:
    shutil.copytree(run.folder, folder)
    for name in without:
        (folder / name).unlink()
    return Run.open(folder)


def respecified(run: Run, **changes: object) -> Run:
    (run.folder / "spec.toml").write_text(run.spec.replace(**changes).to_toml())
    return Run.open(run.folder)


def test_the_regret_of_zhang2024_is_that_of_the_full_programme_to_8_digits(played: Run) -> None:
    found = regret(played)

    lost = played.metrics["cumulative_loss"]
    assert found.rounds[-1] == T
    for t, value in zip(found.rounds[-3:], found.regret[-3:], strict=True):
        assert value == pytest.approx(lost[t - 1] - full_optimum(played.spec, int(t)), rel=1e-8)
    assert found.regret[-1] > 1.0  # so that 8 digits say something


def test_the_comparator_of_the_papers_game_is_that_of_all_200_000_rows_to_8_digits() -> None:
    spec = Spec.parse(shipped("paper").text, source="paper")

    assert offline(spec).value == pytest.approx(full_optimum(spec, 1000), rel=1e-9)


def test_both_other_measures_of_violation_are_as_defined(played: Run) -> None:
    found, x = regret(played, points=4), played.decisions
    assert x is not None

    values = np.array([f.constraints(x[t]) for t, f in enumerate(replay(played.spec, T))])  # (T, n, n m)

    for i, t in enumerate(found.rounds):
        kept = np.maximum(values[:t].sum(axis=0), 0.0)
        assert found.tolerant_violation[i] == pytest.approx(np.mean([np.linalg.norm(row) for row in kept]))
        assert found.l1_violation[i] == pytest.approx(np.maximum(values[:t], 0.0).sum())
    norms = np.sqrt(np.sum(np.maximum(values, 0.0) ** 2, axis=2)).mean(axis=1)
    np.testing.assert_allclose(np.cumsum(norms), played.metrics["cumulative_violation"])  # Net-CCV, a third one


def test_decisions_that_were_not_recorded_are_played_again(played: Run, tmp_path: Path) -> None:
    bare = copied(played, tmp_path / "bare", "decisions.npz")

    assert regret(bare, points=3).table() == regret(played, points=3).table()
    assert not (bare.folder / "decisions.npz").exists()


def test_a_run_in_progress_has_the_regret_of_the_rounds_it_has(played: Run, tmp_path: Path) -> None:
    young = copied(played, tmp_path / "young", "decisions.npz", "summary.json")
    lines = (young.folder / "metrics.csv").read_text().splitlines(keepends=True)
    (young.folder / "metrics.csv").write_text("".join(lines[:41]) + lines[41][:20])

    found = regret(Run.open(young.folder), points=2)

    assert found.rounds.tolist() == [1, 40]
    expected = played.metrics["cumulative_loss"][39] - offline(played.spec, 40).value
    assert found.regret[-1] == pytest.approx(expected, rel=1e-10)
    assert np.isfinite(found.l1_violation).all()


def test_a_run_that_cannot_be_played_again_keeps_its_regret_and_says_what_lacks(played: Run, tmp_path: Path) -> None:
    other = respecified(copied(played, tmp_path / "other", "decisions.npz"), **{"algorithm.gamma0": 0.1})

    found = regret(other, points=2)

    np.testing.assert_allclose(found.regret, regret(played, points=2).regret)
    assert np.isnan(found.tolerant_violation).all()
    assert np.isnan(found.l1_violation).all()
    assert "another digest" in found.notes[0]
    with found.save(tmp_path)[0].open() as file:
        assert [row["l1_violation"] for row in csv.DictReader(file)] == ["", ""]


def test_functions_that_are_not_the_runs_are_refused(played: Run, tmp_path: Path) -> None:
    other = respecified(copied(played, tmp_path / "other"), **{"run.seed": 2})

    with pytest.raises(BadSpec, match="are not those of the run any more"):
        regret(other)


def test_rounds_without_a_score_have_no_regret(played: Run, tmp_path: Path) -> None:
    sparse = respecified(copied(played, tmp_path / "sparse"), **{"record.score_every": 5})

    with pytest.raises(BadSpec, match=r"record\.score_every = 5 .*needs every round scored"):
        regret(sparse)


def test_a_game_that_has_not_begun_has_no_regret(played: Run, tmp_path: Path) -> None:
    young = copied(played, tmp_path / "young", "decisions.npz", "summary.json")
    header = (young.folder / "metrics.csv").read_text().splitlines(keepends=True)[0]
    (young.folder / "metrics.csv").write_text(header)

    with pytest.raises(BadSpec, match="holds no scored round yet"):
        regret(Run.open(young.folder))


def test_the_command_writes_a_table_and_a_figure_and_prints_what_they_say(
    played: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copied(played, tmp_path / "run")

    with pytest.raises(SystemExit) as left:
        main(["regret", str(run.folder), "--points", "5"])

    out = capsys.readouterr().out
    found = regret(played, points=5)
    assert left.value.code == 0
    assert f"Net-Reg({T})" in out
    assert [line.split()[0] for line in out.splitlines()].count("file") == 2
    assert "?" not in out
    assert f"{found.regret[-1]:.6f}" in out
    assert "[g]_+" in out
    with (run.folder / "regret.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    np.testing.assert_allclose([float(row["regret"]) for row in rows], found.regret, rtol=1e-12)
    assert (run.folder / "regret.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_prints_json(played: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = copied(played, tmp_path / "run")

    with pytest.raises(SystemExit):
        main(["regret", str(run.folder), "--points", "3", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert found["round"] == T
    assert found["regret"] == found["curve"][-1]["regret"]
    assert [row["round"] for row in found["curve"]] == [1, 10, 100]
    assert found["residual"] < 1e-10
    assert found["notes"] == []


@given(st.integers(1, 10**7), st.integers(1, 60))
def test_prefixes_ascend_to_the_whole_game(rounds: int, points: int) -> None:
    prefixes = log_spaced(rounds, points)

    assert 1 <= len(prefixes) <= points
    assert prefixes[-1] == rounds
    assert prefixes[0] >= 1
    assert np.all(np.diff(prefixes) > 0)


def test_regret_is_offered_from_python(played: Run) -> None:
    assert slaternet_lab.regret(played, points=1).rounds.tolist() == [T]
