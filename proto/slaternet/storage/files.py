"""Reading files that somebody else may have written: run folders, states, comparisons, data that a spec names.

Such a file is damaged at times, and hostile at worst. It is read only if it is an ordinary file of bounded size, and
whatever a parser raises on it becomes one sentence that names the file and the remedy.
"""

import csv
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TypeVar

import numpy as np
from pydantic import TypeAdapter

from slaternet.errors import NO_MEMORY, BadSpec, SlaternetError
from slaternet.fields import too_deep
from slaternet.limits import LIMITS
from slaternet.model import Array
from slaternet.numerics import npz
from slaternet.spec import Spec
from slaternet.storage.disk import DISK, Disk, open_regular, read_file

T = TypeVar("T")

DAMAGE = (*npz.DAMAGE, csv.Error)
"""What parsers raise on a file that does not hold what it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """What a file may cost us. Files of decisions, which may be large, cost as much memory as they have bytes."""

    json_bytes: int = 1 << 23
    """summary.json and its like: a game of the most agents and hosts takes 2 MiB, and 8 MiB parse into 0.5 GB."""
    columns: int = 64
    """Of metrics.csv; ours has 18."""
    row_bytes: int = 4096
    """A row of metrics.csv, which takes up to 300."""
    cell_letters: int = 64
    """Of a text in metrics.csv: the column takes memory for its longest."""
    incident_bytes: int = 1 << 25
    """incidents.jsonl: so many lines of two texts each take 24 MiB where JSON writes every letter in six bytes."""
    graph_bytes: int = 1 << 28
    """A file of graphs, of which one of a million edges takes 12 MB as text."""


FILE_LIMITS = FileLimits()


@contextmanager
def refusing(sentence: str, kind: type[SlaternetError] = BadSpec) -> Iterator[None]:
    """Turn what a damaged or hostile file makes a parser raise within the block into one sentence."""
    try:
        yield
    except DAMAGE as error:
        raise kind(sentence) from error
    except MemoryError as error:  # nothing is wrong with the file
        raise BadSpec(NO_MEMORY) from error


@contextmanager
def opened(path: Path, who: str = "", kind: type[BadSpec] = BadSpec) -> Iterator[BufferedReader]:
    """Open an ordinary file for reading, for the block; an error begins with `who`, or else with the path."""
    try:
        with open(open_regular(path), "rb") as file:
            yield file
    except OSError as error:
        raise kind(f"{who or path} cannot be read: {error.strerror}; correct the path") from None


def read_bytes(path: Path, *, most: int, who: str = "", kind: type[BadSpec] = BadSpec) -> bytes:
    """Return the content of a file; an error, as that of `opened`, where it is longer than `most` bytes."""
    with opened(path, who, kind) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise kind(f"{who or path} is longer than the {most} bytes that it may have; put another in its place")
        return file.read(size)  # no more: some files of the system never end


def read_spec(path: Path) -> Spec:
    """Return the spec in a TOML file."""
    return Spec.parse(read_spec_text(path), source=str(path))


def read_spec_text(path: Path) -> str:
    """Return the text of a spec, which may not be one."""
    data = read_bytes(path, most=LIMITS.spec_bytes)
    with refusing(f"{path} is not TOML: it is not text in UTF-8; name a spec file"):
        return data.decode()


def read_decisions(path: Path, shape: tuple[int, int, int]) -> Array:
    """Return decisions.npz, an array of this shape."""
    remedy = "restore it, or delete it to read the run without decisions"
    with (
        opened(path) as file,
        refusing(f"{path} is damaged; {remedy}"),
        npz.Archive(file) as archive,
    ):
        head = archive.head("x")
        if head.dtype != np.float64 or head.fortran or archive.offset("x") is None:
            raise ValueError("not as a run writes it")
        if head.shape != shape:
            found, due = (" x ".join(map(str, each)) for each in (head.shape, shape))
            raise BadSpec(f"{path} holds {found} numbers where the run has {due}; {remedy}")
        x: Array = archive.array("x")
    return x


def read_json(path: Path, kind: TypeAdapter[T], sentence: str, *, disk: Disk = DISK) -> T:
    """Return what a JSON file holds, of the type asked for; BadSpec, the path and this sentence, where it is not."""
    data = read_file(path, most=FILE_LIMITS.json_bytes, disk=disk)
    with refusing(f"{path} {sentence}"):
        value = json.loads(data)
        if too_deep(value):
            raise ValueError("tables within tables")
        return kind.validate_python(value)
