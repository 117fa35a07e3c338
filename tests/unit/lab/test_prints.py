"""What a plugin prints in a run is shown from the log of the adversary."""

from pathlib import Path

import pytest

from slaternet_lab.games.manifest import ADVERSARY, states_of
from slaternet_lab.games.prints import prints_shown

Shown = pytest.CaptureFixture[str]
TARGET = "/plugins/mine.py:Mine"


class Rounds:
    """A watcher that prints the rounds it hears of."""

    def update(self, round: int, loss: float, violation: float, note: str = "") -> None:
        print("round", round)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = states_of(tmp_path) / ADVERSARY / "log"
    path.parent.mkdir(parents=True)
    return path


def test_lines_of_the_plugin_are_shown_once_and_no_others(tmp_path: Path, log: Path, capsys: Shown) -> None:
    log.write_text("mine.py:Mine| of an earlier start\n")
    with prints_shown(tmp_path, TARGET, Rounds()) as watcher, log.open("a") as file:
        assert watcher is not None
        file.write("2026-01-01 [info] joined\nmine.py:Mine| one\nmine.py:Mine| not yet")
        file.flush()
        watcher.update(1, 0.0, 0.0)
        assert capsys.readouterr() == ("round 1\n", "mine.py:Mine| one\n")
        file.write(" ended\nmine.py:Mine| \x1b[31m\n")
        file.flush()

    assert capsys.readouterr().err == "mine.py:Mine| not yet ended\nmine.py:Mine| ?[31m\n"


def test_of_more_than_anybody_reads_the_end_is_shown_and_where_the_rest_is(
    tmp_path: Path, log: Path, capsys: Shown
) -> None:
    with prints_shown(tmp_path, TARGET, Rounds()), log.open("w") as file:
        file.writelines(f"mine.py:Mine| {number}\n" for number in range(100_000))

    first, *lines = capsys.readouterr().err.splitlines()
    assert first == f"mine.py:Mine| ... all of it is in {log}"
    assert lines[-1] == "mine.py:Mine| 99999"
    assert 100 < len(lines) < 2000


def test_a_log_that_is_begun_anew_is_read_from_its_start(tmp_path: Path, log: Path, capsys: Shown) -> None:
    log.write_text("mine.py:Mine| of a run that was there before\n" * 3)
    with prints_shown(tmp_path, TARGET, Rounds()):
        log.write_text("mine.py:Mine| one\n")

    assert capsys.readouterr().err == "mine.py:Mine| one\n"


def test_without_a_watcher_nothing_is_shown(tmp_path: Path, log: Path, capsys: Shown) -> None:
    with prints_shown(tmp_path, TARGET, None) as watcher:
        log.write_text("mine.py:Mine| one\n")

    assert watcher is None
    assert capsys.readouterr().err == ""
