"""incidents.jsonl, as it is written and continued."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from slaternet.errors import Damaged
from slaternet.limits import LIMITS
from slaternet.model import IncidentRecord
from slaternet_adversary.shell.incident_file import DISTURBED, IncidentFile

GONE = IncidentRecord(7, 100.5, "agent-1", "gone", "agent-1 has gone", "its stream broke")
BACK = IncidentRecord(9, 101.5, "agent-1", "back", "agent-1 is back after 1 s")


def written(path: Path) -> list[IncidentRecord]:
    return [IncidentRecord(**json.loads(line)) for line in path.read_text().splitlines()]


def test_each_incident_is_a_line_once_however_often_it_is_sent_and_by_whatever_process(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    file = IncidentFile(path)
    assert not path.exists()
    for incident in (GONE, GONE, BACK, GONE):
        file.append(incident)
    again = IncidentFile(path)
    for incident in (GONE, BACK, replace(BACK, time=102.0)):
        again.append(incident)

    assert written(path) == [GONE, BACK, replace(BACK, time=102.0)]
    assert list(json.loads(path.read_text().splitlines()[0])) == list(asdict(GONE))


def test_a_line_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    file = IncidentFile(path)
    file.append(GONE)
    whole = path.read_bytes()
    file.append(BACK)
    for size in range(len(whole), len(path.read_bytes())):
        path.write_bytes(path.read_bytes()[:size])
        again = IncidentFile(path)
        assert path.read_bytes() == whole
        again.append(BACK)
        assert written(path) == [GONE, BACK]


@pytest.mark.parametrize(
    "line", ["[]", "{}", "x", '{"round": 1}', "[" * 100_000], ids=["list", "empty", "letter", "other", "deep"]
)
def test_a_line_that_is_no_incident_is_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    path.write_text(f"{line}\n")

    with pytest.raises(Damaged, match=r"incidents.jsonl has a line that is no incident"):
        IncidentFile(path)


def test_that_a_game_was_disturbed_is_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    file = IncidentFile(path)
    file.append(GONE)
    assert not file.disturbed
    file.append(replace(BACK, kind=DISTURBED))

    assert file.disturbed
    assert IncidentFile(path).disturbed


def test_no_more_lines_are_written_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    path.write_text("".join(json.dumps(asdict(replace(GONE, time=float(t)))) + "\n" for t in range(LIMITS.incidents)))

    IncidentFile(path).append(replace(GONE, time=1e9))

    assert len(path.read_text().splitlines()) == LIMITS.incidents
