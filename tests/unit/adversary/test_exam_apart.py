"""The exam in a worker: whatever the plugin does to its process is a line of the report."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet_adversary.testing import CHECKS, Line, examine

MINE = """
import os
import signal
import sys
import numpy as np
from slaternet_adversary import Adversary, CannotPlay


def forever():
    while True: pass  # here it stays


class Functions:
    def __init__(self, round, does):
        self.round, self.does = round, does

    def loss(self, agents, points):
        if self.round == 3:
            self.does()
        return 0.5 * np.sum(points * points, axis=-1)

    def constraint(self, agents, points):
        return np.sum(points, axis=-1)[..., None] - 1.0

    def scoring(self):
        return Functions(0, None)


class Does(Adversary):
    constraints = 1

    def __init__(self, game, *, what="nothing"):
        super().__init__(game)
        if what == "refuse":
            raise CannotPlay("run.agents must be 7")
        self.does = getattr(self, what)

    def play(self, round, past):
        return Functions(round, self.does)

    def nothing(self):
        pass

    def exit(self):
        os._exit(3)

    def crash(self):
        os.kill(os.getpid(), signal.SIGSEGV)  # here it crashes

    def loop(self):
        forever()

    def fork(self):
        os.fork()

    def fill(self):
        np.ones(1 << 40)  # here it is refused

    def talk(self):
        print("hello", "{}")
        os.write(1, b"from compiled code\\n")
        sys.stderr.write("and an error\\n")

    def imitate(self):
        os.write(1, b'{"line": ["ok", "plays", "all is well", ""]}\\n')
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def spec(path: Path, what: str) -> Spec:
    tables: dict[str, Any] = {
        "run": {"agents": 3, "dimension": 2, "rounds": 4},
        "set": {"kind": "box", "lower": -2.0, "upper": 2.0},
        "graph": {"name": "complete"},
        "algorithm": {"name": "zero"},
        "adversary": {"plugin": f"{path}:Does", "options": {"what": what}},
    }
    return Spec.load(tables, source="test")


def report(path: Path, what: str, **options: Any) -> dict[str, Line]:
    return {line.about: line for line in examine(spec(path, what), **options)}


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(MINE.splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    ("what", "sentence", "where"),
    [
        ("exit", "loss of round 3 ended its process, which ended with exit code 3", "def loss"),
        ("crash", "loss of round 3 ended its process, which was killed by SIGSEGV", "here it crashes"),
        ("loop", "loss of round 3 had not returned when the time for a call was over", "here it stays"),
        ("fill", "loss of round 3 raised", "here it is refused"),
    ],
)
def test_what_ends_the_process_is_the_line_of_the_call_with_the_author_s_line(
    mine: Path, what: str, sentence: str, where: str
) -> None:
    lines = report(mine, what, seconds=1.0 if what == "loop" else None)

    assert list(lines) == list(CHECKS)
    assert lines["plays"].verdict == "failed"
    assert lines["plays"].text.startswith(sentence)
    assert lines["plays"].where == f"{mine}:{line_of(where)}"
    assert lines["finite"] == Line("note", "finite", "not examined: correct plays first")


def test_what_a_plugin_prints_is_counted_and_passed_on(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = report(mine, "talk")

    passed_on = capsys.readouterr()
    assert passed_on.out == ""
    printed = passed_on.err.splitlines()
    assert set(printed) == {f"mine.py:Does| {each}" for each in ("hello {}", "from compiled code", "and an error")}
    assert lines["prints"].verdict == "note"
    assert lines["prints"].text.startswith(f"it prints {len(printed)} line(s) in this exam, the first: ")
    assert not [line for line in lines.values() if line.verdict == "failed"]


def test_output_of_a_plugin_is_no_line_of_the_report(mine: Path) -> None:
    assert report(mine, "imitate")["plays"].text.startswith("rounds 1 to 4")


def test_the_worker_sees_what_only_the_process_of_a_plugin_can_see(mine: Path) -> None:
    lines = report(mine, "nothing")

    assert lines["scoring"].text.startswith("what is scored is not what is revealed")
    assert lines["memory"].text.endswith("KiB more are kept after a round")
    assert lines["prints"] == Line("ok", "prints", "it prints nothing")


def test_a_plugin_that_forks_is_examined_once(mine: Path) -> None:
    assert not [line for line in report(mine, "fork").values() if line.verdict == "failed"]


def test_a_game_that_the_adversary_refuses_is_the_user_s_to_correct(mine: Path) -> None:
    with pytest.raises(BadSpec, match=r"run\.agents must be 7"):
        report(mine, "refuse")


def test_progress_names_the_call_and_counts_the_rounds_played(mine: Path) -> None:
    seen: list[tuple[str, int, int]] = []

    report(mine, "nothing", rounds=2, progress=lambda *each: seen.append(each))

    assert seen[0] == ("its constructor", 0, 10)
    assert ("loss of round 2", 2, 10) in seen
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


class Ticking:
    """A clock of which every look takes a hundredth of a second."""

    def __init__(self) -> None:
        self._looks: Iterator[int] = iter(range(10**9))

    def __call__(self) -> float:
        return 0.01 * next(self._looks)


def test_an_exam_whose_time_is_over_says_what_it_has_not_examined(mine: Path) -> None:
    game = spec(mine, "nothing").replace(**{"adversary.isolation": "none"})

    lines = {line.about: line for line in examine(game, seconds=3.0, clock=Ticking())}

    assert lines["plays"].verdict == "ok"
    ended = "not examined: the time of the exam was over after 3 seconds, at "
    assert lines["older rounds"].verdict == "note"
    assert lines["older rounds"].text.startswith(ended)
    assert not [line for line in lines.values() if line.verdict == "failed"]


def test_so_many_rounds_are_played_as_asked_for_but_no_more_than_the_game_has(mine: Path) -> None:
    assert report(mine, "nothing", rounds=3)["plays"].text.startswith("rounds 1 to 3 with")
    assert report(mine, "nothing", rounds=9)["plays"].text.startswith("rounds 1 to 4 with")
