"""Arrays in .npz files, which somebody else may have written: what a file claims is compared with what it holds first.

    with Archive(file) as archive:
        archive.head("x").shape     # what the file says, and it has as many bytes
        archive.array("x")

An .npz is a zip file with an .npy in it for every array: a head of text, which gives type and shape, and the numbers.
Nothing is unpickled: a file must not run code. Errors are those in DAMAGE, and MemoryError; KeyError where there is no
such array.
"""

import io
import math
import shutil
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RecursionError,
    EOFError,
    NotImplementedError,
    SyntaxError,  # numpy reads the head of an array with Python's own parser
    tokenize.TokenError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""What parsers raise on a file that does not hold what it should."""

NUMBERS = "fiu"
"""Kinds of types that are real numbers."""
_BLOCK = 1 << 20
"""Bytes that are read at once; the directory of a zip file, which is read whole, must not have more."""
_LOCAL = struct.Struct("<26xHH")
"""The head of a zip file's member, which ends with the lengths of its name and of an extra field."""
_LENGTHS = {1: struct.Struct("<H"), 2: struct.Struct("<I")}
"""How a version of .npy gives the length of its head."""
_HEADS = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
_HEAD_BYTES = 10_000
"""The longest head that numpy itself accepts; it reads a longer one before it says so."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Those that numpy writes."""
_ENCRYPTED = 1


class WrongSize(ValueError):
    """An array that has more or fewer numbers than it says."""


@dataclass(frozen=True, slots=True)
class ArrayHead:
    """What an array is: its type and shape, and where its numbers begin in its member."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    start: int

    @property
    def size(self) -> int:
        """Bytes of its numbers."""
        return self.dtype.itemsize * math.prod(self.shape)


class Archive:
    """An .npz file that is open."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._length = file.seek(0, io.SEEK_END)
        self._zip = zipfile.ZipFile(_Sparing(file))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def __contains__(self, name: str) -> bool:
        return f"{name}.npy" in self._zip.namelist()

    def _member(self, name: str) -> zipfile.ZipInfo:
        """Return the file of an array; BadZipFile where it is not one that numpy may have written."""
        info = self._zip.getinfo(f"{name}.npy")
        if info.compress_type not in _METHODS or info.flag_bits & _ENCRYPTED:
            raise zipfile.BadZipFile(f"{name} is encrypted, or compressed in another way than numpy's")
        return info

    def head(self, name: str) -> ArrayHead:
        """Return what an array is; WrongSize where it is of numbers, and the file does not hold as many as it says."""
        info = self._member(name)
        with self._zip.open(info) as member:
            version = np.lib.format.read_magic(member)[0]
            layout = _LENGTHS[version]
            (length,) = layout.unpack(claim := member.read(layout.size))
            if length > _HEAD_BYTES:
                raise ValueError(f"{name} has a head of {length} bytes")
            shape, fortran, dtype = _HEADS[version](io.BytesIO(claim + member.read(length)))
            head = ArrayHead(dtype, shape, fortran, member.tell())
        stored = info.compress_type == zipfile.ZIP_STORED
        room = self._length - info.header_offset if stored else info.file_size
        whole = min(shape, default=0) >= 0 and head.start + head.size == info.file_size <= room
        if dtype.kind in NUMBERS and not whole:
            raise WrongSize(f"{name} holds more or fewer numbers than it says")
        return head

    def offset(self, name: str) -> int | None:
        """Return where the numbers of an array begin in the file; None where they are compressed."""
        info = self._member(name)
        if info.compress_type != zipfile.ZIP_STORED:
            return None
        self._file.seek(info.header_offset)
        name_length, extra_length = _LOCAL.unpack(self._file.read(_LOCAL.size))
        begin = info.header_offset + _LOCAL.size + int(name_length) + int(extra_length)
        return begin + self.head(name).start

    def array(self, name: str) -> NDArray[Any]:
        """Return an array of numbers, for which as much memory is taken as it has bytes."""
        head = self.head(name)
        flat = np.empty(math.prod(head.shape), head.dtype)
        at = 0
        for piece in self._pieces(name, head):
            flat[at : at + len(piece)] = piece
            at += len(piece)
        return flat.reshape(head.shape[::-1]).T if head.fortran else flat.reshape(head.shape)

    def rows(self, name: str) -> Iterator[NDArray[Any]]:
        """Yield an array as a few rows of its last axis after the other, (k, width)."""
        head = self.head(name)
        if head.fortran:
            yield self.array(name).reshape(-1, head.shape[-1])
            return
        rest = np.empty(0, head.dtype)
        for piece in self._pieces(name, head):
            rest = np.concatenate((rest, piece))
            whole = len(rest) - len(rest) % head.shape[-1]
            yield rest[:whole].reshape(-1, head.shape[-1])
            rest = rest[whole:]

    def _pieces(self, name: str, head: ArrayHead) -> Iterator[NDArray[Any]]:
        """Yield the numbers, some at a time; to the end, so that their checksum is compared."""
        with self._zip.open(self._member(name)) as member:
            member.read(head.start)
            left, step = head.size, _BLOCK - _BLOCK % head.dtype.itemsize
            while left and (data := _exactly(member, min(step, left))):
                left -= len(data)
                yield np.frombuffer(data, head.dtype)
            if left or member.read(1):
                raise ValueError(f"{name} ends early")


def add_array(archive: zipfile.ZipFile, name: str, dtype: str, shape: tuple[int, ...], numbers: IO[bytes]) -> None:
    """Add an array to an .npz that is written, its numbers read a piece at a time; equal arrays give equal bytes."""
    # a ZipInfo made by hand has no time of day
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, {"descr": dtype, "fortran_order": False, "shape": shape})
        shutil.copyfileobj(numbers, member)


def _exactly(member: IO[bytes], size: int) -> bytes:
    data = member.read(size)
    while len(data) < size and (more := member.read(size - len(data))):
        data += more
    return data


class _Sparing:
    """A file of which nobody reads much at once: zipfile reads as much of a directory as the file claims it to be."""

    def __init__(self, file: IO[bytes]) -> None:
        self._read, self.seek, self.tell, self.seekable = file.read, file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        data = self._read(size if 0 <= size <= _BLOCK else _BLOCK + 1)
        if len(data) > _BLOCK:
            raise zipfile.BadZipFile("its directory is too long")
        return data
