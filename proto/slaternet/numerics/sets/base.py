"""The interface of a feasible set, and the base class of all kinds of sets."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.model import Array

_FLATTEST = LIMITS.tolerance
"""Smallest r(X) / R(X): below it rounding and membership cannot tell inside from outside."""
_FARTHEST = 1e6
"""Largest |c| / R(X): beyond it a unit in the last place of a coordinate nears the tolerance."""
_SMALLEST, _LARGEST = 1e-100, 1e100
"""Bounds of R(X) between which squares neither vanish nor overflow."""


Vector = float | list[float]
"""One number for each coordinate, or a single one for all."""


class FeasibleSet(Protocol):
    """A compact convex set with a ball about its centre inside it (Assumption 1)."""

    @property
    def dimension(self) -> int:
        """The number p of coordinates."""

    @property
    def inner(self) -> float:
        """r(X) > 0."""

    @property
    def outer(self) -> float:
        """R(X)."""

    @property
    def centre(self) -> Array:
        """The point c about which the set is shrunk, (p,); 0 where 0 is inside the set."""

    def project(self, v: Array, scale: float = 1.0) -> Array:
        """Return the nearest points of c + scale (X - c), a new array; v (..., p), 0 <= scale <= 1.

        A zero in the result is never negative: which of two zeros a maximum returns varies with the CPU.
        """

    def contains(self, points: Array, tolerance: float = LIMITS.tolerance) -> NDArray[np.bool_]:
        """Say for each of points (..., p) whether it lies in X up to tolerance * R(X); never for NaN."""

    def encloses(self, points: Array, tolerance: float = LIMITS.tolerance) -> bool:
        """Say whether all of points (..., p) lie in X up to tolerance * R(X); asked about every question."""


class BaseSet(ABC):
    """A feasible set that computes its radii about any of its points; its centre is chosen by them."""

    dimension: int
    centre: Array
    inner: float
    outer: float

    @abstractmethod
    def radii(self, point: Array) -> tuple[float, float]:
        """Return the radii of balls about a point (p,): inside X, 0 or less where the point is not, and around X."""

    @abstractmethod
    def project(self, v: Array, scale: float = 1.0) -> Array:
        """Return the nearest points of c + scale (X - c), as `FeasibleSet` promises it."""

    @abstractmethod
    def contains(self, points: Array, tolerance: float = LIMITS.tolerance) -> NDArray[np.bool_]:
        """Say for each of points (..., p) whether no facet is overstepped by more than tolerance * R(X)."""

    def encloses(self, points: Array, tolerance: float = LIMITS.tolerance) -> bool:
        """Say whether all of points (..., p) lie in X up to tolerance * R(X)."""
        return bool(self.contains(points, tolerance).all())

    def _choose_centre(self, key: str, other: Callable[[], Array]) -> None:
        """Take 0 as the centre where it is inside by more than rounding, else `other()`; BadSpec if X is unfit."""
        self.centre = np.zeros(self.dimension)
        with np.errstate(over="ignore"):
            self.inner, self.outer = self.radii(self.centre)
            if not self.inner > _FLATTEST * self.outer:
                self.centre = other() + 0.0
                self.inner, self.outer = self.radii(self.centre)
            distance = float(length(self.centre))
        if not _SMALLEST < self.outer < _LARGEST:
            raise BadSpec(
                f"{key} has R(X) = {self.outer:g}; choose units in which it lies between {_SMALLEST:g} and {_LARGEST:g}"
            )
        if not self.inner > _FLATTEST * self.outer:
            raise BadSpec(
                f"{key} has no interior to speak of, r(X) = {self.inner:g} and R(X) = {self.outer:g}; "
                f"widen it until r(X) is above {_FLATTEST:g} R(X)"
            )
        if not distance < _FARTHEST * self.outer:
            raise BadSpec(
                f"{key} lies {distance:g} away from 0, too far for float64 to resolve its radius {self.outer:g}; "
                "shift the problem so that the set is near 0"
            )


def vector(key: str, value: Vector, count: int, per: str = "coordinates") -> Array:
    """Return one number for each of `count` things as (count,); a single number stands for equal ones."""
    numbers = np.array(value, dtype=np.float64)
    if numbers.ndim and len(numbers) != count:
        raise BadSpec(f"{key} has {len(numbers)} numbers; give one for each of the {count} {per}, or a single one")
    return np.full(count, numbers)


def length(v: Array) -> Array:
    """Return the Euclidean lengths (...,) of the rows of v (..., p)."""
    lengths: Array = np.sqrt(np.add.reduce(np.multiply(v, v, order="C"), axis=-1))
    return lengths
