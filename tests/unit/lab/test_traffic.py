"""What `slaternet show` says of the network, of runs that know it and of runs that do not."""

import json
from pathlib import Path

import pytest

from slaternet.spec import Spec
from slaternet_lab.commands.runs import show_summary
from slaternet_lab.runs.run import Run
from slaternet_lab.specs.shipped import shipped

COLUMNS = (
    "round,loss,violation,cumulative_loss,cumulative_violation,zero_loss,zero_violation,"
    "disagreement,agents,frames,bytes_sent,bytes_received,rows_sent,gossip_bytes,waited,skew,seconds,digest"
)
OLD = COLUMNS.replace("bytes_received,rows_sent,gossip_bytes,", "").replace("skew,", "")


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # nothing is folded


def host(number: int) -> dict[str, float]:
    return {
        "seats": 5,
        "frames": 100 + number,
        "bytes_sent": 2_000_000,
        "bytes_received": 3_000_000,
        "waited": 1.5,
        "lag": number / 1000,
    }


def write(folder: Path, hosts: int | None, *, header: str = COLUMNS) -> Run:
    """Write a finished run; with `hosts` None, as it was before the network had its place in the summary."""
    folder.mkdir()
    (folder / "spec.toml").write_text(Spec.parse(shipped("paper-short").text, source="paper-short").to_toml())
    (folder / "metrics.csv").write_text(f"{header}\n")
    summary = {
        "algorithm": "zhang2024",
        "agents": 20,
        "rounds": 1,
        "hosts": hosts or 2,
        **dict.fromkeys(("cumulative_loss", "cumulative_violation", "zero_loss", "zero_violation"), 0.5),
        "digest": "ab" * 32,
        "seconds": 1.0,
        "rounds_per_second": 1.0,
    }
    if hosts is not None:
        table = {f"agent-{number}": host(number) for number in range(1, hosts + 1)}
        sums = {key: sum(each[key] for each in table.values()) for key in ("frames", "bytes_sent", "bytes_received")}
        summary["network"] = {**sums, "waited": 1.5 * hosts, "skew": 0.00125, "hosts": table}
    (folder / "summary.json").write_text(json.dumps(summary))
    return Run.open(folder)


def shown(run: Run, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    show_summary(run, as_json=False)
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_the_network_is_told_in_words_and_by_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(write(tmp_path / "run", hosts=2), capsys)

    words = [" ".join(line) for line in lines]
    assert "network 203 frames; hosts sent 4.0 MB and received 6.0 MB" in words
    assert "waiting 3.00 s, summed over hosts; skew 1.25 ms a round" in words
    at = words.index("host seats frames sent received waited lag a round")
    assert words[at + 1 :] == [
        "agent-1 5 101 2.0 MB 3.0 MB 1.50 s 1.00 ms",
        "agent-2 5 102 2.0 MB 3.0 MB 1.50 s 2.00 ms",
    ]


def test_what_rows_have_cost_is_told_with_what_their_code_has_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(folder: str, code: str, rows: int, size: int) -> list[str]:
        path = write(tmp_path / folder, hosts=2).folder / "summary.json"
        summary = json.loads(path.read_text())
        costs = {"rows_sent": rows, "gossip_bytes": size}
        if rows:
            costs |= {"bytes_per_row": size / rows, "saving": 1 - size / (80 * rows)}
        summary["network"] |= costs
        path.write_text(json.dumps(summary | {"gossip": {"code": code, "difference": False, "trigger": 0.0}}))
        return [" ".join(line) for line in shown(Run.open(path.parent), capsys) if line[:1] == ["gossip"]]

    assert told("coded", "grid", 10_000, 200_000) == [
        "gossip 10000 rows in 200.0 kB (20.0 bytes a row); grid saves 75.0% of these rows' float64"
    ]
    assert told("plain", "exact", 10_000, 840_000) == ["gossip 10000 rows in 840.0 kB (84.0 bytes a row)"]
    assert told("none", "exact", 0, 0) == []


def test_of_many_hosts_those_that_came_latest_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(write(tmp_path / "run", hosts=40), capsys)

    assert [line[0] for line in lines if line and line[0].startswith("agent-")] == [
        f"agent-{number}" for number in range(29, 41)
    ]
    assert lines[-1][:3] == ["and", "28", "hosts"]


def test_a_run_from_before_the_network_was_told_is_shown_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(tmp_path / "run", hosts=None, header=OLD)

    words = [line[0] for line in shown(run, capsys) if line]

    assert words[-1] == "folder"
    assert not {"network", "waiting", "host"} & set(words)
    assert run.metrics["frames"].size == 0


def test_a_run_on_one_host_has_no_table_of_hosts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [line[0] for line in shown(write(tmp_path / "run", hosts=1), capsys) if line]

    assert "network" in words
    assert words[-1] == "folder"
