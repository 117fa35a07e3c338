import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet_lab.verification.rates import is_logarithmic, late_share, local_exponent, power_law

T = np.array([256, 512, 1024, 2048, 4096])


def seeds(curve: np.ndarray, spread: float = 0.0, count: int = 10) -> np.ndarray:
    factors = 1.0 + spread * np.random.default_rng(1).standard_normal((count, 1))
    return factors * curve


@given(exponent=st.floats(-1, 1.5), scale=st.floats(0.1, 1e4))
def test_a_power_of_the_horizon_has_its_exponent(exponent: float, scale: float) -> None:
    fit = power_law(T, seeds(scale * T**exponent, spread=0.05))

    assert fit is not None
    assert fit.exponent == pytest.approx(exponent, abs=1e-9)
    # every seed grows alike, so that whichever are drawn the slope is the same
    assert (fit.low, fit.high) == pytest.approx((exponent, exponent), abs=1e-9)


def test_the_interval_covers_what_seeds_disagree_about() -> None:
    exponents = np.linspace(0.4, 0.6, 10)

    fit = power_law(T, np.stack([T**each for each in exponents]))

    assert fit is not None
    assert 0.4 < fit.low < 0.49 < fit.exponent < 0.56 < fit.high < 0.6


def test_the_same_values_give_the_same_interval() -> None:
    values = np.random.default_rng(2).uniform(1, 2, (10, 5)) * np.sqrt(T)

    assert power_law(T, values) == power_law(T, values)


@pytest.mark.parametrize("bad", [0.0, -3.0])
def test_what_is_not_positive_has_no_exponent(bad: float) -> None:
    curve = np.sqrt(T)
    curve[2] = bad

    assert power_law(T, seeds(curve)) is None


def test_a_mean_whose_sign_hangs_on_few_seeds_has_no_exponent() -> None:
    values = seeds(-np.sqrt(T))
    values[0] += 20 * np.sqrt(T)

    assert values.mean(axis=0).min() > 0
    assert power_law(T, values) is None


def test_the_local_exponent_is_that_of_the_last_octave() -> None:
    curve = np.array([1.0, 5.0, 7.0, 10.0, 30.0])

    assert local_exponent(T, seeds(curve)) == pytest.approx(math.log2(3))
    assert math.isnan(local_exponent(T, seeds(-curve)))


@given(slope=st.floats(0.5, 100), offset=st.floats(-2, 100))
def test_a_logarithm_is_told_from_a_power(slope: float, offset: float) -> None:
    assert is_logarithmic(T, seeds(slope * np.log(T) + offset, spread=0.02))


@given(exponent=st.floats(0.3, 1.0))
def test_a_power_is_told_from_a_logarithm(exponent: float) -> None:
    assert not is_logarithmic(T, seeds(3.0 * T**exponent, spread=0.02))


def test_the_late_share_is_what_came_after_half_of_the_rounds() -> None:
    assert late_share(T, seeds(T.astype(float))) == pytest.approx(0.5)
    assert late_share(T, seeds(np.ones(5))) == 0.0
    assert late_share(T, seeds(np.zeros(5))) == 0.0
    with pytest.raises(ValueError, match="T/2 and T"):
        late_share(np.array([1, 3]), np.ones((2, 2)))
