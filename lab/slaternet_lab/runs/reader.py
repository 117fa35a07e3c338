"""Reading the files of a run folder, which may be damaged or forged: values of the right types, or BadSpec.

BadSpec is one sentence that names the file and the remedy. What is read takes about as much memory as the file has
bytes, and texts are printable.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from slaternet.errors import BadSpec
from slaternet.storage.files import FILE_LIMITS, opened, read_json, refusing
from slaternet.texts import printable
from slaternet_adversary.shell.run_folder import COLUMNS

_WHOLE = {"round", "agents", "frames", "bytes_sent", "bytes_received", "rows_sent", "gossip_bytes"}
_TEXT = {"digest"}
_SCORES = {"loss", "violation", "disagreement"}
"""Columns that are empty in rounds that were not scored."""
_NEEDED = {*COLUMNS} - {"bytes_received", "rows_sent", "gossip_bytes", "skew"}
"""The columns that all versions have written."""
_BLOCK_ROWS = 1 << 14
"""Rows of metrics.csv whose cells are in memory as text at a time."""

Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class _Table(BaseModel):
    """A table of summary.json; later versions of Slaternet may add keys to it."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Host(_Table):
    """What a host has cost."""

    seats: Count
    frames: Count
    bytes_sent: Count
    bytes_received: Count
    rows_sent: Count = 0
    gossip_bytes: Count = 0
    waited: float
    lag: float


class _Gossip(_Table):
    """How rows have travelled."""

    code: str = "exact"
    difference: bool = False
    trigger: float = 0.0


class _Network(_Table):
    """What the network has cost; without bytes it is a simulation's."""

    frames: Count = 0
    bytes_sent: Count = 0
    bytes_received: Count = 0
    rows_sent: Count = 0
    gossip_bytes: Count = 0
    bytes_per_row: float = 0.0
    saving: float = 0.0
    waited: float = 0.0
    skew: float = 0.0
    hosts: dict[str, _Host] = {}


class _Summary(_Table):
    """The keys of summary.json that are read; all versions have written those without a default."""

    algorithm: str
    agents: Count
    rounds: Count
    cumulative_loss: float
    cumulative_violation: float
    zero_loss: float
    zero_violation: float
    digest: str
    seconds: float
    rounds_per_second: float
    run: str = ""
    seed: Count = 0
    hosts: Count = 0
    gossip: _Gossip = _Gossip()
    network: _Network = _Network()


_SUMMARY = TypeAdapter(_Summary)


def read_summary(path: Path) -> dict[str, Any]:
    """Return summary.json."""
    damaged = "is not JSON of a summary; restore it, or delete it to read the run as unfinished"
    found = read_json(path, _SUMMARY, damaged)
    summary: dict[str, Any] = _plain(found.model_dump(exclude_unset=True))
    return summary


def _plain(value: Any) -> Any:  # noqa: ANN401  anything that JSON holds
    """Return a value of JSON with its texts printable; it is not deeply nested."""
    match value:
        case str():
            return printable(value)
        case dict():
            return {printable(key): _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case _:
            return value


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of metrics.csv by column, as text; one that a crash has torn is none."""
    rows = _rows(path)
    header = next(rows)
    return (dict(zip(header, row, strict=True)) for row in rows)


def read_metrics(path: Path) -> dict[str, NDArray[Any]]:
    """Return metrics.csv by column, one entry per round; NaN where a round was not scored."""
    rows = _rows(path)
    header = next(rows)
    blocks: dict[str, list[NDArray[Any]]] = {name: [_column(name, (), path)] for name in header}
    while block := list(islice(rows, _BLOCK_ROWS)):
        for name, cells in zip(header, zip(*block, strict=True), strict=True):
            blocks[name].append(_column(name, cells, path))
    return {name: np.concatenate(blocks.pop(name)) for name in header}


def _rows(path: Path) -> Iterator[Sequence[str]]:
    """Yield the names of the columns, then the cells of every row; the last row may be half written."""
    remedy = "restore the file from a copy"
    with opened(path) as file, refusing(f"{path} is not text in UTF-8; {remedy}"):
        width = 0
        for number, line in enumerate(iter(lambda: file.readline(FILE_LIMITS.row_bytes + 1), b"")):
            if not line.endswith(b"\n") and len(line) <= FILE_LIMITS.row_bytes:
                break
            cells = line.decode().rstrip("\r\n").split(",")
            if len(line) > FILE_LIMITS.row_bytes or len(cells) != (width or len(cells)):
                raise BadSpec(f"{path} has a line {number + 1} that is no row of its columns; {remedy}")
            if not number:
                width = len(cells)
                _check_header(cells, path)
            yield cells
        if not width:
            _check_header([], path)


def _check_header(names: Sequence[str], path: Path) -> None:
    if missing := sorted(_NEEDED - set(names)):
        raise BadSpec(f"{path} has no column {missing[0]}; name a folder that a run has written")
    if len(names) > FILE_LIMITS.columns or len(set(names)) < len(names):
        raise BadSpec(f"{path} has a column twice, or more than {FILE_LIMITS.columns}; restore the file from a copy")


def _column(name: str, cells: Sequence[str], path: Path) -> NDArray[Any]:
    if name in _TEXT:
        for cell in cells:
            if len(cell) > FILE_LIMITS.cell_letters or not cell.isprintable():
                raise BadSpec(f"{path} has a cell in column {name} that is not a {name}; restore the file")
        return np.array(cells, dtype=np.str_)
    with refusing(f"{path} has a cell in column {name} that is not a number; restore the file"):
        if name in _WHOLE:
            return np.array(array("q", map(int, cells)), dtype=np.int64)
        numbers = np.array(array("d", (float(cell) if cell or name not in _SCORES else np.nan for cell in cells)))
        if np.isfinite(numbers).sum() < len(cells) - (cells.count("") if name in _SCORES else 0):
            raise ValueError("not finite")
        return numbers
