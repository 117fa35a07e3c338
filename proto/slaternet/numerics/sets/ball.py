"""Euclidean balls."""

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveFloat

from slaternet.limits import LIMITS
from slaternet.model import Array
from slaternet.numerics.sets.base import BaseSet, length


class Ball(BaseSet):
    """{x : |x| <= radius}."""

    def __init__(self, dimension: int, radius: PositiveFloat, *, key: str = "set") -> None:
        self.dimension = dimension
        self.radius = radius
        self._choose_centre(key, lambda: np.zeros(dimension))

    def radii(self, point: Array) -> tuple[float, float]:
        """Return the distances of the nearest and of the farthest point of the sphere."""
        distance = float(length(point))
        return self.radius - distance, self.radius + distance

    def project(self, v: Array, scale: float = 1.0) -> Array:
        """Return the nearest points of scale * X, along the ray from 0."""
        limit = scale * self.radius
        if limit == 0.0:
            return np.zeros_like(v)
        shrink = limit / np.maximum(length(v), limit)  # exactly 1 inside
        nearest: Array = v * shrink[..., None]
        nearest += 0.0  # turns -0.0 into 0.0
        return nearest

    def contains(self, points: Array, tolerance: float = LIMITS.tolerance) -> NDArray[np.bool_]:
        """Say for each of points (..., p) whether it lies in X up to tolerance * R(X); never for NaN."""
        return np.asarray(length(points) <= self.radius + tolerance * self.outer)
