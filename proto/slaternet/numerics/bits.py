"""Whole numbers of few bits, packed one after the other.

The lowest bit of a number comes first, and the lowest bit of a byte; the last byte is filled with zeros. Numbers of 8,
16, 32 or 64 bits are therefore little-endian integers, which need no bit to be moved.
"""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.uint64]

_WHOLE = {8: "<u1", 16: "<u2", 32: "<u4", 64: "<u8"}
_MOST = 64


def packed_bytes(count: int, bits: int) -> int:
    """Return how many bytes so many numbers take."""
    return (count * bits + 7) // 8


def width_of(numbers: Numbers) -> int:
    """Return the smallest number of bits that holds every number; 0 where all are 0, or there is none."""
    return int(numbers.max()).bit_length() if numbers.size else 0


def pack(numbers: Numbers, bits: int) -> bytes:
    """Return the numbers in C order, `bits` bits each; ValueError where one needs more. 0 bits: nothing, all are 0."""
    if width_of(numbers) > _checked(bits):
        raise ValueError(f"a number does not fit into {bits} bits")
    if not bits:
        return b""
    if bits in _WHOLE:
        return numbers.astype(_WHOLE[bits]).tobytes()
    each = np.unpackbits(_bytes_of(numbers, bits), axis=1, count=bits, bitorder="little")
    return np.packbits(each, bitorder="little").tobytes()


def unpack(data: bytes, count: int, bits: int) -> Numbers:
    """Return `count` numbers of `bits` bits, (count,).

    ValueError where the data have another length, or a bit that fills the last byte is set.
    """
    if len(data) != packed_bytes(count, _checked(bits)):
        raise ValueError("the numbers do not fill their bytes")
    if not bits:
        return np.zeros(count, np.uint64)
    if bits in _WHOLE:
        return np.frombuffer(data, _WHOLE[bits]).astype(np.uint64)
    used = count * bits % 8
    if used and data[-1] >> used:
        raise ValueError("the last byte is not filled with zeros")
    each = np.unpackbits(np.frombuffer(data, np.uint8), count=count * bits, bitorder="little")
    room = _room(bits)
    padded = np.zeros((count, 8 * room), np.uint8)
    padded[:, :bits] = each.reshape(count, bits)
    numbers: Numbers = np.packbits(padded, bitorder="little").view(f"<u{room}").astype(np.uint64)
    return numbers


def zigzag(signed: NDArray[np.int64]) -> Numbers:
    """Return 0, 1, 2, 3, 4, ... for 0, -1, 1, -2, 2, ...: small numbers of either sign have few bits."""
    return ((signed << 1) ^ (signed >> 63)).view(np.uint64)


def unzigzag(numbers: Numbers) -> NDArray[np.int64]:
    """Return the signed numbers that `zigzag` was given."""
    signed = numbers.view(np.int64)
    # the shift is the unsigned one: the highest bit is of the number's size
    half: NDArray[np.int64] = (numbers >> np.uint64(1)).view(np.int64) ^ -(signed & 1)
    return half


def _bytes_of(numbers: Numbers, bits: int) -> NDArray[np.uint8]:
    """Return the bytes of each number, (count, those of the smallest integer that has so many bits)."""
    room = _room(bits)
    return numbers.astype(f"<u{room}").reshape(-1, 1).view(np.uint8)


def _room(bits: int) -> int:
    return next(size // 8 for size in _WHOLE if size >= bits)


def _checked(bits: int) -> int:
    if not 0 <= bits <= _MOST:
        raise ValueError(f"a number has 0 to {_MOST} bits, not {bits}")
    return bits
