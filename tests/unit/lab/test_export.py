"""`slaternet export`: the tables of a run come back from every format to the bit."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet_lab import Run, simulate
from slaternet_lab.cli import app
from slaternet_lab.runs.export import export, tables
from slaternet_lab.specs.resolve import resolve
from slaternet_lab.specs.shipped import shipped

SPEC = Spec.parse(shipped("paper-short").text, source="paper-short").replace(
    **{"run.rounds": 6, "run.agents": 5, "record.score_every": 2, "record.decisions": True}
)
ROUNDS, AGENTS, DIMENSION = 6, 5, SPEC.run.dimension


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return simulate(
        resolve(SPEC.replace(**{"record.decisions": True}), Path()), out=tmp_path_factory.mktemp("run") / "game"
    )


def same(column: np.ndarray, original: np.ndarray) -> bool:
    return column.dtype.kind == original.dtype.kind and np.array_equal(
        column, original, equal_nan=original.dtype.kind == "f"
    )


def test_decisions_have_a_row_for_each_round_and_agent(run: Run) -> None:
    table, x = tables(run)["decisions"], run.decisions

    assert x is not None
    assert list(table) == ["round", "agent", *(f"x{i}" for i in range(1, DIMENSION + 1))]
    for round, agent, *point in zip(*table.values(), strict=True):
        assert point == x[round - 1, agent].tolist()
    assert len(table["round"]) == ROUNDS * AGENTS


def test_csv_holds_every_number_to_the_bit_and_nothing_where_there_is_none(run: Run, tmp_path: Path) -> None:
    paths = export(run, ["csv"], tmp_path / "out")

    assert [path.name for path in paths] == ["metrics.csv", "decisions.csv"]
    for path, table in zip(paths, tables(run).values(), strict=True):
        with path.open(newline="") as file:
            header, *rows = csv.reader(file)
        assert header == list(table)
        for cells, original in zip(zip(*rows, strict=True), table.values(), strict=True):
            kind = original.dtype.type
            assert same(np.array([kind(cell) if cell else np.nan for cell in cells]), original)
    assert "nan" not in paths[0].read_text()  # rounds that are not scored


def test_parquet_holds_the_same_columns(run: Run, tmp_path: Path) -> None:
    paths = export(run, ["parquet"], tmp_path)

    assert [path.name for path in paths] == ["metrics.parquet", "decisions.parquet"]
    for path, table in zip(paths, tables(run).values(), strict=True):
        found = pyarrow.parquet.read_table(path)
        assert found.column_names == list(table)
        for name, original in table.items():
            column = found.column(name).to_pylist()
            assert same(np.array(column), original)


def test_npz_holds_columns_and_the_array_of_decisions(run: Run, tmp_path: Path) -> None:
    (path,) = export(run, ["npz"], tmp_path)

    with np.load(path) as arrays:
        assert set(arrays) == {*run.metrics, "x"}
        assert all(same(arrays[name], column) for name, column in run.metrics.items())
        assert run.decisions is not None
        assert same(arrays["x"], run.decisions)


def test_without_recorded_decisions_the_metrics_are_exported_alone(tmp_path: Path) -> None:
    spec = SPEC.replace(**{"record.decisions": False})
    run = simulate(resolve(spec, Path()), out=tmp_path / "game", figures=False)

    paths = export(run, ["csv", "npz"], tmp_path / "out")

    assert [path.name for path in paths] == ["metrics.csv", "run.npz"]


def test_what_is_there_is_kept_unless_it_is_said_aloud(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.npz").write_text("mine")

    with pytest.raises(BadSpec, match=r"run\.npz is there already; choose another --out, or say --force"):
        export(run, ["csv", "npz"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]
    assert (tmp_path / "run.npz").read_text() == "mine"

    export(run, ["csv", "npz"], tmp_path, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["decisions.csv", "metrics.csv", "run.npz"]


def test_the_run_itself_is_never_written_over(run: Run) -> None:
    before = (run.folder / "metrics.csv").read_bytes()

    with pytest.raises(BadSpec, match=r"is the run itself, whose own metrics\.csv must stay"):
        export(run, ["csv"], run.folder, force=True)
    assert (run.folder / "metrics.csv").read_bytes() == before


def test_a_file_that_cannot_be_written_leaves_nothing_behind(run: Run, tmp_path: Path) -> None:
    (tmp_path / "decisions.csv").mkdir()  # no file can take its place

    with pytest.raises(BadSpec, match=r"^--out .* cannot be written: Is a directory; mend that"):
        export(run, ["csv"], tmp_path, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["decisions.csv", "metrics.csv"]


def test_agents_that_have_left_have_no_decisions(tmp_path: Path) -> None:
    spec = SPEC.replace(departures=[{"round": 3, "agents": [1]}])
    run = simulate(resolve(spec, Path()), out=tmp_path / "game", figures=False)

    export(run, ["csv"], tmp_path / "out")

    rows = [line.split(",") for line in (tmp_path / "out" / "decisions.csv").read_text().splitlines()[1:]]
    without = [(int(row[0]), int(row[1])) for row in rows if row[2:] == [""] * DIMENSION]
    assert without == [(t, 1) for t in range(3, ROUNDS + 1)]


def test_the_command_writes_beside_the_run_and_says_where(run: Run) -> None:
    outcome = CliRunner().invoke(app, ["export", str(run.folder), "--format", "csv, npz", "--json"])

    assert outcome.exit_code == 0, outcome.output
    paths = [Path(each) for each in json.loads(outcome.stdout)]
    assert paths == [Path(f"{run.folder}-export", name) for name in ("metrics.csv", "decisions.csv", "run.npz")]
    assert all(path.is_file() for path in paths)


def test_the_command_says_why_there_are_no_decisions(tmp_path: Path) -> None:
    for recorded, why in ((False, "are kept with record.decisions = true"), (True, "follow when the game is over")):
        run = simulate(resolve(SPEC, Path()), out=tmp_path / why, figures=False)
        (run.folder / "decisions.npz").unlink()
        (run.folder / "spec.toml").write_text(run.spec.replace(**{"record.decisions": recorded}).to_toml())

        outcome = CliRunner().invoke(app, ["export", str(run.folder)])

        assert outcome.stdout.strip() == str(Path(f"{run.folder}-export", "metrics.csv"))
        assert outcome.stderr.strip() == f"without decisions: they {why}"


def test_a_format_that_is_unknown_names_those_there_are(run: Run, tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=r"--format 'xlsx' is unknown; choose of csv, parquet, npz"):
        export(run, ["csv", "xlsx"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_parquet_without_pyarrow_names_the_remedy(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)

    with pytest.raises(BadSpec, match=r"needs pyarrow; install it \(pip install pyarrow\), or choose csv or npz"):
        export(run, ["parquet"], tmp_path / "out")
