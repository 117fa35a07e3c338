"""Boxes."""

import math

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.model import Array
from slaternet.numerics.sets.base import BaseSet, Vector, vector


class Box(BaseSet):
    """{x : lower <= x <= upper}; bounds are numbers or lists of p numbers. The centre is 0 or else the midpoint."""

    def __init__(self, dimension: int, lower: Vector, upper: Vector, *, key: str = "set") -> None:
        self.dimension = dimension
        self.lower = vector(f"{key}.lower", lower, dimension)
        self.upper = vector(f"{key}.upper", upper, dimension)
        for coordinate in np.flatnonzero(self.lower >= self.upper):
            raise BadSpec(
                f"{key}.lower must be below {key}.upper = {self.upper[coordinate]:g} in coordinate {coordinate}; "
                "move them apart, so that the set has an interior"
            )
        self._choose_centre(key, lambda: 0.5 * self.lower + 0.5 * self.upper)
        self._low, self._high, self._mid = _compact(self.lower), _compact(self.upper), _compact(self.centre)
        self._about_zero = not self.centre.any()

    def radii(self, point: Array) -> tuple[float, float]:
        """Return the distances of the nearest side and of the farthest corner."""
        below, above = point - self.lower, self.upper - point
        farthest = np.maximum(below, above)
        return float(np.min(np.minimum(below, above))), math.sqrt(float(np.sum(farthest * farthest)))

    def project(self, v: Array, scale: float = 1.0) -> Array:
        """Return the nearest points of c + scale (X - c), coordinate by coordinate."""
        low, high = scale * self._low, scale * self._high
        if not self._about_zero:
            rest = (1.0 - scale) * self._mid
            low, high = rest + low, rest + high
        nearest: Array = np.minimum(np.maximum(v, low), high)
        nearest += 0.0  # turns -0.0 into 0.0
        return nearest

    def contains(self, points: Array, tolerance: float = LIMITS.tolerance) -> NDArray[np.bool_]:
        """Say for each of points (..., p) whether it lies in X up to tolerance * R(X); never for NaN."""
        slack = tolerance * self.outer
        inside = (points >= self._low - slack) & (points <= self._high + slack)
        return np.asarray(np.logical_and.reduce(inside, axis=-1))

    def encloses(self, points: Array, tolerance: float = LIMITS.tolerance) -> bool:
        """Say whether all of points (..., p) lie in X up to tolerance * R(X)."""
        slack = tolerance * self.outer
        inside = (points >= self._low - slack) & (points <= self._high + slack)
        return int(np.count_nonzero(inside)) == inside.size


def _compact(bound: Array) -> Array | float:
    """Return p equal numbers as one: the same bits, three times faster on many short rows."""
    first = float(bound[0])
    return first if np.all(bound == first) else bound
