"""`run` and `simulate` say that an adversary has not passed the exam as it is; nothing else depends on that."""

import json
import os
from pathlib import Path

import pytest

from slaternet_lab.cli import main
from slaternet_lab.tools import examined

MINE = """
from slaternet_adversary.builtin.moving_target import MovingTarget


class Mine(MovingTarget):
    pass
"""
GAME = ("--set", "run.agents=2", "--set", "run.rounds=3", "--set", "adversary.isolation=none")
SENTENCE = "mine.py:Mine has not been examined since its last change; slaternet adversary-check "


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "slaternet" / "examined"


@pytest.fixture
def mine(tmp_path: Path, cache: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return f"{tmp_path}/mine.py:Mine"


def slaternet(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(each) for each in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def said(command: str, plugin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command that plays says on standard error; on standard output it prints JSON alone."""
    capsys.readouterr()
    out = tmp_path / "run"
    assert slaternet(command, "moving-target", "--adversary", plugin, *GAME, "--out", out, "--force", "--json") == 0
    printed = capsys.readouterr()
    json.loads(printed.out)
    return printed.err


@pytest.mark.slow
@pytest.mark.parametrize("command", ["simulate", "run"])
def test_a_change_after_the_exam_is_said_in_one_line(
    command: str, mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(command, mine, tmp_path, capsys).count(SENTENCE) == 1

    assert slaternet("adversary-check", mine, "--rounds", 2) == 0
    assert SENTENCE not in said(command, mine, tmp_path, capsys)

    (tmp_path / "mine.py").write_text(MINE + "\n# another\n")
    assert said(command, mine, tmp_path, capsys).count(SENTENCE) == 1


def test_what_has_failed_or_was_not_examined_to_its_end_has_not_passed(mine: str, cache: Path, tmp_path: Path) -> None:
    assert slaternet("adversary-check", mine, "--seconds", 0.1) == 0
    with (tmp_path / "mine.py").open("a") as file:
        file.write("\n    def play(self, round, past):\n        raise KeyError\n")
    assert slaternet("adversary-check", mine) == 6

    assert not cache.exists()


def test_built_in_and_foreign_adversaries_are_never_recommended_to_the_exam(cache: Path) -> None:
    assert not examined.needs_exam("moving-target")
    assert not examined.needs_exam("grpc://127.0.0.1:1")


def test_without_a_folder_that_can_be_written_nothing_is_recorded_and_nothing_fails(
    mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine.py"))

    examined.record(examined.code_of(mine))

    assert examined.needs_exam(mine)


def test_only_the_newest_records_are_kept(mine: str, cache: Path) -> None:
    cache.mkdir(parents=True)
    for number in range(1000):
        (cache / f"{number:064}").touch()
        os.utime(cache / f"{number:064}", (number, number))

    examined.record("f" * 64)

    held = {path.name for path in cache.iterdir()}
    assert len(held) == 1000
    assert f"{0:064}" not in held
    assert "f" * 64 in held
