"""What rows in a gossip code are made of, on the wire and for the code."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Layout:
    """What a row is made of, the same for every row of a game: so a frame's length follows from its head."""

    code: str = ""  # its name in the spec, filled in for the code
    scales: int = 0  # float32 per row
    numbers: int = 0  # whole numbers per row
    bits: int = 0  # of each of them; 0: as many as the largest of a frame needs, which the frame states


@dataclass(frozen=True, slots=True)
class Symbols:
    """Rows in a code."""

    scales: NDArray[np.float32]  # (k, a)
    numbers: NDArray[np.uint64]  # (k, b)

    @classmethod
    def of_scales(cls, scales: NDArray[np.float32]) -> Self:
        """Return rows without numbers."""
        return cls(scales, np.empty((len(scales), 0), np.uint64))

    @classmethod
    def of_numbers(cls, numbers: NDArray[np.uint64]) -> Self:
        """Return rows without scales."""
        return cls(np.empty((len(numbers), 0), np.float32), numbers)
