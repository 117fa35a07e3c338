"""Sound messages made unsound, by a seed: protobuf taken apart into fields, spoilt, and put together again.

A message that is spoilt in one field only gets far into a decoder; one whose bytes are shuffled does not. Both come.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Self

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
VERBATIM = -1  # not of protobuf: fields that are in bytes already
EXTREMES = (0, 1, 2, 127, 128, 1 << 16, (1 << 17) + 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63)
NUMBERS = tuple(
    struct.pack("<d", value) for value in (math.nan, math.inf, -math.inf, -0.0, 5e-324, -1.7e308, 1e300, 1.0)
)
BAD_UTF8 = (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\x00")
MOST = (1 << 64) - 1


@dataclass(slots=True)
class Field:
    """One field: its number, how it is written, and what it holds; a message in it is taken apart as well."""

    number: int
    wire: int
    value: int | bytes | list["Field"]

    def copy(self) -> Self:
        """Return a field that can be spoilt without spoiling this one."""
        value = [each.copy() for each in self.value] if isinstance(self.value, list) else self.value
        return type(self)(self.number, self.wire, value)


_SMALL = tuple(bytes([value]) for value in range(128))


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it."""
    if value < 128:
        return _SMALL[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def dissect(data: bytes) -> list[Field]:
    """Return the fields of a sound message; bytes that might be a message are taken for one."""
    fields, place = [], 0
    while place < len(data):
        key, place = _read_varint(data, place)
        number, wire = key >> 3, key & 7
        value: int | bytes | list[Field]
        if wire == VARINT:
            value, place = _read_varint(data, place)
        elif wire == BYTES:
            length, place = _read_varint(data, place)
            value, place = data[place : place + length], place + length
            value = _inside(value)
        elif wire in (FIXED64, FIXED32):
            width = 8 if wire == FIXED64 else 4
            value, place = data[place : place + width], place + width
        else:
            raise ValueError("no field begins here")
        if number == 0 or place > len(data):
            raise ValueError("no field begins here")
        fields.append(Field(number, wire, value))
    return fields


def _inside(data: bytes) -> bytes | list[Field]:
    try:
        return dissect(data) or data
    except (ValueError, IndexError):
        return data


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
        if shift > 63:
            raise ValueError("no number is as long as this")


def assemble(fields: list[Field]) -> bytes:
    """Return the bytes of a message."""
    out = []
    for field in fields:
        value = field.value
        if field.wire != VERBATIM:
            out.append(varint(field.number << 3 | field.wire))
        if isinstance(value, int):
            out.append(varint(value))
            continue
        data = value if isinstance(value, bytes) else assemble(value)
        if field.wire == BYTES:
            out.append(varint(len(data)))
        out.append(data)
    return b"".join(out)


class Mutator:
    """Spoils messages; the same seed and the same messages give the same results."""

    def __init__(self, seed: str, stock: list[bytes]) -> None:
        self._random = Random(seed)
        self._stock = [dissect(data) for data in stock]
        self._known = dict(zip(stock, self._stock, strict=True))
        self._of_fields: tuple[Callable[[list[Field]], None], ...] = (
            self._change, self._change, self._change, self._remove, self._repeat, self._splice, self._invent,
            self._renumber, self._shuffle, self._multiply,
        )  # fmt: skip
        self._of_bytes: tuple[Callable[[bytes], bytes], ...] = (
            self._flip, self._truncate, self._insert, self._lie_about_a_length, self._noise, self._join_two,
        )  # fmt: skip

    def spoil(self, data: bytes) -> bytes:
        """Return the message with one to three things wrong, some of which may not matter."""
        random = self._random
        if random.random() < 0.7:
            fields = [each.copy() for each in self._known[data]]
            for _ in range(random.choice((1, 1, 1, 2, 3))):
                random.choice(self._of_fields)(self._somewhere(fields))
            data = assemble(fields)
            if random.random() < 0.8:
                return data
        return random.choice(self._of_bytes)(data)

    def _somewhere(self, fields: list[Field]) -> list[Field]:
        """Return the fields of the message, or of one inside it."""
        inner = [each.value for each in fields if isinstance(each.value, list)]
        if inner and self._random.random() < 0.6:
            return self._somewhere(self._random.choice(inner))
        return fields

    # What is done to fields

    def _change(self, fields: list[Field]) -> None:
        if not fields:
            return
        field = self._random.choice(fields)
        match field.value:
            case int(value):
                field.value = self._number(value)
            case bytes(value) if field.wire == BYTES:
                field.value = self._payload(value)
            case bytes(value):
                field.value = self._random.choice(NUMBERS)[: len(value)]
            case inner:
                field.value = self._payload(assemble(inner))

    def _number(self, value: int) -> int:
        near = (value + 1, max(value - 1, 0), 2 * value, MOST, MOST - value)
        return self._random.choice(EXTREMES + near) & MOST

    def _payload(self, data: bytes) -> bytes:
        random = self._random
        place = random.randrange(len(data) + 1)
        match random.randrange(8):
            case 0:
                return data[:place]
            case 1:
                return data[:place] + random.choice(BAD_UTF8) + data[place:]
            case 2:
                return data + data[place:]
            case 3:
                return data[: place - place % 8] + random.choice(NUMBERS) + data[place - place % 8 + 8 :]
            case 4:
                return b""
            case 5:
                return data + bytes(random.choice((1, 4, 8, 24, 65, 257, 1025)))
            case 6:
                return random.randbytes(len(data))
            case _:
                return self._flip(data)

    def _remove(self, fields: list[Field]) -> None:
        if fields:
            del fields[self._random.randrange(len(fields))]

    def _repeat(self, fields: list[Field]) -> None:
        if fields:
            fields.insert(self._random.randrange(len(fields) + 1), self._random.choice(fields).copy())

    def _splice(self, fields: list[Field]) -> None:
        source = self._somewhere(self._random.choice(self._stock))
        if source:
            fields.insert(self._random.randrange(len(fields) + 1), self._random.choice(source).copy())

    def _invent(self, fields: list[Field]) -> None:
        """Add a field that nobody knows."""
        random = self._random
        number = random.choice((13, 15, 16, 99, 2047, (1 << 29) - 1))
        field = random.choice(
            (
                Field(number, VARINT, random.choice(EXTREMES)),
                Field(number, BYTES, random.randbytes(random.randrange(40))),
                Field(number, FIXED64, random.choice(NUMBERS)),
                Field(number, FIXED32, random.randbytes(4)),
            )
        )
        fields.insert(random.randrange(len(fields) + 1), field)

    def _renumber(self, fields: list[Field]) -> None:
        if fields:
            self._random.choice(fields).number = self._random.randrange(1, 14)

    def _shuffle(self, fields: list[Field]) -> None:
        self._random.shuffle(fields)

    def _multiply(self, fields: list[Field]) -> None:
        """Repeat a field, or an empty one of its number, very often; more than once in a thousand messages is dear."""
        if not fields or self._random.random() < 0.9:
            return
        field = self._random.choice(fields)
        if self._random.random() < 0.5 and field.wire != VERBATIM:
            field = Field(field.number, BYTES, b"")
        data = assemble([field])
        times = self._random.choice((17, 65, 257, 4098) if len(data) < 64 else (17, 65))
        fields.append(Field(field.number, VERBATIM, times * data))

    # What is done to bytes

    def _flip(self, data: bytes) -> bytes:
        if not data:
            return data
        spoilt = bytearray(data)
        for _ in range(self._random.randrange(1, 5)):
            spoilt[self._random.randrange(len(spoilt))] ^= 1 << self._random.randrange(8)
        return bytes(spoilt)

    def _truncate(self, data: bytes) -> bytes:
        return data[: self._random.randrange(len(data) + 1)]

    def _insert(self, data: bytes) -> bytes:
        place = self._random.randrange(len(data) + 1)
        return data[:place] + self._random.randbytes(self._random.randrange(1, 13)) + data[place:]

    def _lie_about_a_length(self, data: bytes) -> bytes:
        """Announce more bytes, or a longer number, than there can be."""
        number = self._random.randrange(1, 9)
        lie = self._random.choice((varint(1 << 20), varint((1 << 31) - 1), varint(MOST), b"\x80" * 9 + b"\x01"))
        return data + varint(number << 3 | self._random.choice((VARINT, BYTES, 3, 4, 6, 7))) + lie

    def _noise(self, data: bytes) -> bytes:
        return self._random.randbytes(self._random.randrange(2 * len(data) + 8))

    def _join_two(self, data: bytes) -> bytes:
        return data + assemble(self._random.choice(self._stock))
