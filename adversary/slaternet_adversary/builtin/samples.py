"""Labelled samples from a table: a .csv with headings, or a .parquet where pyarrow is installed.

The columns `label` (1 or 0, or 1 or -1) and, if there is one, `group` (1 or 0) are known by their names; every other
column is a feature, in the order of the table.
"""

import csv
import importlib
import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from slaternet.model import Array
from slaternet.storage.files import opened, refusing
from slaternet_adversary.api import CannotPlay

_BYTES = 1 << 31
"""The largest table: it is held in memory, at 8 bytes a number."""
_LINE_BYTES = 1 << 23
"""The longest line, of a table with as many features as a decision may have coordinates."""
_LABEL, _GROUP = "label", "group"


@dataclass(frozen=True)
class Samples:
    """Features (N, p), labels (N,) of 1 and -1, and groups (N,) of 1 and 0 where the table has them."""

    features: Array
    labels: Array
    groups: Array | None


def load(path: Path, key: str, *, dimension: int, scale: bool) -> Samples:
    """Read a table; with `scale` every feature is divided by its largest absolute value, and so lies in [-1, 1].

    CannotPlay names the file and, where a cell is at fault, its line and column.
    """
    who = f"{key} = {path}"
    with opened(path, who, CannotPlay) as file:
        if os.fstat(file.fileno()).st_size > _BYTES:
            raise CannotPlay(f"{who} is larger than {_BYTES >> 30} GiB, and is held in memory; take a part of it")
        table = (_parquet if path.suffix == ".parquet" else _csv)(file, who)
    features = table.features(dimension)
    if scale:
        largest = np.abs(features).max(axis=0)
        features /= np.where(largest > 0.0, largest, 1.0)
    labels = np.where(table.among(_LABEL, (1, 0, -1)) > 0.0, 1.0, -1.0)
    groups = table.among(_GROUP, (1, 0)) if _GROUP in table.names else None
    return Samples(features, labels, groups)


class _Table:
    """The numbers of a table (N, columns), its headings, and the line in the file of every row."""

    def __init__(self, who: str, names: Sequence[str], numbers: Array, lines: Sequence[int]) -> None:
        self._who, self.names, self._numbers, self._lines = who, names, numbers, lines
        if not len(numbers):
            raise CannotPlay(f"{who} has no samples; write one on each line below the headings")
        self._require(np.isfinite(numbers), "a finite number")

    def features(self, dimension: int) -> Array:
        """Return the columns that are features, (N, p)."""
        columns = [column for column, name in enumerate(self.names) if name not in (_LABEL, _GROUP)]
        if len(columns) != dimension:
            raise CannotPlay(
                f"{self._who} has {len(columns)} columns besides label and group, one for each coordinate; set "
                f"run.dimension = {len(columns)}, not {dimension}"
            )
        return np.ascontiguousarray(self._numbers[:, columns])

    def among(self, name: str, allowed: tuple[int, ...]) -> Array:
        """Return a column of which every number must be one of a few."""
        if name not in self.names:
            raise CannotPlay(f"{self._who} has no column {name}; give one of its columns that heading")
        column, good = self.names.index(name), np.ones(self._numbers.shape, bool)
        good[:, column] = np.isin(self._numbers[:, column], allowed)
        self._require(good, " or ".join(map(str, allowed)))
        return self._numbers[:, column].copy()

    def _require(self, good: NDArray[np.bool_], expected: str) -> None:
        """Name the first cell that is not good, (N, columns)."""
        for row, column in np.argwhere(~good)[:1]:
            found = f"{self._numbers[row, column]:g}"
            raise _fault(self._who, self._lines[row], self.names[column], expected, found)


def _fault(who: str, line: int, column: str, expected: str, found: str) -> CannotPlay:
    return CannotPlay(f"{who}, line {line}, column {column}: must be {expected}, not {found[:40]}; correct it there")


def _csv(file: BinaryIO, who: str) -> _Table:
    numbers, lines = array("d"), array("q")
    with refusing(f"{who} is not text with commas; save it as .csv in UTF-8", CannotPlay):
        reader = csv.reader(_lines(file))
        names = _headings(who, next(reader, []))
        for cells in filter(None, reader):
            lines.append(reader.line_num)
            numbers.extend(_row(who, reader.line_num, names, cells))
    return _Table(who, names, np.array(numbers).reshape(-1, len(names)), lines)


def _lines(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of a text; ValueError where one is too long to be a line of numbers."""
    codec = "utf-8-sig"
    while line := file.readline(_LINE_BYTES + 1):
        if len(line) > _LINE_BYTES:
            raise ValueError("no line of numbers is that long")
        yield line.decode(codec)
        codec = "utf-8"


def _headings(who: str, cells: Sequence[str]) -> list[str]:
    names = [each.strip() for each in cells]
    for name in names:
        if not name or names.count(name) > 1:
            raise CannotPlay(f"{who} must name every column once in its first line, not {name!r}; correct the headings")
    if not names:
        raise CannotPlay(f"{who} is empty; its first line names the columns")
    return names


def _row(who: str, line: int, names: Sequence[str], cells: Sequence[str]) -> Iterator[float]:
    if len(cells) != len(names):
        raise CannotPlay(f"{who}, line {line}: {len(cells)} cells where {len(names)} columns are named; correct it")
    for name, cell in zip(names, cells, strict=True):
        try:
            yield float(cell)
        except ValueError:
            raise _fault(who, line, name, "a number", repr(cell)) from None


def _parquet(file: BinaryIO, who: str) -> _Table:
    try:
        pyarrow, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
    except ImportError:
        raise CannotPlay(
            f"{who} can be read where pyarrow is installed; install it (pip install pyarrow) or save the table as .csv"
        ) from None
    try:
        with parquet.ParquetFile(file) as source:
            if 8 * source.metadata.num_rows * source.metadata.num_columns > _BYTES:
                raise CannotPlay(f"{who} would fill more than {_BYTES >> 30} GiB of memory; take a part of it")
            table = source.read()
        columns = [table.column(name).to_numpy() for name in table.column_names]
    except pyarrow.ArrowException as error:
        reason = str(error).partition(".")[0]
        raise CannotPlay(f"{who} is not a Parquet table of numbers: {reason}; write it anew") from None
    for name, values in zip(table.column_names, columns, strict=True):
        if values.dtype.kind not in "fiub":
            text = f"must hold numbers, not {values.dtype}; convert or leave out the column"
            raise CannotPlay(f"{who}, column {name}: {text}")
    # a missing cell is NaN, which _Table refuses
    numbers = np.stack(columns, axis=1).astype(np.float64, copy=False)
    return _Table(who, table.column_names, numbers, range(1, len(numbers) + 1))
