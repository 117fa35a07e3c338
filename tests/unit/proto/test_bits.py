"""Packed numbers, against the plain rule: bit b of number i is bit i bits + b of the data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.numerics.bits import pack, packed_bytes, unpack, unzigzag, width_of, zigzag

WIDTHS = st.integers(1, 64)


@st.composite
def some_numbers(draw: st.DrawFn) -> tuple[list[int], int]:
    bits = draw(WIDTHS)
    return draw(st.lists(st.integers(0, (1 << bits) - 1), max_size=40)), bits


def plainly_packed(numbers: list[int], bits: int) -> bytes:
    """One long integer, the first number lowest."""
    whole = sum(number << place * bits for place, number in enumerate(numbers))
    return whole.to_bytes((len(numbers) * bits + 7) // 8, "little")


@given(some_numbers())
def test_numbers_are_packed_the_lowest_bit_first_and_come_back(drawn: tuple[list[int], int]) -> None:
    numbers, bits = drawn
    data = pack(np.array(numbers, np.uint64), bits)

    assert data == plainly_packed(numbers, bits)
    assert len(data) == packed_bytes(len(numbers), bits)
    back = unpack(data, len(numbers), bits)
    assert back.dtype == np.uint64
    assert back.tolist() == numbers


@given(some_numbers(), st.integers(0, 7))
def test_the_smallest_width_holds_the_numbers_and_one_bit_less_does_not(
    drawn: tuple[list[int], int], spare: int
) -> None:
    numbers = np.array(drawn[0], np.uint64)
    bits = width_of(numbers)

    assert unpack(pack(numbers, bits), len(numbers), bits).tolist() == numbers.tolist()
    assert pack(numbers, min(bits + spare, 64)) == plainly_packed(drawn[0], min(bits + spare, 64))
    if bits:
        with pytest.raises(ValueError, match="does not fit"):
            pack(numbers, bits - 1)


@given(some_numbers(), st.data())
def test_a_bit_that_fills_the_last_byte_must_be_zero(drawn: tuple[list[int], int], data: st.DataObject) -> None:
    numbers, bits = drawn
    packed = bytearray(pack(np.array(numbers, np.uint64), bits))
    used = len(numbers) * bits % 8
    if not used:
        return
    packed[-1] |= 1 << data.draw(st.integers(used, 7))

    with pytest.raises(ValueError, match="zeros"):
        unpack(bytes(packed), len(numbers), bits)


@given(st.binary(max_size=40), st.integers(0, 40), st.integers(0, 64))
def test_data_of_another_length_are_no_numbers(data: bytes, count: int, bits: int) -> None:
    if len(data) != packed_bytes(count, bits):
        with pytest.raises(ValueError, match="do not fill"):
            unpack(data, count, bits)


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20))
def test_signed_numbers_alternate_about_zero_and_come_back(signed: list[int]) -> None:
    numbers = np.array(signed, np.int64)

    folded = zigzag(numbers)

    assert folded.tolist() == [2 * each if each >= 0 else -2 * each - 1 for each in signed]
    assert unzigzag(folded).tolist() == signed


def test_zeros_take_no_bits() -> None:
    zeros = np.zeros((3, 4), np.uint64)

    assert (width_of(zeros), width_of(zeros[:0]), pack(zeros, 0)) == (0, 0, b"")
    assert unpack(b"", 12, 0).tolist() == [0] * 12


def test_rows_of_any_memory_order_are_packed_in_c_order() -> None:
    numbers = np.arange(12, dtype=np.uint64).reshape(3, 4)

    for bits in (4, 5, 8, 64):
        assert pack(numbers.T, bits) == pack(np.ascontiguousarray(numbers.T), bits)


@pytest.mark.parametrize("bits", [-1, 65])
def test_a_number_of_so_many_bits_is_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="0 to 64 bits"):
        pack(np.zeros(1, np.uint64), bits)
    with pytest.raises(ValueError, match="0 to 64 bits"):
        unpack(b"", 0, bits)
