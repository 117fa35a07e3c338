import json
from pathlib import Path

import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet_lab.runs.run import Difference, Run, diff
from slaternet_lab.specs.shipped import shipped

HEADER = (
    "round,loss,violation,cumulative_loss,cumulative_violation,zero_loss,zero_violation,"
    "disagreement,agents,frames,bytes_sent,waited,seconds,digest"
)
SUMMARY = {
    "algorithm": "zhang2024",
    "agents": 20,
    "rounds": 2,
    "digest": "bb",
    "seconds": 0.5,
    "rounds_per_second": 4.0,
    **dict.fromkeys(("cumulative_loss", "cumulative_violation", "zero_loss", "zero_violation"), 3.0),
    "a key of a later version": {"with": ["a", "list"]},
}
SPEC = Spec.parse(shipped("paper-short").text, source="paper-short")


def write(folder: Path, digests: list[str], x: np.ndarray | None = None) -> Run:
    folder.mkdir()
    shape = {} if x is None else {"run.agents": x.shape[1], "run.dimension": x.shape[2]}
    (folder / "spec.toml").write_text(SPEC.replace(**shape).to_toml())
    rows = [f"{t},1.5,0.25,{1.5 * t},{0.25 * t},{t},0.0,0.1,20,3,400,0.01,0.5,{d}" for t, d in enumerate(digests, 1)]
    (folder / "metrics.csv").write_text("\n".join([HEADER, *rows, ""]))
    if x is not None:
        np.savez(folder / "decisions.npz", x=x)
    return Run.open(folder)


def test_an_opened_run_offers_spec_summary_and_metrics_by_column(tmp_path: Path) -> None:
    run = write(tmp_path / "a", ["aa", "bb"])
    (run.folder / "summary.json").write_text(json.dumps(SUMMARY))

    assert run.spec == SPEC
    assert run.summary == SUMMARY
    assert run.rounds == 2
    np.testing.assert_array_equal(run.metrics["round"], [1, 2])
    np.testing.assert_array_equal(run.metrics["cumulative_loss"], [1.5, 3.0])
    assert run.metrics["bytes_sent"].dtype == np.int64
    assert list(run.metrics["digest"]) == ["aa", "bb"]
    assert run.decisions is None


def test_a_run_from_before_a_column_was_added_is_read_without_it(tmp_path: Path) -> None:
    old = write(tmp_path / "old", ["aa", "bb"])
    new = write(tmp_path / "new", ["aa", "bb"])
    table = (new.folder / "metrics.csv").read_text()
    table = table.replace("bytes_sent,waited,", "bytes_sent,bytes_received,rows_sent,gossip_bytes,waited,skew,")
    (new.folder / "metrics.csv").write_text(table.replace("400,0.01,", "400,700,8,320,0.01,0.002,"))

    assert diff(old, new) is None
    assert not {"skew", "rows_sent", "gossip_bytes"} & set(old.metrics)
    np.testing.assert_array_equal(new.metrics["bytes_received"], [700, 700])
    assert new.metrics["bytes_received"].dtype == np.int64
    np.testing.assert_array_equal(new.metrics["rows_sent"], [8, 8])
    np.testing.assert_array_equal(new.metrics["gossip_bytes"], [320, 320])
    assert new.metrics["rows_sent"].dtype == new.metrics["gossip_bytes"].dtype == np.int64
    np.testing.assert_array_equal(new.metrics["skew"], [0.002, 0.002])


def test_damaged_decisions_are_named(tmp_path: Path) -> None:
    run = write(tmp_path / "a", ["aa", "bb"], np.zeros((2, 3, 4)))
    path = run.folder / "decisions.npz"
    path.write_bytes(path.read_bytes()[:-30])

    with pytest.raises(BadSpec, match=r"decisions\.npz is damaged; restore it, or delete it"):
        _ = run.decisions


def test_recorded_decisions_come_back_as_they_were(tmp_path: Path) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)

    decisions = write(tmp_path / "a", ["aa", "bb"], x).decisions

    assert decisions is not None
    np.testing.assert_array_equal(decisions, x)


def test_unscored_rounds_are_nan(tmp_path: Path) -> None:
    run = write(tmp_path / "a", ["aa"])
    with (run.folder / "metrics.csv").open("a") as file:
        file.write("2,,,1.5,0.25,2.0,0.0,,20,3,400,0.01,0.5,bb\n")

    np.testing.assert_array_equal(Run.open(run.folder).metrics["loss"], [1.5, np.nan])


@pytest.mark.parametrize("half", ["2,1.5", "2,1.5,0.25,3.0,0.5,2.0,0.0,0.1,20,3,400,0.01,0.5,b"])
def test_a_half_written_last_row_is_left_out(tmp_path: Path, half: str) -> None:
    run = write(tmp_path / "a", ["aa"])
    with (run.folder / "metrics.csv").open("a") as file:
        file.write(half)

    assert Run.open(run.folder).rounds == 1


