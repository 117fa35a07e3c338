"""Powers, logarithms and exponentials whose bits do not depend on the machine.

The C library's `pow`, `log` and `exp` change their last bit with the CPU's instructions, and so do numpy's. Schedules
take their few numbers from `power` and `logarithm`. `exponential`, `softplus` and `sigmoid` are for whole arrays, the
losses revealed to agents. They consist of sums, products, quotients and scaling by powers of 2, elementwise steps that
every machine rounds alike; the result for a number does not depend on its neighbours in the array.
"""

import functools
import math
from decimal import Context, Decimal

import numpy as np

from slaternet.model import Array

_CONTEXT = Context(prec=50)
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # ends in zeros: its product with an exponent is exact
_LN2_LOW = float(_CONTEXT.subtract(_CONTEXT.ln(Decimal(2)), Decimal(_LN2_HIGH)))
_PER_LN2 = float(_CONTEXT.divide(1, _CONTEXT.ln(Decimal(2))))
_EXPONENTIAL = tuple(1.0 / math.factorial(k) for k in range(14))
"""exp(r) = sum r^k / k!; for |r| <= ln(2) / 2 the remainder is below 1e-17 of it."""
_ARTANH = tuple(2.0 / (2 * k + 1) for k in range(17))
"""2 artanh(u) = u sum 2 (u^2)^k / (2k + 1); for u <= 1/3 the remainder is below 1e-17 of it."""


@functools.lru_cache(maxsize=4096)
def power(base: float, exponent: float) -> float:
    """Return base ** exponent, computed to 50 decimal digits and rounded once; base > 0.

    Raises ValueError for another base, OverflowError where the result is no finite number.
    """
    if not base > 0:
        raise ValueError(f"the base of a power must be positive, not {base}")
    result = float(_CONTEXT.power(Decimal(base), Decimal(exponent)))
    if result == float("inf"):
        raise OverflowError(f"{base} to the power {exponent} is too large")
    return result


@functools.lru_cache(maxsize=4096)
def logarithm(x: float) -> float:
    """Return ln x, computed to 50 decimal digits and rounded once; x > 0, otherwise ValueError."""
    if not x > 0:
        raise ValueError(f"only a positive number has a logarithm, not {x}")
    return float(_CONTEXT.ln(Decimal(x)))


def exponential(x: Array) -> Array:
    """Return exp(x) for numbers of any size, to about 1e-15 of each; 0 or inf where it is no float. No NaN.

    x = k ln 2 + r with |r| <= ln(2) / 2, so that exp(x) = 2^k exp(r).
    """
    x = np.clip(x, -746.0, 710.0)
    exponent = np.rint(x * _PER_LN2)
    rest = x - exponent * _LN2_HIGH
    rest -= exponent * _LN2_LOW
    with np.errstate(over="ignore"):
        scaled: Array = np.ldexp(_polynomial(_EXPONENTIAL, rest), exponent.astype(np.intc))
    return scaled


def softplus(x: Array) -> Array:
    """Return ln(1 + exp(x)), the logistic loss of a margin -x, to about 1e-15 of each; no NaN.

    It is [x]_+ + ln(1 + e) with e = exp(-|x|), and ln(1 + e) = 2 artanh(e / (2 + e)).
    """
    small = exponential(-np.abs(x))
    small /= small + 2.0
    logarithm: Array = _polynomial(_ARTANH, small * small)
    logarithm *= small
    logarithm += np.maximum(x, 0.0)
    return logarithm


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), the slope of softplus, to about 1e-15 of each; no NaN."""
    small = exponential(-np.abs(x))
    slope: Array = np.where(x < 0.0, small, 1.0)
    slope /= small + 1.0
    return slope


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    """Return the sum of c_k x^k, by Horner's rule."""
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total
