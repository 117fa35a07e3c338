import json
from pathlib import Path

import pytest

from slaternet_lab.cli import main

BAD = """
from slaternet_agent.codes.sign import Sign


class Loud(Sign):
    def decode(self, symbols, agents, t):
        return super().decode(symbols, agents, t) + {}["nothing"]
"""


def slaternet(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(each) for each in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def test_a_good_code_is_answered_with_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert slaternet("code-check", "grid", "--set", "gossip.width=0.1", "--set", "gossip.difference=true") == 0
    assert "withstands" in capsys.readouterr().out


def test_the_report_is_there_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert slaternet("code-check", "top-k", "--set", "gossip.keep=250", "--width", "300", "--json") == 0
    assert {each["verdict"] for each in json.loads(capsys.readouterr().out)} == {"ok"}


def test_a_breach_ends_with_the_exit_code_of_plugins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.py").write_text(BAD)

    assert slaternet("code-check", f"{tmp_path}/bad.py:Loud") == 6

    error = capsys.readouterr().err
    assert "breaks its contract: decode of round 300 raised KeyError: 'nothing', at " in error
    assert "bad.py:7" in error


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tops"], 'gossip.code = "tops" is not known; did you mean top-k?'),
        (["top-k"], "gossip.keep is missing; top-k needs it"),
        (["sign", "--set", "gossip.levels=3"], "gossip.levels is not an option of sign"),
        (["sign", "--set", "gossip.difference=false"], "gossip.difference must be true, because sign is a code of"),
        (["sign", "--set", "run.rounds=3"], "--set run.rounds=3 is no key of [gossip]"),
        (["top-k", "--set", "gossip.keep=500"], "gossip.keep must be at most 200, the coordinates of a row, not 500"),
    ],
)
def test_what_the_user_can_correct_is_said_in_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slaternet("code-check", *arguments) == 2

    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
