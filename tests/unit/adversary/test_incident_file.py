"""incidents.jsonl, as it is written and continued."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from slaternet.errors import BadSpec, Damaged
from slaternet.limits import LIMITS
from slaternet.model import DISTURBED, IncidentRecord
from slaternet.storage.files import FILE_LIMITS
from slaternet_adversary.shell.incident_file import IncidentFile

GONE = IncidentRecord(7, 100.5, "agent-1", "gone", "agent-1 has gone", "its stream broke")
BACK = IncidentRecord(9, 101.5, "agent-1", "back", "agent-1 is back after 1 s")


def written(path: Path) -> list[IncidentRecord]:
    return [IncidentRecord(**json.loads(line)) for line in path.read_text().splitlines()]


def test_each_incident_is_a_line_once_however_often_it_is_sent_and_by_whatever_process(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    file = IncidentFile(tmp_path)
    assert not path.exists()
    for incident in (GONE, GONE, BACK, GONE):
        file.append(incident)
    again = IncidentFile(tmp_path)
    for incident in (GONE, BACK, replace(BACK, time=102.0)):
        again.append(incident)

    assert written(path) == [GONE, BACK, replace(BACK, time=102.0)]
    assert list(json.loads(path.read_text().splitlines()[0])) == list(asdict(GONE))


def test_a_line_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    file = IncidentFile(tmp_path)
    file.append(GONE)
    whole = path.read_bytes()
    file.append(BACK)
    for size in range(len(whole), len(path.read_bytes())):
        path.write_bytes(path.read_bytes()[:size])
        again = IncidentFile(tmp_path)
        assert path.read_bytes() == whole
        again.append(BACK)
        assert written(path) == [GONE, BACK]


@pytest.mark.parametrize(
    "line",
    ["[]", "{}", "x", '{"round": 1}', json.dumps(asdict(GONE) | {"time": "noon"}), "[" * 100_000],
    ids=["list", "empty", "letter", "other", "type", "deep"],
)
def test_a_line_that_is_no_incident_is_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    path.write_text(f"{line}\n")

    with pytest.raises(Damaged, match=r"incidents.jsonl has a line that is no incident"):
        IncidentFile(tmp_path)


def test_that_a_game_was_disturbed_is_known_after_a_restart(tmp_path: Path) -> None:
    file = IncidentFile(tmp_path)
    file.append(GONE)
    assert not file.disturbed
    file.append(replace(BACK, kind=DISTURBED))

    assert file.disturbed
    assert IncidentFile(tmp_path).disturbed


def test_no_more_lines_are_written_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    path.write_text("".join(json.dumps(asdict(replace(GONE, time=float(t)))) + "\n" for t in range(LIMITS.incidents)))

    IncidentFile(tmp_path).append(replace(GONE, time=1e9))

    assert len(path.read_text().splitlines()) == LIMITS.incidents


def test_one_that_happened_before_the_clock_was_set_back_is_written_and_one_that_disturbs_counts_without_room(
    tmp_path: Path,
) -> None:
    path = tmp_path / "incidents.jsonl"
    file = IncidentFile(tmp_path)
    file.append(BACK)
    file.append(GONE)
    assert written(path) == [BACK, GONE]
    path.write_text("".join(json.dumps(asdict(replace(GONE, time=float(t)))) + "\n" for t in range(LIMITS.incidents)))

    again = IncidentFile(tmp_path)
    again.append(replace(GONE, time=1e9, kind=DISTURBED))

    assert again.disturbed
    assert len(path.read_text().splitlines()) == LIMITS.incidents


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "incidents.jsonl").open("wb") as file:
        file.truncate(FILE_LIMITS.incident_bytes + 1)

    with pytest.raises(BadSpec, match=r"incidents\.jsonl is longer than"):
        IncidentFile(tmp_path)
