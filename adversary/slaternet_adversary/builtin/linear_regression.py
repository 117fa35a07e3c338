"""The paper's numerical example: online linear regression under random linear constraints.

    f_{i,t}(x) = 1/2 |A x - theta|^2       A (rows, p) uniform on [-1, 1], theta = A 1 + standard normal noise
    g_{i,t}(x) = B x - b                   B (m, p) uniform on [0, 2], b (m,) uniform on [b, b + 1]

x = 0 satisfies every constraint with margin b, Slater's condition. With the paper's b = 0.01 hardly any feasible point
is better; b = 1 or 5 leaves more room.
"""

from typing import Annotated

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from slaternet.fields import checked
from slaternet_adversary.api import Adversary, CannotPlay, Game, History
from slaternet_adversary.builtin.forms import Constraints, Functions, RandomNumbers


class LinearRegression(Adversary):
    """The paper's adversary: fresh functions for every agent in every round, whatever was decided."""

    rowwise = True

    @checked("adversary.options", CannotPlay)
    def __init__(
        self,
        game: Game,
        *,
        rows: PositiveInt = 4,
        constraints: Constraints = 2,
        b: Annotated[PositiveFloat, "a number above 0, for Slater's condition to hold"] = 0.01,
    ) -> None:
        super().__init__(game)
        self.constraints = constraints
        self._rows = rows
        self._b = b
        uniform = (rows + constraints) * game.dimension + constraints  # for A, B and b; normal numbers are the noise
        self._numbers = RandomNumbers(game, "functions", game.agents, uniform, rows)

    def play(self, round: int, past: History | None = None) -> Functions:
        """Return the functions of any round; they depend on nothing but the seed."""
        del past  # oblivious
        uniform, noise = self._numbers.uniform(round), self._numbers.normal(round)
        n, p, m, rows = self.game.agents, self.game.dimension, self.constraints, self._rows
        matrix = (2.0 * uniform[:, :-m]).reshape(n, rows + m, p)
        a = matrix[:, :rows]
        a -= 1.0
        bounds = np.empty((n, rows + m))
        np.add(np.add.reduce(a.copy(), axis=-1), noise, out=bounds[:, :rows])
        np.add(uniform[:, -m:], self._b, out=bounds[:, rows:])
        return Functions(matrix, bounds, rows)
