"""Feasible sets X: projections onto shrunken copies of X, radii, membership.

    r(X)   inner    radius of a ball about the centre inside X
    R(X)   outer    radius of a ball about the centre around X
    sX     scale    the copy of X shrunk about the centre by the factor s

Exact to the bit under any batching: elementwise arithmetic, `sqrt`, and sums over the last axis of C-contiguous arrays.
"""

import math
from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.model import Array
from slaternet.words import suggestion


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
        """The point about which the set is shrunk, (p,)."""

    def project(self, v: Array, scale: float = 1.0) -> Array:
        """Return the nearest points of scale * X, a new array; v (..., p), 0 <= scale <= 1.

        A zero in the result is never negative: which of two zeros a maximum returns varies with the CPU.
        """

    def contains(self, points: Array, tolerance: float = LIMITS.tolerance) -> NDArray[np.bool_]:
        """Say for each of points (..., p) whether it lies in X up to tolerance * R(X); never for NaN."""

    def encloses(self, points: Array, tolerance: float = LIMITS.tolerance) -> bool:
        """Say whether all of points (..., p) lie in X up to tolerance * R(X); asked about every question."""


class Box:
    """{x : lower <= x <= upper} with 0 in its interior, the centre; bounds are numbers or lists of p numbers."""

    numbers: ClassVar[tuple[str, ...]] = ("lower", "upper")

    def __init__(self, dimension: int, lower: object, upper: object) -> None:
        self.dimension = dimension
        self.lower = _vector("set.lower", lower, dimension)
        self.upper = _vector("set.upper", upper, dimension)
        if not np.all(self.lower < 0.0):
            raise BadSpec(
                "set.lower must be below 0 in every coordinate; shift the problem so that 0 is inside the set"
            )
        if not np.all(self.upper > 0.0):
            raise BadSpec(
                "set.upper must be above 0 in every coordinate; shift the problem so that 0 is inside the set"
            )
        farthest = np.maximum(-self.lower, self.upper)
        self.inner = float(np.min(np.minimum(-self.lower, self.upper)))
        self.outer = math.sqrt(float(np.sum(farthest * farthest)))
        self.centre = np.zeros(dimension)
        self._low, self._high = _compact(self.lower), _compact(self.upper)

    def project(self, v: Array, scale: float = 1.0) -> Array:
        """Return the nearest points of scale * X, coordinate by coordinate."""
        nearest: Array = np.minimum(np.maximum(v, scale * self._low), scale * self._high)
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


class Ball:
    """{x : |x| <= radius}."""

    numbers: ClassVar[tuple[str, ...]] = ("radius",)

    def __init__(self, dimension: int, radius: object) -> None:
        self.dimension = dimension
        self.radius = _number("set.radius", radius)
        if not self.radius > 0.0:
            raise BadSpec(f"set.radius must be above 0, not {self.radius:g}")
        self.inner = self.outer = self.radius
        self.centre = np.zeros(dimension)

    def project(self, v: Array, scale: float = 1.0) -> Array:
        """Return the nearest points of scale * X, along the ray from 0."""
        limit = scale * self.radius
        if limit == 0.0:
            return np.zeros_like(v)
        shrink = limit / np.maximum(_norm(v), limit)  # exactly 1 inside
        nearest: Array = v * shrink[..., None]
        nearest += 0.0  # turns -0.0 into 0.0
        return nearest

    def contains(self, points: Array, tolerance: float = LIMITS.tolerance) -> NDArray[np.bool_]:
        """Say for each of points (..., p) whether it lies in X up to tolerance * R(X); never for NaN."""
        return np.asarray(_norm(points) <= self.radius + tolerance * self.outer)

    def encloses(self, points: Array, tolerance: float = LIMITS.tolerance) -> bool:
        """Say whether all of points (..., p) lie in X up to tolerance * R(X)."""
        return bool(self.contains(points, tolerance).all())


_KINDS: dict[str, type[Box] | type[Ball]] = {"box": Box, "ball": Ball}


def make_set(kind: str, dimension: int, numbers: Mapping[str, object]) -> FeasibleSet:
    """Return the set that `[set]` of a spec describes; BadSpec names the key at fault."""
    if kind not in _KINDS:
        raise BadSpec(f'set.kind = "{kind}" is not known; {suggestion(kind, _KINDS)}')
    factory = _KINDS[kind]
    for name in numbers:
        if name not in factory.numbers:
            raise BadSpec(f'set.{name} is not a number of kind "{kind}"; {suggestion(name, factory.numbers)}')
    for name in factory.numbers:
        if name not in numbers:
            raise BadSpec(
                f'set.{name} is missing; add it to [set], kind "{kind}" needs {" and ".join(factory.numbers)}'
            )
    return factory(dimension, **numbers)


def _norm(v: Array) -> Array:
    norm: Array = np.sqrt(np.add.reduce(np.multiply(v, v, order="C"), axis=-1))
    return norm


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadSpec(f"{key} must be a finite number, not {value!r}")
    return float(value)


def _vector(key: str, value: object, dimension: int) -> Array:
    """Return a bound as (p,); a single number stands for p equal ones."""
    if not isinstance(value, list | tuple):
        return np.full(dimension, _number(key, value))
    if len(value) != dimension:
        raise BadSpec(
            f"{key} has {len(value)} numbers; give one for each of the {dimension} coordinates, or a single one"
        )
    return np.array([_number(key, each) for each in value])


def _compact(bound: Array) -> Array | float:
    """Return p equal numbers as one: the same bits, three times faster on many short rows."""
    first = float(bound[0])
    return first if np.all(bound == first) else bound
