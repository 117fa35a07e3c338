import hashlib
import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from slaternet.model import Array
from slaternet.numerics.portable import exponential, logarithm, power, sigmoid, softplus

EXACT = Context(prec=400)  # 1 + exp(-700) keeps its tail


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


def exact_exponential(x: float) -> Decimal:
    return EXACT.exp(Decimal(x))


def exact_softplus(x: float) -> Decimal:
    return EXACT.ln(EXACT.add(1, exact_exponential(x)))


def exact_sigmoid(x: float) -> Decimal:
    return EXACT.divide(1, EXACT.add(1, exact_exponential(-x)))


@pytest.mark.parametrize(
    ("function", "exact"),
    [(exponential, exact_exponential), (softplus, exact_softplus), (sigmoid, exact_sigmoid)],
)
@given(x=st.floats(-700, 700))
@settings(max_examples=50, deadline=None)
def test_a_number_of_an_array_is_the_exact_one_up_to_rounding(
    function: Callable[[Array], Array], exact: Callable[[float], Decimal], x: float
) -> None:
    true = exact(x)

    assert abs(EXACT.divide(EXACT.subtract(Decimal(float(function(np.array([x]))[0])), true), true)) < Decimal("1e-15")


@given(x=arrays(np.float64, 40, elements=st.floats(-700, 700)))
@settings(max_examples=50, deadline=None)
def test_arrays_agree_with_numpy(x: Array) -> None:
    assert exponential(x) == pytest.approx(np.exp(x), rel=1e-14)
    assert softplus(x) == pytest.approx(np.logaddexp(0.0, x), rel=1e-14)
    assert sigmoid(x) == pytest.approx(1.0 / (1.0 + np.exp(-x)), rel=1e-14)


@pytest.mark.parametrize("function", [exponential, softplus, sigmoid])
@given(x=arrays(np.float64, (5, 13), elements=st.floats(-800, 800)))
@settings(max_examples=50, deadline=None)
def test_a_number_s_result_does_not_depend_on_its_neighbours(function: Callable[[Array], Array], x: Array) -> None:
    whole = function(x)

    assert function(x[2:3, ::4].copy()).tobytes() == whole[2:3, ::4].tobytes()
    assert function(np.asfortranarray(x)).tobytes() == whole.tobytes()


def test_numbers_beyond_the_floats_end_at_zero_and_infinity() -> None:
    x = np.array([-np.inf, -1e308, -800.0, 800.0, 1e308, np.inf])

    assert exponential(x).tolist() == [0.0, 0.0, 0.0, np.inf, np.inf, np.inf]
    assert softplus(x).tolist() == [0.0, 0.0, 0.0, 800.0, 1e308, np.inf]
    assert sigmoid(x).tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("function", "sha256"),
    [
        (exponential, "9d4c955e4882be1120c82477b6aea28836fe7aec9d5582d374f070df4104365f"),
        (softplus, "164fe68d834562d00bbb9c50ed1d1dae4d88cb68116a95fad3ec48e740c24cc5"),
        (sigmoid, "d6d2b3b7caac6510bdb76e22b3cdd290125f605a5afd6c13b4944ccafa308ca1"),
    ],
)
def test_every_machine_computes_the_same_bits(function: Callable[[Array], Array], sha256: str) -> None:
    x = np.arange(-(1 << 14), 1 << 14) / 512.0

    assert hashlib.sha256(function(x).astype("<f8").tobytes()).hexdigest() == sha256
