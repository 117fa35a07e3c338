"""Rows as they are: C(v) = v.

    numbers   (k, w)   the 64 bits of each coordinate

64 w bits per row. It is for games with a trigger: the rows that have changed travel in it. Without a trigger nothing is
coded at all.
"""

import numpy as np

from slaternet.errors import Malformed
from slaternet.model import Agents, Array, Layout, Symbols
from slaternet_agent.algorithms.game import AlgorithmGame
from slaternet_agent.codes.base import Code


class Exact(Code):
    """float64 as it is."""

    difference = False

    def __init__(self, game: AlgorithmGame, width: int) -> None:
        super().__init__(game, width)
        self.layout = Layout(numbers=width, bits=64)

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        """Return the bits of the vectors."""
        del agents, t
        if not np.isfinite(vectors).all():
            raise ValueError("a row is not finite")
        return Symbols.of_numbers(vectors.astype(np.float64, "C").view(np.uint64))

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        """Return the vectors."""
        del agents, t
        vectors: Array = symbols.numbers.view(np.float64)
        if not np.isfinite(vectors).all():
            raise Malformed("numbers must be finite")
        return vectors

    def contraction(self) -> float:
        """C(v) - v = 0."""
        return 1.0

    def error(self, t: int) -> float:
        """C(v) - v = 0."""
        del t
        return 0.0
