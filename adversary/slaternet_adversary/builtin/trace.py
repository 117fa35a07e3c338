"""The file of a trace: every agent's losses and linear constraints in every round, as an uncompressed .npz.

    matrix      (T, n, rows + m, p)    each agent's A (rows, p) above its B (m, p)
    offset      (T, n, rows + m)       its theta (rows,) before its b (m,)
    rows        one whole number       how many of the stacked rows are A's

    f_{i,t}(x) = 1/2 |A x - theta|^2                                   g_{i,t}(x) = B x - b

With rows = 0, so that matrix and offset are B and b alone, the losses stand in three more arrays:

    curvature   (T, n, p)              not below 0
    slope       (T, n, p)
    constant    (T, n)

    f_{i,t}(x) = sum_j (1/2 curvature_j x_j^2 + slope_j x_j) + constant

and with hessian (T, n, p, p), symmetric, in the place of curvature

    f_{i,t}(x) = 1/2 x' hessian x + slope'x + constant

`numpy.savez("trace.npz", matrix=matrix, offset=offset, rows=4)` writes such a file, from any real type of number, and
`slaternet record` does. In an uncompressed .npz the numbers of a round lie in one piece at a known place, so that a
trace longer than memory is played round by round from a single file. It is read, not mapped into memory: a mapped file
that is truncated would kill the process. Nothing is unpickled: a file must not run code.
"""

import hashlib
import io
import itertools
import math
import os
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from slaternet.model import Array
from slaternet.numerics.npz import NUMBERS, Archive, WrongSize, add_array
from slaternet.storage.disk import replacing
from slaternet.storage.files import opened, refusing
from slaternet_adversary.api import CannotPlay, Round
from slaternet_adversary.builtin.forms import Functions, Quadratics, Separable, Targets

_ROWS, _STACKED = "rows", ("matrix", "offset")
_SEPARABLE, _QUADRATIC = ("curvature", "slope", "constant"), ("hessian", "slope", "constant")
_HOW = "write it with numpy.savez(path, matrix=..., offset=..., rows=...) or slaternet record"


