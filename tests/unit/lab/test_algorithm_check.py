import json
from pathlib import Path

import pytest

from slaternet_lab.cli import main

BAD = """
import numpy as np
from slaternet_agent.algorithms.zhang2024 import Zhang2024


class Noisy(Zhang2024):
    def decide(self, state, gossip, t):
        decision = super().decide(state, gossip, t)
        return type(decision)(decision.x, decision.points + 1e-9 * np.random.random())
"""


def slaternet(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(each) for each in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def test_a_good_algorithm_is_answered_with_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert slaternet("algorithm-check", "flaxman2005", "--set", "algorithm.value_bound=20") == 0
    assert "rowwise" in capsys.readouterr().out


def test_the_report_is_there_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert slaternet("algorithm-check", "zinkevich2003", "--json") == 0
    assert {each["verdict"] for each in json.loads(capsys.readouterr().out)} == {"ok"}


def test_a_breach_ends_with_the_exit_code_of_plugins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.py").write_text(BAD)

    assert slaternet("algorithm-check", f"{tmp_path}/bad.py:Noisy") == 6

    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "breaks its contract: decide of round 1 gives other bits when it is called again" in error


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["zhang"], 'algorithm.name = "zhang" is not known; did you mean zhang2024?'),
        (["cao2019", "--set", "algorithm.alpha=1"], "algorithm.alpha is not an option of cao2019 with schedule convex"),
        (["cao2019", "--set", "algorithm.mode=gossip"], "algorithm.mode must be local or central"),
        (["cao2019", "--set", "run.rounds=3"], "--set run.rounds=3 is no key of [algorithm]"),
    ],
)
def test_what_the_user_can_correct_is_said_in_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slaternet("algorithm-check", *arguments) == 2

    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
