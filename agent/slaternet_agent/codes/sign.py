"""Signs and one length: C(v) = (|v|_1 / w) sign(v), where sign(0) = 1.

    scales    (k, 1)   |v|_1 / w, as float32
    numbers   (k, w)   1 where v_j < 0, of 1 bit

    |C(v) - v|^2 = |v|^2 - |v|_1^2 / w <= (1 - 1/w) |v|^2

up to the rounding of float32. Source: S. P. Karimireddy, Q. Rebjock, S. U. Stich, M. Jaggi, "Error feedback fixes
SignSGD and other gradient compression schemes", ICML 2019.

32 + w bits per row. For differences alone: what is lost stays in the next difference.
"""

import numpy as np

from slaternet.errors import Malformed
from slaternet.model import Agents, Array, Layout, Symbols
from slaternet_agent.algorithms.game import AlgorithmGame
from slaternet_agent.codes.base import Code
from slaternet_agent.codes.selection import shortened


class Sign(Code):
    """A bit for each coordinate, and their mean size."""

    difference = True

    def __init__(self, game: AlgorithmGame, width: int) -> None:
        super().__init__(game, width)
        self.layout = Layout(scales=1, numbers=width, bits=1)

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        """Return the mean sizes and the signs."""
        del agents, t
        with np.errstate(over="ignore"):
            size = np.sum(np.abs(vectors, order="C"), axis=-1, keepdims=True)
        size /= self.width
        return Symbols(shortened(size), (vectors < 0.0).astype(np.uint64))

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        """Return the mean size with each sign."""
        del agents, t
        if (symbols.scales < 0.0).any():
            raise Malformed("a mean size must not be negative")
        size = symbols.scales.astype(np.float64)
        return np.where(symbols.numbers, 0.0 - size, size)

    def contraction(self) -> float:
        """1/w: |v|_1 >= |v|."""
        return 1.0 / self.width
