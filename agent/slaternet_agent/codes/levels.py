"""s levels of the norm (QSGD), shortened to a contraction.

    U_j       uniform in [0, 1), independent between coordinates, agents and rounds
    scales    (k, 1)   |v|, as float32, rounded up
    numbers   (k, w)   n_j = sign(v_j) floor(s |v_j| / |v| + U_j), as 0, 1, 2, 3, 4, ... for 0, -1, 1, -2, 2, ...

    C(v)_j = |v| n_j / (s tau),   tau = 1 + min(w / s^2, sqrt(w) / s)        E|C(v) - v|^2 <= (1 - 1/tau) |v|^2

up to the rounding of float32. Source: D. Alistarh, D. Grubic, J. Li, R. Tomioka, M. Vojnovic, "QSGD:
communication-efficient SGD via gradient quantization and encoding", NeurIPS 2017; divided by tau,
A. Koloskova, S. U. Stich, M. Jaggi, ICML 2019.

32 + w b bits per row, where b is the smallest number of bits that holds the largest number of the frame, at most
ceil(log2(2 s + 3)), and often fewer: where no coordinate carries most of the norm, numbers are about s / sqrt(w). For
differences alone. A row whose norm is below 1.2e-38, the smallest normal float32, comes back as 0.
"""

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from slaternet.errors import Malformed
from slaternet.model import Agents, Array, Layout, Symbols
from slaternet.numerics.bits import unzigzag, zigzag
from slaternet_agent.algorithms.game import AlgorithmGame
from slaternet_agent.codes.base import Code
from slaternet_agent.codes.draws import Draws
from slaternet_agent.codes.selection import shortened

_SMALLEST = float(np.finfo(np.float32).smallest_normal)

Count = Annotated[int, Field(ge=1, le=1 << 30)]


class Levels(Code):
    """Coordinates as random levels of the norm, which are right on average up to a factor."""

    difference = True

    def __init__(self, game: AlgorithmGame, width: int, *, levels: Count) -> None:
        super().__init__(game, width)
        self.layout = Layout(scales=1, numbers=width)
        self._levels = levels
        self._tau = 1.0 + min(width / (levels * levels), math.sqrt(width) / levels)
        self._dither: Draws[np.float64] = Draws(game, width, lambda uniform: uniform)

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        """Return the norms and the levels."""
        with np.errstate(over="ignore", under="ignore"):
            norm = np.sqrt(np.sum(np.multiply(vectors, vectors, order="C"), axis=-1, keepdims=True))
            norm[norm < _SMALLEST] = 0.0
            scales = shortened(norm)
        # rounded up, so that no coordinate is above the norm
        scales = shortened(np.where(scales < norm, np.nextafter(scales, np.float32(np.inf)), scales))
        shares = np.abs(vectors)
        np.divide(shares, scales, out=shares, where=scales > 0.0)
        shares *= self._levels
        shares += self._dither.at(agents, t)
        numbers = np.copysign(np.floor(shares), vectors).astype(np.int64)
        return Symbols(scales, zigzag(numbers))

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        """Return the levels of the norms."""
        del agents, t
        numbers = unzigzag(symbols.numbers)
        most = self._levels + 1  # a random number just below 1 may be rounded up
        if numbers.size and not -most <= numbers.min() <= numbers.max() <= most:
            raise Malformed("a row has a coordinate above its norm")
        if (symbols.scales < 0.0).any() or (numbers[symbols.scales[:, 0] == 0.0]).any():
            raise Malformed("a norm is negative, or 0 where the row is not")
        unit = symbols.scales.astype(np.float64)
        unit /= self._levels * self._tau
        vectors: Array = numbers * unit
        return vectors

    def contraction(self) -> float:
        """1/tau."""
        return 1.0 / self._tau