def test_a_run_without_a_summary_is_unfinished(tmp_path: Path) -> None:
    assert write(tmp_path / "a", ["aa"]).summary == {}


@pytest.mark.parametrize("missing", ["spec.toml", "metrics.csv"])
def test_a_folder_that_lacks_a_file_is_no_run(tmp_path: Path, missing: str) -> None:
    run = write(tmp_path / "a", ["aa"])
    (run.folder / missing).unlink()

    with pytest.raises(BadSpec, match=f"is not a run folder, because it lacks {missing}"):
        Run.open(run.folder)


def test_a_path_that_is_no_folder_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="is not a run folder"):
        Run.open(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("metrics.csv", "round,loss\n1,2\n", "has no column agents"),
        ("metrics.csv", HEADER + "\n" + "x" + "," * 13 + "\n", "has a cell in column round that is not a number"),
        ("summary.json", "{", "is not JSON"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, file: str, text: str, sentence: str) -> None:
    run = write(tmp_path / "a", ["aa"])
    (run.folder / file).write_text(text)

    with pytest.raises(BadSpec, match=sentence):
        _ = run.metrics if file == "metrics.csv" else run.summary


def test_equal_runs_have_no_difference(tmp_path: Path) -> None:
    assert diff(write(tmp_path / "a", ["aa", "bb"]), write(tmp_path / "b", ["aa", "bb"])) is None


def test_runs_part_in_the_first_round_whose_digests_differ(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", ["aa", "bb", "cc"]), write(tmp_path / "b", ["aa", "xx", "yy"])

    assert diff(a, b) == Difference(round=2, agent=None, common=1)


def test_recorded_decisions_name_the_first_agent_that_differs_in_a_bit(tmp_path: Path) -> None:
    x = np.ones((2, 3, 4))
    y = x.copy()
    y[1, 1, 3] = np.nextafter(1.0, 2.0)
    y[1, 2] = 0.0
    a, b = write(tmp_path / "a", ["aa", "bb"], x), write(tmp_path / "b", ["aa", "xx"], y)

    assert diff(a, b) == Difference(round=2, agent=1, common=1)


def test_two_zeros_of_different_sign_are_different_bits(tmp_path: Path) -> None:
    x = np.zeros((1, 2, 1))
    a, b = write(tmp_path / "a", ["aa"], x), write(tmp_path / "b", ["xx"], -x)

    assert diff(a, b) == Difference(round=1, agent=0, common=0)


def test_a_run_that_is_the_beginning_of_another_parts_nowhere(tmp_path: Path) -> None:
    assert diff(write(tmp_path / "a", ["aa", "bb"]), write(tmp_path / "b", ["aa"])) == Difference(None, None, 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [("agents", -1), ("agents", "20"), ("digest", 7), ("zero_loss", None), ("network", []), ("rounds", 1 << 70)],
)
def test_a_summary_has_the_documented_types(tmp_path: Path, key: str, value: object) -> None:
    run = write(tmp_path / "a", ["aa"])
    (run.folder / "summary.json").write_text(json.dumps({**SUMMARY, key: value}))

    with pytest.raises(BadSpec, match=r"summary\.json is not JSON of a summary; restore it, or delete it"):
        _ = run.summary


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("2,1.5\n", "has a line 3 that is no row of its columns"),
        ("2" + ",1" * 12 + ",bb,cc\n", "has a line 3 that is no row of its columns"),
        (f"{10**30}" + ",1" * 12 + ",bb\n", "has a cell in column round that is not a number"),
        ("2" + ",1" * 12 + ",\x1b[31m\n", "has a cell in column digest that is not a digest"),
        ("2" + ",1" * 12 + f",{'b' * 65}\n", "has a cell in column digest that is not a digest"),
    ],
)
def test_a_row_that_is_none_is_refused(tmp_path: Path, row: str, sentence: str) -> None:
    run = write(tmp_path / "a", ["aa"])
    with (run.folder / "metrics.csv").open("a") as file:
        file.write(row)

    with pytest.raises(BadSpec, match=sentence):
        _ = run.metrics


def test_decisions_of_another_game_are_refused(tmp_path: Path) -> None:
    run = write(tmp_path / "a", ["aa"], np.zeros((1, 3, 4)))
    np.savez(run.folder / "decisions.npz", x=np.zeros((1, 4, 3)))

    with pytest.raises(BadSpec, match=r"decisions\.npz holds 1 x 4 x 3 numbers where the run has 1 x 3 x 4"):
        _ = run.decisions
