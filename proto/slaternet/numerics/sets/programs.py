"""The linear programs behind a polyhedron: its largest ball and the smallest box around it.

They are solved once, when a set is made, by HiGHS (in scipy). The state path begins at the centre, so its bits must be
the same everywhere: HiGHS is one thread of compiled code without BLAS, scipy's version is part of the numerics
fingerprint, and the results are rounded to 12 digits of the largest number, which also turns 0.9999999999999998 into 1.
"""

import numpy as np

from slaternet.model import Array

_DIGITS = 12
_STRICT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Unbounded(Exception):
    """A coordinate that can grow for ever inside the polyhedron."""

    def __init__(self, coordinate: int, *, upwards: bool) -> None:
        super().__init__(f"coordinate {coordinate} is unbounded")
        self.coordinate = coordinate
        self.upwards = upwards


def largest_ball(normals: Array, bounds: Array) -> tuple[Array, float]:
    """Return centre and radius of a largest ball in {x : normals x <= bounds}, rows of length 1; no ball: radius <= 0.

    The radius is capped, so that a solution exists whatever the polyhedron. In a bounded one no ball is larger than the
    largest bound: the centre of a larger one would have a negative product with every normal, and its ray no end.
    """
    unit = float(np.max(np.abs(bounds))) or 1.0  # the programs' tolerances are absolute
    radius = np.append(np.zeros(normals.shape[1]), 1.0)
    ball = _farthest(radius, np.column_stack([normals, np.ones(len(normals))]), bounds / unit, highest=2.0)
    if ball is None:
        return np.zeros(normals.shape[1]), 0.0
    centre = _rounded(unit * ball[:-1])
    return centre, float(np.min(bounds - np.add.reduce(normals * centre, axis=-1)))


def extent(normals: Array, bounds: Array) -> tuple[Array, Array]:
    """Return lower and upper ends (p,) of the smallest box around a polyhedron that is not empty; raises Unbounded."""
    unit = float(np.max(np.abs(bounds))) or 1.0
    ends = np.empty((2, normals.shape[1]))
    for coordinate, axis in enumerate(np.eye(normals.shape[1])):
        for side, sign in enumerate((-1.0, 1.0)):
            corner = _farthest(sign * axis, normals, bounds / unit)
            if corner is None:
                raise Unbounded(coordinate, upwards=sign > 0.0)
            ends[side, coordinate] = unit * corner[coordinate]
    low, high = _rounded(ends)
    return low, high


def _farthest(direction: Array, normals: Array, bounds: Array, highest: float | None = None) -> Array | None:
    """Return the point farthest along a direction, None where there is none; `highest` caps the last coordinate."""
    from scipy.optimize import linprog  # here, because it takes longer to load than most games to start

    ranges = [(None, None)] * (len(direction) - 1) + [(None, highest)]
    answer = linprog(-direction, A_ub=normals, b_ub=bounds, bounds=ranges, method="highs", options=_STRICT)
    return np.asarray(answer.x) if answer.status == 0 else None


def _rounded(values: Array) -> Array:
    """Return the values rounded to so many decimals that the largest keeps 12 digits."""
    exponent = int(f"{float(np.max(np.abs(values))):e}".partition("e")[2])
    flat = [round(value, _DIGITS - 1 - exponent) for value in values.ravel().tolist()]
    return np.array(flat).reshape(values.shape)
