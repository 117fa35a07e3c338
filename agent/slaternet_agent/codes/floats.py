"""Floats of fewer bits: C(v) is v rounded to the nearest float32 or float16.

    numbers   (k, w)   the 32 or 16 bits of each coordinate

Source: IEEE 754-2008, binary32 and binary16. With u = 2^-24 or 2^-11 and the smallest positive float s,

    |C(v)_j - v_j| <= max(u |v_j|, s / 2)

32 w or 16 w bits per row. Rows may be coded or differences to public copies; no coordinate of the latter is above twice
the largest of X.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from slaternet.errors import BadSpec, Malformed
from slaternet.model import Agents, Array, Layout, Symbols
from slaternet_agent.algorithms.game import AlgorithmGame
from slaternet_agent.codes.base import Code


class _Rounded(Code):
    """Rounding to a kind of float."""

    kind: ClassVar[type[np.floating]]
    pattern: ClassVar[DTypeLike]

    def __init__(self, game: AlgorithmGame, width: int) -> None:
        super().__init__(game, width)
        self._limits = np.finfo(self.kind)
        # of a coordinate of a point of X, and of the difference of two
        self._farthest = 2.0 * (float(np.abs(game.set.centre).max()) + game.set.outer)
        if self._farthest > float(self._limits.max):
            name = self.kind.__name__
            raise BadSpec(
                f"gossip.code = {name} holds numbers up to {float(self._limits.max):g}, and points of the set may be "
                f"{self._farthest:g} apart; choose a wider code, or units in which the set is smaller"
            )
        self.layout = Layout(numbers=width, bits=self._limits.bits)

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        """Return the bits of the rounded vectors."""
        del agents, t
        with np.errstate(over="ignore", under="ignore"):
            rounded = vectors.astype(self.kind)
        if not np.isfinite(rounded).all():
            raise ValueError(f"a row has a coordinate beyond {self._limits.max:g}, the largest {self.kind.__name__}")
        numbers = np.ascontiguousarray(rounded).view(self.pattern).astype(np.uint64)
        return Symbols.of_numbers(numbers)

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        """Return the rounded vectors."""
        del agents, t
        rounded = symbols.numbers.astype(self.pattern).view(self.kind)
        if not np.isfinite(rounded).all():
            raise Malformed("numbers must be finite")
        vectors: Array = rounded.astype(np.float64)
        return vectors

    def error(self, t: int) -> float:
        """Half the distance of two neighbouring floats, for the largest coordinate there may be."""
        del t
        return max(0.5 * float(self._limits.eps) * self._farthest, 0.5 * float(self._limits.smallest_subnormal))


class Float32(_Rounded):
    """Half the bits of a row, to seven digits."""

    kind = np.float32
    pattern = np.uint32


class Float16(_Rounded):
    """A quarter of the bits of a row, to three digits."""

    kind = np.float16
    pattern = np.uint16
