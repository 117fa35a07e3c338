"""Export a run's tables to the formats of other tools: metrics by round, decisions by round and agent."""

import csv
import importlib
import io
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import BadSpec
from slaternet.storage.disk import replacing
from slaternet_lab.runs.run import Run

Table = dict[str, NDArray[Any]]
"""Columns of one length, by name."""

_ROWS = 4096
"""Rows of a .csv that are in memory as text at a time."""


def tables(run: Run) -> dict[str, Table]:
    """Return `metrics`, a row for each round, and, where there are any, `decisions`, one for each round and agent.

    NaN stands for what was not scored, and for decisions of agents that have left.
    """
    found = {"metrics": run.metrics}
    if (x := run.decisions) is not None:
        rounds, agents, dimension = x.shape
        found["decisions"] = {
            "round": np.repeat(np.arange(1, rounds + 1), agents),
            "agent": np.tile(np.arange(agents), rounds),
            **{f"x{i + 1}": x[:, :, i].ravel() for i in range(dimension)},
        }
    return found


def export(run: Run, formats: Sequence[str], folder: Path, *, force: bool = False) -> list[Path]:
    """Write a run in each of the formats; return the files. BadSpec where one is there already, unless forced."""
    files: dict[str, Callable[[IO[bytes]], None]] = {}
    for each in formats:
        match each:
            case "csv":
                files |= {f"{name}.csv": partial(_write_csv, table) for name, table in tables(run).items()}
            case "parquet":
                arrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
                for name, table in tables(run).items():
                    files[f"{name}.parquet"] = partial(parquet.write_table, arrow.table(table))
            case "npz":
                decisions = {} if run.decisions is None else {"x": run.decisions}
                files["run.npz"] = partial(_write_npz, run.metrics | decisions)
            case _:
                raise BadSpec(f"--format {each!r} is unknown; choose of csv, parquet, npz")
    if os.path.realpath(folder) == os.path.realpath(run.folder):
        raise BadSpec(f"--out {folder} is the run itself, whose own metrics.csv must stay; choose another folder")
    taken = [folder / name for name in files if (folder / name).exists()]
    if taken and not force:
        raise BadSpec(f"{taken[0]} is there already; choose another --out, or say --force")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, write in files.items():
            with replacing(folder / name) as draft:
                write(draft)
    except OSError as error:
        raise BadSpec(
            f"--out {folder} cannot be written: {error.strerror}; mend that or choose another folder"
        ) from None
    return [folder / name for name in files]


def _write_csv(table: Table, file: IO[bytes]) -> None:
    """Write a table; numbers as the shortest text that parses to the same bits, NaN as an empty cell."""
    text = io.TextIOWrapper(file, "utf-8", newline="")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(table)
    for first in range(0, len(table["round"]), _ROWS):
        cells = zip(*(column[first : first + _ROWS].tolist() for column in table.values()), strict=True)
        rows.writerows(["" if cell != cell else cell for cell in row] for row in cells)  # NaN alone is not itself
    text.detach()  # the file is closed by who has opened it


def _pyarrow(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise BadSpec(
            "--format parquet needs pyarrow; install it (pip install pyarrow), or choose csv or npz"
        ) from None


def _write_npz(arrays: Table, file: IO[bytes]) -> None:
    np.savez_compressed(file, allow_pickle=False, **arrays)
