"""What the built-in adversaries of power, computing and other resources are made of.

Separable    losses that are a sum over coordinates, a parabola each, under linear constraints
Part         a part of a whole, as an option
Uniform      random numbers for every row and round
along        a day's course, through the entries of a table
ladder       a number for each coordinate, from cheap to dear
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from slaternet.model import Agents, Array
from slaternet.streams import block_length, locate
from slaternet_adversary.api import Game
from slaternet_adversary.builtin.linear_regression import Functions

Part = Annotated[float, Field(ge=0, lt=1), "at least 0 and below 1"]


class Separable(Functions):
    """Every agent's functions in one round.

    f_i(x) = sum_j (1/2 curvature_ij x_j^2 + slope_ij x_j) + constant_i,     g_i(x) = B_i x - b_i
    """

    __slots__ = ("constant", "curvature", "slope")

    def __init__(self, curvature: Array, slope: Array, constant: Array, matrix: Array, bound: Array) -> None:
        super().__init__(matrix, bound, rows=0)  # B (n, m, p) and b (n, m)
        self.curvature = curvature  # (n, p), not negative
        self.slope = slope  # (n, p)
        self.constant = constant  # (n,)

    def loss(self, agents: Agents, points: Array) -> Array:
        """Return f_i, (k, s)."""
        terms = np.multiply(0.5 * self.curvature[agents][:, None], points, order="C")
        terms += self.slope[agents][:, None]
        terms *= points
        loss: Array = np.add.reduce(terms, axis=-1)
        loss += self.constant[agents][:, None]
        return loss

    def loss_gradient(self, agents: Agents, points: Array) -> Array:
        """Return curvature x + slope, coordinate by coordinate, (k, s, p)."""
        gradient: Array = np.multiply(self.curvature[agents][:, None], points, order="C")
        gradient += self.slope[agents][:, None]
        return gradient

    def network_loss(self, agents: Agents, points: Array) -> Array:
        """Return the agents' average loss at points (N, p): O(k + N), not O(k N)."""
        curvature, slope, constant = self._average(agents)
        loss: Array = np.einsum("np,np->n", points * (0.5 * curvature) + slope, points)
        loss += constant
        return loss

    def quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
        """Return (H, h, c): the agents' average loss is 1/2 x'Hx + h'x + c."""
        curvature, slope, constant = self._average(agents)
        return np.diag(curvature), slope, constant

    def _average(self, agents: Agents) -> tuple[Array, Array, float]:
        curvature, slope, constant = self.curvature[agents], self.slope[agents], self.constant[agents]
        return curvature.mean(axis=0), slope.mean(axis=0), float(constant.mean())


class Uniform:
    """Numbers uniform on [0, 1): `numbers` of them for every row (an agent, a site) and round."""

    def __init__(self, game: Game, purpose: str, rows: int, numbers: int) -> None:
        self._game = game
        self._purpose = purpose
        self._rows = rows
        self._numbers = numbers
        self._length = block_length(numbers)
        self._drawn: tuple[int, Array] | None = None

    def at(self, round: int) -> Array:
        """Return those of a round, (rows, numbers); they depend on the seed alone."""
        block, offset = locate(round, self._length)
        if self._drawn is None or self._drawn[0] != block:
            self._drawn = (block, self._draw(block))
        return self._drawn[1][:, offset]

    def _draw(self, block: int) -> Array:
        """Return a block's numbers, (rows, rounds, numbers); whole also where the game ends inside."""
        uniform = np.empty((self._rows, self._length, self._numbers))
        for row in range(self._rows):
            self._game.stream(self._purpose, row, block).random(out=uniform[row])
        return uniform


def along(table: Array, turns: Array | float) -> Array:
    """Return where a course stands after so many turns: straight lines through the entries, over and over.

    Lines and not sines, whose last bit differs between machines.
    """
    place = np.asarray(turns, dtype=np.float64) % 1.0 * len(table)
    entry = np.floor(place)
    here = entry.astype(np.intp) % len(table)
    value: Array = table[here] + (place - entry) * (table[(here + 1) % len(table)] - table[here])
    return value


def ladder(p: int) -> Array:
    """Return p numbers in equal steps between 1/2 and 3/2, (p,); their average is 1."""
    return (np.arange(p) + 0.5) / p + 0.5
