"""The k largest coordinates: C(v)_j = v_j for j in S(v), the k places where |v_j| is largest, and 0 elsewhere.

    scales    (k, keep)   v_j, j in S(v), as float32
    numbers   (k, keep)   j in S(v), ascending, of ceil(log2 w) bits; of equally large coordinates the first

    |C(v) - v|^2 <= (1 - k/w) |v|^2

up to the rounding of float32. Source: S. U. Stich, J.-B. Cordonnier, M. Jaggi, "Sparsified SGD with memory", NeurIPS
2018; with public copies, A. Koloskova, S. U. Stich, M. Jaggi, "Decentralized stochastic optimization and gossip
algorithms with compressed communication", ICML 2019.

k (32 + ceil(log2 w)) bits per row. For differences alone: what is not sent stays in the next difference.
"""

import numpy as np

from slaternet.errors import Malformed
from slaternet.model import Agents, Array, Layout, Symbols
from slaternet_agent.algorithms.game import AlgorithmGame
from slaternet_agent.codes.base import Code
from slaternet_agent.codes.selection import Keep, check_keep, largest, shortened


class TopK(Code):
    """The largest coordinates of a difference, with their places."""

    difference = True

    def __init__(self, game: AlgorithmGame, width: int, *, keep: Keep) -> None:
        super().__init__(game, width)
        check_keep(keep, width)
        self._keep = keep
        self.layout = Layout(scales=keep, numbers=keep, bits=(width - 1).bit_length())

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        """Return the largest coordinates and their places."""
        del agents, t
        places = largest(np.abs(vectors), self._keep)
        return Symbols(shortened(np.take_along_axis(vectors, places, axis=1)), places.astype(np.uint64))

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        """Return the coordinates at their places, and zeros."""
        del agents, t
        places = symbols.numbers.astype(np.intp)
        ascending = places[:, 1:] > places[:, :-1]
        if not ascending.all() or (places[:, -1] >= self.width).any() or (places[:, 0] < 0).any():
            raise Malformed("the places of coordinates must ascend and lie within a row")
        vectors = np.zeros((len(places), self.width))
        np.put_along_axis(vectors, places, symbols.scales.astype(np.float64), axis=1)
        return vectors

    def contraction(self) -> float:
        """k/w: the coordinates left out are no larger than the others."""
        return self._keep / self.width
