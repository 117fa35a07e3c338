import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.powers import logarithm, power


@given(st.integers(1, 10_000), st.integers(0, 12))
def test_a_whole_power_is_the_exact_one_rounded_once(base: int, exponent: int) -> None:
    assert power(base, exponent) == float(Fraction(base) ** exponent)
    assert power(base, -exponent) == float(Fraction(1, base**exponent))


@given(st.integers(1, 1 << 40))
def test_half_a_power_is_the_square_root(base: int) -> None:
    assert power(base, 0.5) == math.sqrt(base)


@given(st.floats(1e-3, 1e9), st.floats(-3, 3))
def test_a_power_agrees_with_the_library_up_to_rounding(base: float, exponent: float) -> None:
    assert power(base, exponent) == pytest.approx(base**exponent, rel=1e-14)


def test_only_positive_bases_have_powers() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        power(0.0, 0.5)


def test_a_power_too_large_for_a_float_is_said_to_be() -> None:
    with pytest.raises(OverflowError, match="too large"):
        power(10.0, 400.0)


@given(st.floats(1e-9, 1e12))
def test_a_logarithm_agrees_with_the_library_up_to_rounding(x: float) -> None:
    assert logarithm(x) == pytest.approx(math.log(x), rel=1e-15, abs=1e-15)


def test_logarithms_are_rounded_once() -> None:
    assert logarithm(1) == 0.0
    assert logarithm(2) == float.fromhex("0x1.62e42fefa39efp-1")
    assert logarithm(1000) == float.fromhex("0x1.ba18a998fffa0p+2")


def test_only_positive_numbers_have_logarithms() -> None:
    with pytest.raises(ValueError, match="only a positive number"):
        logarithm(0.0)
