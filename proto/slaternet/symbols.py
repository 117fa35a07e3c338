"""What rows in a gossip code are made of, on the wire and for the code."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Layout:
    """What a row is made of, the same for every row of a game: so a frame's length follows from its head."""

    code: str  # its name in the spec
    scales: int = 0  # float32 per row
    numbers: int = 0  # whole numbers per row
    bits: int = 0  # of each of them; 0: as many as the largest of a frame needs, which the frame states


@dataclass(frozen=True, slots=True)
class Symbols:
    """Rows in a code."""

    scales: NDArray[np.float32]  # (k, a)
    numbers: NDArray[np.uint64]  # (k, b)
