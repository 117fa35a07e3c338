"""A dithered grid, which may become finer: Delta_t = width / t^power.

    U_j       uniform in [0, 1), independent between coordinates, agents and rounds
    numbers   (k, w)   n_j = floor(v_j / Delta_t + U_j), as 0, 1, 2, 3, 4, ... for 0, -1, 1, -2, 2, ...

    C(v)_j = Delta_t n_j        E C(v) = v        |C(v) - v|_inf < Delta_t        E(C(v)_j - v_j)^2 <= Delta_t^2 / 4

Source: L. Schuchman, "Dither signals and their effect on quantization noise", IEEE Transactions on Communication
Technology 12(4), 1964; with a width that shrinks, for distributed bandits, K. Zhang et al., arXiv:2505.08592.

w b bits per row, where b is the smallest number of bits that holds the largest number of the frame: about
log2(R(X) / Delta_t) + 1, rounded up, for rows, and fewer for differences, which become small. Nothing is cut off,
however large a row is; only numbers beyond 2^52 are refused, which floats do not resolve.
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from slaternet.errors import Malformed
from slaternet.model import Agents, Array, Layout, Symbols
from slaternet.numerics.bits import unzigzag, zigzag
from slaternet.numerics.portable import power as raised
from slaternet_agent.algorithms.game import AlgorithmGame
from slaternet_agent.codes.base import Code
from slaternet_agent.codes.draws import Draws

_LARGEST = 1 << 52

Width = Annotated[float, Field(ge=1e-100, le=1e100), "above 0, from 1e-100 to 1e100"]
Power = Annotated[float, Field(ge=0, le=10), "from 0 to 10"]


class Grid(Code):
    """Whole multiples of a width, which are right on average."""

    def __init__(self, game: AlgorithmGame, coordinates: int, /, *, width: Width, power: Power = 0.0) -> None:
        super().__init__(game, coordinates)
        self.layout = Layout(numbers=coordinates)
        self._first, self._power = width, power
        self._dither: Draws[np.float64] = Draws(game, coordinates, lambda uniform: uniform)

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        """Return the numbers of the grid's points."""
        with np.errstate(over="ignore"):
            points = np.divide(vectors, self._width_at(t))
        points += self._dither.at(agents, t)
        np.floor(points, out=points)
        if not (np.abs(points) <= _LARGEST).all():
            raise ValueError("a row is more than 2^52 widths of the grid away from 0")
        return Symbols.of_numbers(zigzag(points.astype(np.int64)))

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        """Return the points of the grid."""
        del agents
        numbers = unzigzag(symbols.numbers)
        if numbers.size and not -_LARGEST <= numbers.min() <= numbers.max() <= _LARGEST:
            raise Malformed("a row is more than 2^52 widths of the grid away from 0")
        points: Array = numbers.astype(np.float64) * self._width_at(t)
        return points

    def error(self, t: int) -> float:
        """Delta_t: a bound, always kept; the mean error is 0."""
        return self._width_at(t)

    def _width_at(self, t: int) -> float:
        return self._first / raised(float(t), self._power) if self._power else self._first
