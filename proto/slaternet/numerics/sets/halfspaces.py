"""Compact polyhedra, given by the halfspaces whose intersection they are."""

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.model import Array
from slaternet.numerics.sets.base import BaseSet, Vector, length, vector
from slaternet.numerics.sets.programs import Unbounded, extent, largest_ball
from slaternet.numerics.sets.quadratic import onto_halfspaces, times

_TINIEST = float(np.finfo(np.float64).tiny)
"""Below it numbers lose their digits: what is shrunk so far is its centre."""
_NUMBERS = 4096
"""Most numbers in `normals`: finding R(X) takes 2p linear programs, about a second at this size."""


Rows = Annotated[list[list[float]], Field(min_length=1), "a list of rows with one number for each coordinate"]


class Halfspaces(BaseSet):
    """{x : normals x <= bounds}; normals are m rows of p numbers, bounds m numbers or one.

    The centre is 0 or else the centre of a largest ball inside. r(X) is exact; R(X) is the distance of the farthest
    corner of the smallest box around X, which no point of X exceeds.
    """

    def __init__(self, dimension: int, normals: Rows, bounds: Vector, *, key: str = "set") -> None:
        self.dimension = dimension
        for place, row in enumerate(normals):
            if len(row) != dimension:
                raise BadSpec(
                    f"{key}.normals[{place}] has {len(row)} numbers; give one for each of the {dimension} coordinates"
                )
        rows = np.array(normals, dtype=np.float64)
        if rows.size > _NUMBERS:
            raise BadSpec(
                f"{key}.normals has {rows.size} numbers, and {_NUMBERS} can be worked with; "
                "write what is a box, ball or simplex as parts of a product"
            )
        limits = vector(f"{key}.bounds", bounds, len(rows), per="rows of normals")
        lengths = length(rows)
        flat = np.flatnonzero(~((lengths > 0.0) & np.isfinite(lengths)))
        if flat.size:
            raise BadSpec(f"{key}.normals[{flat[0]}] has length {lengths[flat[0]]:g}; leave the row out or rescale it")
        self.normals, self.bounds = rows / lengths[:, None], limits / lengths  # rows of length 1
        self._find(key)
        self._slack = self.bounds - times(self.normals, self.centre)

    def _find(self, key: str) -> None:
        found, radius = largest_ball(self.normals, self.bounds)
        if not radius > 0.0:
            raise BadSpec(f"{key}.normals and {key}.bounds leave no interior; raise {key}.bounds until a ball fits in")
        try:
            self._low, self._high = extent(self.normals, self.bounds)
        except Unbounded as error:
            raise BadSpec(
                f"{key}.normals let coordinate {error.coordinate} {'rise' if error.upwards else 'fall'} without end; "
                "add a row that bounds it"
            ) from error
        self._choose_centre(key, lambda: found)

    def radii(self, point: Array) -> tuple[float, float]:
        """Return the distances of the nearest side, and of the farthest corner of the smallest box around X."""
        farthest = np.maximum(point - self._low, self._high - point)
        inner = float(np.min(self.bounds - times(self.normals, point)))
        return inner, math.sqrt(float(np.sum(farthest * farthest)))

    def project(self, v: Array, scale: float = 1.0) -> Array:
        """Return the nearest points of c + scale (X - c) = c + {y : normals y <= scale (bounds - normals c)}."""
        rows = np.subtract(v, self.centre, order="C").reshape(-1, self.dimension)
        if scale * self.inner < _TINIEST:
            rows = np.zeros_like(rows)
        else:
            rows = onto_halfspaces(rows, self.normals, scale * self._slack, scale * self.outer)
        nearest: Array = rows.reshape(v.shape)
        nearest += self.centre
        nearest += 0.0  # turns -0.0 into 0.0
        return nearest

    def contains(self, points: Array, tolerance: float = LIMITS.tolerance) -> NDArray[np.bool_]:
        """Say for each of points (..., p) whether it lies in X up to tolerance * R(X); never for NaN."""
        with np.errstate(over="ignore", invalid="ignore"):
            inside = times(self.normals, points) <= self.bounds + tolerance * self.outer
        return np.asarray(np.logical_and.reduce(inside, axis=-1))
