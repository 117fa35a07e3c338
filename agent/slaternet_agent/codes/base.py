"""The interface of a gossip code: pure functions over the k rows of a host that turn rows into smaller messages.

    v   (k, w)   what is coded: the rows, or their differences to the public copies
    C   (k, w)   what the receivers make of it: decode(encode(v))

A receiver knows a row only by C, so every host decodes, the sender too. No result of one row may depend on the others
coded with it, and rows of zeros come back as zeros.
"""

import abc

from slaternet.model import Agents, Array, Layout, Symbols
from slaternet_agent.algorithms.game import AlgorithmGame


class Code(abc.ABC):
    """One way to code vectors of `width` numbers. A constructor takes the game and the width, then its own numbers."""

    difference: bool | None = None
    """Whether it is for differences alone (True), for rows alone (False), or for either."""
    layout: Layout
    """What a row is made of; set by the constructor, without the name, which is the spec's."""

    def __init__(self, game: AlgorithmGame, width: int) -> None:
        self.game = game
        self.width = width

    @abc.abstractmethod
    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        """Return the code of the vectors of some agents in round t; ValueError where they are too large for it."""

    @abc.abstractmethod
    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        """Return C(v), (k, w); Malformed where no encoder makes these symbols."""

    def bits_per_row(self) -> int | None:
        """Return the bits of a row, without the heads of a frame; None where they depend on the rows."""
        layout = self.layout
        fixed = layout.bits or not layout.numbers
        return 32 * layout.scales + layout.bits * layout.numbers if fixed else None

    def contraction(self) -> float | None:
        """Return omega where E|C(v) - v|^2 <= (1 - omega) |v|^2; None where the code does not promise that."""
        return None

    def error(self, t: int) -> float | None:
        """Return a bound on the coordinates of C(v) - v in round t, for v in X or the difference of two points of X."""
        del t
        return None
