import json
from pathlib import Path

import pytest

from slaternet_lab.cli import main
from slaternet_lab.specs.shipped import shipped

SMALL = ("--theorem", 2, "--seeds", 2, "--set", "run.rounds=64", "--set", "run.agents=5")
MINE = """
from slaternet_agent.algorithms.zhang2024 import Zhang2024


class Momentum(Zhang2024):
    def update(self, state, decision, seen, t):
        raise RuntimeError("it is played")
"""


def slaternet(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main([str(each) for each in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code, *capsys.readouterr()


def assert_refused(ended: tuple[int, str, str], *words: str) -> None:
    """Require exit code 2, one sentence that holds the words, and nothing else."""
    code, out, err = ended
    assert (code, out, err.count("\n")) == (2, "", 1), err
    for word in words:
        assert word in err


@pytest.mark.parametrize(
    ("setting", "must"),
    [
        ("algorithm.name=mine.py:Momentum", "algorithm.name must be zhang2024, which Theorem 2 is about, not mine.py"),
        ("algorithm.name=yi2023", "algorithm.name must be zhang2024, which Theorem 2 is about, not yi2023;"),
        ("algorithm.schedule=theorem4", "algorithm.schedule must be theorem1"),
        ("algorithm.mode=central", "algorithm.mode must be gossip"),
        ("run.name=mine", "run.name changes nothing here"),
        ("record.decisions=true", "record.decisions changes nothing here"),
        ("record.score_every=2", "record.score_every must be 1"),
        ("gossip.code=sign", "[gossip] must be left out, because the theorems speak of rows as they are"),
        ("gossip.trigger=2", "[gossip] must be left out"),
    ],
)
def test_a_setting_that_would_not_be_tested_is_refused_by_name(
    setting: str, must: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)

    ended = slaternet(capsys, "verify", "theorem2", *SMALL, "--set", setting, "--out", "out")

    assert_refused(ended, must)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


def test_a_spec_of_another_algorithm_is_refused_and_nothing_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    spec = tmp_path / "mine.toml"
    spec.write_text(shipped("theorem2").text.replace('"zhang2024"', '"yi2023"'))

    assert_refused(
        slaternet(capsys, "verify", spec, *SMALL, "--out", tmp_path / "out"), "algorithm.name must be zhang2024"
    )
    assert not (tmp_path / "out").exists()


def test_feedback_that_a_spec_denies_is_not_granted_behind_its_back(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    spec = tmp_path / "mine.toml"
    spec.write_text(shipped("theorem2").text + "\n[feedback]\npoints = 1\n")

    ended = slaternet(capsys, "verify", spec, *SMALL, "--out", tmp_path / "out")

    assert_refused(ended, "feedback.points must be at least 2")


def test_the_verdict_stands_beside_exponent_and_interval_in_the_table_and_in_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, table, _ = slaternet(capsys, "verify", "theorem2", *SMALL, "--set", "run.rounds=512", "--out", tmp_path)

    assert code == 0
    (study,) = json.loads((tmp_path / "verify.json").read_text())
    (finding,) = study["findings"]
    fit = finding["fit"]
    assert 0.5 < fit["low"] < 0.75 < fit["high"]  # of this short game
    assert finding["verdict"] == "undecided at T^0.75, above T^0.5 so far"
    (line,) = (each for each in table.splitlines() if each.startswith("2  "))
    assert f"{fit['exponent']:.3f} ({fit['low']:.3f} to {fit['high']:.3f})  {finding['verdict']}  " in line
    assert finding["reason"] in line
