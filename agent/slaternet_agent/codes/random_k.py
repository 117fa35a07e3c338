"""k random coordinates: C(v)_j = v_j for j in S_t, k places drawn without replacement, and 0 elsewhere.

    scales    (k, keep)   v_j, j in S_t ascending, as float32

    E|C(v) - v|^2 = (1 - k/w) |v|^2

up to the rounding of float32. The places are drawn at the address (seed, "gossip", agent, block of rounds), so that
receivers know them, and only values travel. They are not scaled by w/k: differences to public copies need a
contraction, not a mean. Source: S. U. Stich, J.-B. Cordonnier, M. Jaggi, "Sparsified SGD with memory", NeurIPS 2018.

32 k bits per row. For differences alone: what is not sent stays in the next difference.
"""

import numpy as np

from slaternet.model import Agents, Array, Layout, Symbols
from slaternet_agent.algorithms.game import AlgorithmGame
from slaternet_agent.codes.base import Code
from slaternet_agent.codes.draws import Draws
from slaternet_agent.codes.selection import Keep, check_keep, largest, shortened


class RandomK(Code):
    """Coordinates of a difference at places that both sides draw."""

    difference = True

    def __init__(self, game: AlgorithmGame, width: int, *, keep: Keep) -> None:
        super().__init__(game, width)
        check_keep(keep, width)
        self._keep = keep
        self.layout = Layout(scales=keep)
        # the places of the k largest of w independent uniform numbers are every set of k with the same probability
        self._places: Draws[np.intp] = Draws(game, width, lambda uniform: largest(uniform, keep))

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        """Return the coordinates drawn for the round."""
        values = np.take_along_axis(vectors, self._places.at(agents, t), axis=1)
        return Symbols.of_scales(shortened(values))

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        """Return the coordinates at the places drawn for the round, and zeros."""
        vectors = np.zeros((len(agents), self.width))
        np.put_along_axis(vectors, self._places.at(agents, t), symbols.scales.astype(np.float64), axis=1)
        return vectors

    def contraction(self) -> float:
        """k/w: each coordinate is sent with this probability."""
        return self._keep / self.width
