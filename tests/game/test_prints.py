"""What a plugin prints appears where its game was started, with its name in front, and in no result."""

import json
from pathlib import Path

import pytest
from tests.game.processes import PLUGINS, slaternet, write_spec

ROUNDS = 5
LABEL = "stops.py:Talks| "


def lines(text: str) -> list[str]:
    """Return what the plugin has printed, as it is shown in a text."""
    return [line.removeprefix(LABEL) for line in text.splitlines() if line.startswith(LABEL)]


EXPECTED = [
    line
    for round in range(1, ROUNDS + 1)
    for line in (f"round {round}", "half a line ?[31m", *(["caf\ufffd"] if round == 3 else []))
]


@pytest.mark.parametrize("isolation", ["process", "none"])
@pytest.mark.parametrize("command", ["simulate", "run"])
def test_prints_are_labelled_lines_beside_a_result_in_json(tmp_path: Path, command: str, isolation: str) -> None:
    spec = write_spec(tmp_path, rounds=ROUNDS, plugin=f"{PLUGINS / 'stops.py'}:Talks")

    outcome = slaternet(command, spec, "--out", tmp_path / "run", "--json", "--set", f"adversary.isolation={isolation}")

    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["rounds"] == ROUNDS
    shown = lines(outcome.err)
    assert shown[: len(EXPECTED)] == EXPECTED, outcome.err  # it is asked again for the report on the assumptions
    if command == "run":
        assert lines((tmp_path / "run" / "state" / "adversary" / "log").read_text()) == EXPECTED


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_prints_in_an_exam_are_labelled_lines(isolation: str) -> None:
    target = f"{PLUGINS / 'stops.py'}:Talks"

    outcome = slaternet("adversary-check", target, "--json", "--set", f"adversary.isolation={isolation}")

    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)
    assert lines(outcome.err)[: len(EXPECTED)] == EXPECTED, outcome.err
