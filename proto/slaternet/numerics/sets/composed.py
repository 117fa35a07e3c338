"""Sets made of other sets: products and shifts."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slaternet.limits import LIMITS
from slaternet.model import Array
from slaternet.numerics.sets.base import BaseSet, Vector, vector


class Product(BaseSet):
    """{(x_1, x_2, ...) : x_i in the i-th part}, coordinates in order. The centre is that of the parts."""

    def __init__(self, parts: Sequence[BaseSet], *, key: str = "set") -> None:
        self.parts = tuple(parts)
        ends = np.cumsum([part.dimension for part in self.parts]).tolist()
        self._places = [slice(end - part.dimension, end) for part, end in zip(self.parts, ends, strict=True)]
        self.dimension = int(ends[-1])
        self._choose_centre(key, lambda: np.concatenate([part.centre for part in self.parts]))

    def radii(self, point: Array) -> tuple[float, float]:
        """Return the smallest inner radius of the parts, and the outer radii put together at right angles."""
        radii = [part.radii(point[place]) for part, place in zip(self.parts, self._places, strict=True)]
        return min(inner for inner, _ in radii), math.sqrt(sum(outer * outer for _, outer in radii))

    def project(self, v: Array, scale: float = 1.0) -> Array:
        """Return the nearest points of c + scale (X - c), part by part."""
        nearest = np.empty(v.shape)
        for part, place in zip(self.parts, self._places, strict=True):
            nearest[..., place] = part.project(np.ascontiguousarray(v[..., place]), scale)
        return nearest

    def contains(self, points: Array, tolerance: float = LIMITS.tolerance) -> NDArray[np.bool_]:
        """Say for each of points (..., p) whether it lies in X up to tolerance * R(X); never for NaN."""
        slack = tolerance * self.outer
        inside = np.ones(points.shape[:-1], dtype=np.bool_)
        for part, place in zip(self.parts, self._places, strict=True):
            inside &= part.contains(np.ascontiguousarray(points[..., place]), slack / part.outer)
        return inside


class Shifted(BaseSet):
    """{x + by : x in of}; by is a number or a list of p numbers. The centre is 0 or else moves with the set."""

    def __init__(self, of: BaseSet, by: Vector, *, key: str = "set") -> None:
        self.of = of
        self.dimension = of.dimension
        self.by = vector(f"{key}.by", by, of.dimension)
        self._choose_centre(key, lambda: of.centre + self.by)
        self._about_zero = not self.centre.any()

    def radii(self, point: Array) -> tuple[float, float]:
        """Return the radii of the set that is shifted, about the point shifted back."""
        return self.of.radii(point - self.by)

    def project(self, v: Array, scale: float = 1.0) -> Array:
        """Return the nearest points of c + scale (X - c): what the inner set shrinks about its own centre c', shifted.

        c + s (of + by - c) = [s by + (1 - s) (c - c')] + [c' + s (of - c')], where c is 0 or c' + by
        """
        shift = scale * self.by - (1.0 - scale) * self.of.centre if self._about_zero else self.by
        nearest = self.of.project(np.subtract(v, shift, order="C"), scale)
        nearest += shift
        nearest += 0.0  # turns -0.0 into 0.0
        return nearest

    def contains(self, points: Array, tolerance: float = LIMITS.tolerance) -> NDArray[np.bool_]:
        """Say for each of points (..., p) whether it lies in X up to tolerance * R(X); never for NaN."""
        return self.of.contains(np.subtract(points, self.by, order="C"), tolerance * self.outer / self.of.outer)
