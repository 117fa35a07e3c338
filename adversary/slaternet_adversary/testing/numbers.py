"""The numbers and arrays that the author's code returns: what becomes of them on the way to float64."""

from dataclasses import dataclass

import numpy as np

REAL = "biuf"
"""Kinds of dtypes that a game takes: others are no real numbers."""
_DOUBLE = np.finfo(np.float64)
_ROUNDINGS = 100.0
"""Errors of one rounding that a value may have gathered."""


@dataclass
class Numbers:
    """What was returned, by the first method of each kind."""

    coarse: str = ""
    """Numbers with fewer bits than float64."""
    where: str = ""
    """File and line of the method that has returned them."""
    converted: str = ""
    """Numbers that become float64 at every call."""
    strided: str = ""
    """Arrays that become contiguous at every call."""
    epsilon: float = float(_DOUBLE.eps)
    """The largest relative error of one rounding."""

    def note(self, what: str, where: str, value: object, array: np.ndarray) -> None:
        """Note `what` was returned by the method at `where`, as it is and as an array."""
        dtype = array.dtype
        if dtype.kind == "f" and dtype.itemsize < 8:
            self.coarse, self.where = self.coarse or f"{what} is an array of {dtype.name}", self.where or where
            self.epsilon = max(self.epsilon, float(np.finfo(dtype).eps))
        elif not isinstance(value, np.ndarray | np.floating | float):
            self.converted = self.converted or f"{what} is a {type(value).__name__}"
        elif dtype != np.float64 or not dtype.isnative:
            order = "" if dtype.isnative else "big-endian " if dtype.byteorder == ">" else "little-endian "
            self.converted = self.converted or f"{what} is an array of {order}{dtype.name}"
        if not array.flags.c_contiguous:
            self.strided = self.strided or what

    @property
    def rounding(self) -> float:
        """By how much values may differ by rounding, relative to their size."""
        return _ROUNDINGS * self.epsilon
