"""The paper's numerical example: online linear regression under random linear constraints.

    f_{i,t}(x) = 1/2 |A x - theta|^2       A (rows, p) uniform on [-1, 1], theta = A 1 + standard normal noise
    g_{i,t}(x) = B x - b                   B (m, p) uniform on [0, 2], b (m,) uniform on [b, b + 1]

x = 0 satisfies every constraint with margin b, Slater's condition. With the paper's b = 0.01 hardly any feasible point
is better; b = 1 or 5 makes a livelier game.
"""

from typing import Annotated

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from slaternet.fields import checked
from slaternet.model import Array
from slaternet.numerics.randomness import block_length, locate
from slaternet_adversary.api import Adversary, CannotPlay, Game, History
from slaternet_adversary.builtin.forms import Functions


class LinearRegression(Adversary):
    """The paper's adversary: fresh functions for every agent in every round, whatever was decided."""

    rowwise = True

    @checked("adversary.options", CannotPlay)
    def __init__(
        self,
        game: Game,
        *,
        rows: PositiveInt = 4,
        constraints: PositiveInt = 2,
        b: Annotated[PositiveFloat, "a number above 0, for Slater's condition to hold"] = 0.01,
    ) -> None:
        super().__init__(game)
        self.constraints = constraints
        self._rows = rows
        self._b = b
        numbers = (rows + constraints) * (game.dimension + 1)
        self._length = block_length(numbers)
        self._drawn: tuple[int, Array, Array] | None = None

    def play(self, round: int, past: History | None = None) -> Functions:
        """Return the functions of any round; they depend on nothing but the seed."""
        del past  # oblivious
        block, offset = locate(round, self._length)
        if self._drawn is None or self._drawn[0] != block:
            self._drawn = (block, *self._draw(block))
        uniform, noise = self._drawn[1][:, offset], self._drawn[2][:, offset]
        n, p, m, rows = self.game.agents, self.game.dimension, self.constraints, self._rows
        matrix = (2.0 * uniform[:, :-m]).reshape(n, rows + m, p)
        a = matrix[:, :rows]
        a -= 1.0
        bounds = np.empty((n, rows + m))
        np.add(np.add.reduce(a.copy(), axis=-1), noise, out=bounds[:, :rows])
        np.add(uniform[:, -m:], self._b, out=bounds[:, rows:])
        return Functions(matrix, bounds, rows)

    def _draw(self, block: int) -> tuple[Array, Array]:
        """Return a block's uniform numbers, for A, B and b, and its normal ones; (n, rounds, numbers) each.

        A whole block is drawn also where the game ends inside it: a longer game begins with the same functions.
        """
        p, m = self.game.dimension, self.constraints
        uniform = np.empty((self.game.agents, self._length, (self._rows + m) * p + m))
        noise = np.empty((self.game.agents, self._length, self._rows))
        for agent in range(self.game.agents):
            generator = self.game.stream("functions", agent, block)
            generator.random(out=uniform[agent])
            generator.standard_normal(out=noise[agent])
        return uniform, noise
