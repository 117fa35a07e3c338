"""Rows that cannot be right: an algorithm may declare that they are points of a shrunken set."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from slaternet.model import Array
from slaternet.numerics.sets import FeasibleSet
from slaternet_agent.algorithms.base import Algorithm

_SMALLEST_SCALE = 1e-6


def row_scale_of(algorithm: Algorithm) -> Callable[[int], float | None]:
    """Return `row_scale` of an algorithm, which a user's class may lack."""
    scale: Callable[[int], float | None] = getattr(algorithm, "row_scale", lambda t: None)
    return scale


class RowCheck:
    """Tells rows that are not points of row_scale(t) X; without a set it tells none."""

    def __init__(self, algorithm: Algorithm, feasible: FeasibleSet | None, tolerance: float) -> None:
        self._set = feasible
        self._off_zero = feasible is not None and bool(feasible.centre.any())
        self._row_scale = row_scale_of(algorithm)
        self._tolerance = tolerance

    def outside(self, round: int, rows: Array) -> NDArray[np.bool_] | None:
        """Return which rows are not points of the shrunken set that they must lie in; None where none is, or may be."""
        if self._set is None or (scale := self._row_scale(round)) is None:
            return None
        points, tolerance = rows, self._tolerance
        if _SMALLEST_SCALE < scale < 1.0:  # below it, rounding is all that is left; X itself bounds the harm
            tolerance /= scale
            points = self._set.centre + (rows - self._set.centre) / scale if self._off_zero else rows / scale
        return None if self._set.encloses(points, tolerance) else ~self._set.contains(points, tolerance)

    def give_up(self) -> None:
        """Tell none from here on: the algorithm's rows are not what it declares."""
        self._set = None
