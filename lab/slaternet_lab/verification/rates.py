"""How fast a value grows with the horizon: exponents with their uncertainty, and whether a logarithm fits better.

    T        (h,)          horizons, ascending
    values   (seeds, h)    a value of every seed at every horizon

A power law shows as a straight line of log value over log T. Values are averaged over seeds before the logarithm is
taken, so that a regret that is negative for one seed spoils nothing.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from slaternet.model import Array
from slaternet.numerics.randomness import stream

Horizons = NDArray[np.int64]

_RESAMPLES = 2000
_STEEPEST = 3.0
"""No value of a bounded game grows faster than T."""


@dataclass(frozen=True)
class Fit:
    """The least-squares slope of log value over log T, and its 95 % bootstrap interval over seeds."""

    exponent: float
    low: float
    high: float


def power_law(horizons: Horizons, values: Array) -> Fit | None:
    """Return the exponent of growth; None where the mean is not surely positive at every horizon."""
    draw = stream(0, "bootstrap").integers(len(values), size=(_RESAMPLES, len(values)))
    mean, means = values.mean(axis=0), values[draw].mean(axis=1)
    certain = means.min(axis=1) > 0.0
    if not mean.min() > 0.0 or certain.mean() < 0.95:
        return None
    low, high = np.quantile(_slopes(horizons, means[certain]), [0.025, 0.975])
    return Fit(float(_slopes(horizons, mean[None])[0]), float(low), float(high))


def local_exponent(horizons: Horizons, values: Array) -> float:
    """Return the exponent between the last two horizons; NaN where a mean there is not positive."""
    before, last = values.mean(axis=0)[-2:]
    if not min(before, last) > 0.0:
        return math.nan
    return math.log(last / before) / math.log(horizons[-1] / horizons[-2])


def is_logarithmic(horizons: Horizons, values: Array) -> bool:
    """Return whether a ln T + b leaves a smaller residual than a T^b, each with its best two numbers."""
    mean = values.mean(axis=0)
    design = np.stack([np.log(horizons), np.ones(len(horizons))], axis=1)
    coefficients = np.linalg.lstsq(design, mean, rcond=None)[0]
    return float(np.sum((design @ coefficients - mean) ** 2)) < _power_residual(horizons, mean)


def late_share(horizons: Horizons, values: Array) -> float:
    """Return the part of the value at the last horizon that accrued after half of its rounds; 0 where it is 0.

    The horizon before the last must be half of it.
    """
    if horizons[-1] != 2 * horizons[-2]:
        raise ValueError("the last two horizons must be T/2 and T")
    half, whole = values.mean(axis=0)[-2:]
    return float((whole - half) / whole) if whole > 0.0 else 0.0


def _slopes(horizons: Horizons, means: Array) -> Array:
    """Return the least-squares slope of each row of logarithms over log T."""
    away = np.log(horizons) - np.log(horizons).mean()
    slopes: Array = np.log(means) @ away / (away @ away)
    return slopes


def _power_residual(horizons: Horizons, mean: Array) -> float:
    def residual(exponent: float) -> float:
        shape = (horizons / horizons[-1]) ** exponent
        scale = (shape @ mean) / (shape @ shape)
        return float(np.sum((scale * shape - mean) ** 2))

    return float(
        minimize_scalar(residual, bounds=(-_STEEPEST, _STEEPEST), method="bounded", options={"xatol": 1e-9}).fun
    )
