"""The solid simplex and the l1 ball, both projected on by sorting."""

import math

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveFloat

from slaternet.limits import LIMITS
from slaternet.model import Array
from slaternet.numerics.sets.base import BaseSet


class Simplex(BaseSet):
    """{x : x >= 0, sum x <= size}. The centre is the incentre size / (p + sqrt p) (1, ..., 1)."""

    def __init__(self, dimension: int, size: PositiveFloat, *, key: str = "set") -> None:
        self.dimension = dimension
        self.size = size
        self._mid = self.size / (dimension + math.sqrt(dimension))  # as far from every x_i = 0 as from sum x = size
        self._choose_centre(key, lambda: np.full(dimension, self._mid))

    def radii(self, point: Array) -> tuple[float, float]:
        """Return the distances of the nearest facet and of the farthest of the vertices 0 and size e_i."""
        slant = (self.size - float(np.sum(point))) / math.sqrt(self.dimension)
        square = float(np.sum(point * point))
        # |size e_i - point|^2, largest where point_i is smallest
        vertex = square + self.size * (self.size - 2.0 * float(np.min(point)))
        return min(float(np.min(point)), slant), math.sqrt(max(square, vertex))

    def project(self, v: Array, scale: float = 1.0) -> Array:
        """Return the nearest points of c + scale (X - c) = (1 - scale) c + {x >= 0, sum x <= scale size}."""
        corner = (1.0 - scale) * self._mid
        nearest = _onto_simplex(np.subtract(v, corner, order="C"), scale * self.size)
        nearest += corner
        return nearest

    def contains(self, points: Array, tolerance: float = LIMITS.tolerance) -> NDArray[np.bool_]:
        """Say for each of points (..., p) whether it lies in X up to tolerance * R(X); never for NaN."""
        slack = tolerance * self.outer
        with np.errstate(over="ignore", invalid="ignore"):
            total = np.add.reduce(np.ascontiguousarray(points), axis=-1)
        steep = np.logical_and.reduce(points >= -slack, axis=-1)
        return np.asarray(steep & (total <= self.size + slack * math.sqrt(self.dimension)))


class L1Ball(BaseSet):
    """{x : |x_1| + ... + |x_p| <= radius}."""

    def __init__(self, dimension: int, radius: PositiveFloat, *, key: str = "set") -> None:
        self.dimension = dimension
        self.radius = radius
        self._choose_centre(key, lambda: np.zeros(dimension))

    def radii(self, point: Array) -> tuple[float, float]:
        """Return the distances of the nearest facet and of the farthest of the vertices +- radius e_i."""
        inner = (self.radius - float(np.sum(np.abs(point)))) / math.sqrt(self.dimension)
        # |radius e_i + point|^2, largest where |point_i| is largest
        vertex = float(np.sum(point * point)) + self.radius * (self.radius + 2.0 * float(np.max(np.abs(point))))
        return inner, math.sqrt(vertex)

    def project(self, v: Array, scale: float = 1.0) -> Array:
        """Return the nearest points of scale * X: the sizes go onto the simplex and keep their signs."""
        nearest: Array = np.copysign(_onto_simplex(np.abs(v, order="C"), scale * self.radius), v)
        nearest += 0.0  # turns -0.0 into 0.0
        return nearest

    def contains(self, points: Array, tolerance: float = LIMITS.tolerance) -> NDArray[np.bool_]:
        """Say for each of points (..., p) whether it lies in X up to tolerance * R(X); never for NaN."""
        with np.errstate(over="ignore"):
            total = np.add.reduce(np.abs(points, order="C"), axis=-1)
        return np.asarray(total <= self.radius + tolerance * self.outer * math.sqrt(self.dimension))


def _onto_simplex(w: Array, size: float) -> Array:
    """Return the nearest points of {x >= 0, sum x <= size}; w C-contiguous, no negative zeros in the result."""
    nearest: Array = np.maximum(w, 0.0)
    over = np.add.reduce(nearest, axis=-1) > size
    if over.any():
        nearest[over] = _onto_face(w[over], size)
    nearest += 0.0  # turns -0.0 into 0.0
    return nearest


def _onto_face(w: Array, size: float) -> Array:
    """Return the nearest points of {x >= 0, sum x = size}: max(w - theta, 0) with the theta that makes the sum right.

    theta is the largest of (w_(1) + ... + w_(j) - size) / j over j, w_(1) >= w_(2) >= ... being the sorted row. Moving
    a row along (1, ..., 1) does not change its nearest point, so each row is moved to maximum 0 first: theta then lies
    in [-size, 0], and a row of any size loses no more digits than its differences have.
    """
    moved = w - np.maximum.reduce(w, axis=-1, keepdims=True)
    falling = np.sort(moved, axis=-1)[..., ::-1]
    sums = np.add.accumulate(falling, axis=-1)
    theta = np.maximum.reduce((sums - size) / np.arange(1.0, w.shape[-1] + 1.0), axis=-1, keepdims=True)
    nearest: Array = np.maximum(moved - theta, 0.0)
    return nearest