@dataclass(frozen=True)
class _Member:
    """An array in the file: its type and shape, and where its numbers begin."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int

    def read(self, file: BinaryIO, index: int) -> Array | None:
        """Return the array at an index of the first axis; None where the file ends before."""
        count = math.prod(self.shape[1:])
        file.seek(self.start + index * self.dtype.itemsize * count)
        numbers = np.fromfile(file, self.dtype, count)
        return numbers.reshape(self.shape[1:]).astype(np.float64) if len(numbers) == count else None


class Trace:
    """A trace in a file, of which one round at a time is read. CannotPlay names the key and the file at fault."""

    def __init__(self, path: Path, key: str) -> None:
        self._path = path
        self._who = f"{key} = {path}"
        with self._opened() as file:
            self._stamp = _stamp(file)
            self._arrays = self._members(file)
            self.rows = self._whole(file, self._arrays.pop(_ROWS))
        self.rounds, self.agents, stacked, self.dimension = self._shape()
        self.constraints = stacked - self.rows

    def sha256(self) -> str:
        """Return the SHA-256 of the file."""
        with self._opened() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def functions(self, round: int) -> Functions:
        """Return the functions of a round, 1 to `rounds`."""
        with self._opened() as file:
            if _stamp(file) != self._stamp:
                raise CannotPlay(f"{self._who} has changed since it was opened; keep it as it is and play again")
            arrays = {name: self._round(file, name, round) for name in self._arrays}
        matrix, offset = (arrays.pop(name) for name in _STACKED)
        if self.rows:
            return Functions(matrix, offset, self.rows)
        form = Quadratics if "hessian" in arrays else Separable
        return form(**arrays, matrix=matrix, bound=offset)

    def _round(self, file: BinaryIO, name: str, round: int) -> Array:
        numbers = self._arrays[name].read(file, round - 1)
        if numbers is None:
            raise CannotPlay(f"{self._who} ends within round {round} of {name}; copy it again, whole")
        if not np.isfinite(numbers).all():
            place = ", ".join(str(index[0]) for index in np.nonzero(~np.isfinite(numbers)))
            raise CannotPlay(f"{self._who} holds no finite number at {name}[{round - 1}, {place}]; correct it")
        diagonal = numbers.diagonal(axis1=1, axis2=2) if name == "hessian" else numbers
        if name in ("curvature", "hessian") and diagonal.min() < 0.0:
            raise CannotPlay(f"{self._who} has a curvature below 0 in round {round}; make its losses convex")
        return numbers

    def _opened(self) -> AbstractContextManager[io.BufferedReader]:
        return opened(self._path, self._who, CannotPlay)

    def _members(self, file: BinaryIO) -> dict[str, _Member]:
        with refusing(f"{self._who} is not an .npz of numbers; {_HOW}", CannotPlay), Archive(file) as archive:
            form = next((each for each in (_SEPARABLE, _QUADRATIC) if each[0] in archive), ())
            names = (_ROWS, *_STACKED, *form)
            return {name: self._member(archive, name) for name in names}

    def _member(self, archive: Archive, name: str) -> _Member:
        try:
            start, head = archive.offset(name), archive.head(name)
        except KeyError:
            raise CannotPlay(f"{self._who} holds no array {name}; {_HOW}") from None
        except WrongSize:
            raise CannotPlay(f"{self._who} holds {name} with more or fewer numbers than it says; {_HOW}") from None
        if start is None:
            raise CannotPlay(f"{self._who} is compressed, so that no round can be read by itself; {_HOW}")
        if head.dtype.kind not in NUMBERS or head.fortran:
            raise CannotPlay(f"{self._who} holds {name} as {head.dtype}; make it real numbers in C order")
        return _Member(head.dtype, head.shape, start)

    def _whole(self, file: BinaryIO, member: _Member) -> int:
        rows = None if member.shape else member.read(file, 0)
        if rows is None or rows % 1 or rows < 0:
            raise CannotPlay(f"{self._who} must hold rows, one whole number; {_HOW}")
        if bool(rows) is ("slope" in self._arrays):
            remedy = "give its losses either rows of matrix, or curvature, slope and constant"
            raise CannotPlay(f"{self._who} has rows = {int(rows)}; {remedy}")
        return int(rows)

    def _shape(self) -> tuple[int, ...]:
        shapes = {name: member.shape for name, member in self._arrays.items()}
        shape = shapes["matrix"]
        if len(shape) != 4 or not all(shape):
            raise CannotPlay(f"{self._who} holds matrix as {_times(shape)}; make it T x n x q x p")
        rounds, agents, stacked, p = shape
        each = (rounds, agents)
        needed = {"offset": (*each, stacked), "curvature": (*each, p), "slope": (*each, p), "constant": each}
        needed["hessian"] = (*each, p, p)
        for name in shapes.keys() & needed.keys():
            if shapes[name] != needed[name]:
                text = f"{_times(shapes[name])}; beside a matrix of {_times(shape)} make it {_times(needed[name])}"
                raise CannotPlay(f"{self._who} holds {name} as {text}")
        if self.rows >= stacked:
            raise CannotPlay(f"{self._who} has rows = {self.rows} of {stacked}; leave at least one to constraints")
        return shape


def arrays(functions: Round) -> Mapping[str, Array]:
    """Return the arrays of a round as a trace has them; empty where it is of no form that a trace can hold."""
    # exactly these classes: a subclass may override methods
    if type(functions) is Targets:
        functions = functions.stacked()
    if type(functions) is Functions:
        return {"matrix": functions.matrix, "offset": functions.offset}
    for kind, form in ((Separable, _SEPARABLE), (Quadratics, _QUADRATIC)):
        if type(functions) is kind:
            return {name: getattr(functions, name) for name in (*_STACKED, *form)}
    return {}


def write(path: Path, rounds: int, rows: int, recorded: Iterable[Mapping[str, Array]]) -> None:
    """Write a trace from the arrays of each of its rounds, which are never held in memory together.

    The file appears when it is complete; equal functions give equal bytes.
    """
    recorded = iter(recorded)
    first = next(recorded)
    with ExitStack() as stack:
        # the rounds of an array must be contiguous, so each array is collected in a file of its own
        files = {name: stack.enter_context(tempfile.TemporaryFile(dir=path.absolute().parent)) for name in first}
        for each in itertools.chain([first], recorded):
            for name, file in files.items():
                file.write(each[name].astype("<f8").tobytes())
        with replacing(path) as draft, zipfile.ZipFile(draft, "w") as archive:
            for name, file in files.items():
                file.seek(0)
                add_array(archive, name, "<f8", (rounds, *first[name].shape), file)
            add_array(archive, _ROWS, "<i8", (), io.BytesIO(rows.to_bytes(8, "little")))


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "a single number"


def _stamp(file: BinaryIO) -> tuple[int, ...]:
    """Return inode, size and time: they change when a file is replaced or written to."""
    status = os.fstat(file.fileno())
    return status.st_ino, status.st_size, status.st_mtime_ns
