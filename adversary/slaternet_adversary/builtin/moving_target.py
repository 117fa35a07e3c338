"""Following a noisy target that moves to and fro, under random linear constraints: every loss is strongly convex.

    f_{i,t}(x) = mu/2 |x - theta|^2        theta (p,) uniform on target + drift w_t + [-noise, noise]
    g_{i,t}(x) = B x - b                   B (m, p) uniform on 1 + [-spread, spread], b (m,) uniform on b + [0, spread]

w_t is a wave of straight lines: from 0 up to 1, down to -1 and back in `period` rounds; drift = 0 keeps the target
where it is. All assumptions of the paper hold: everything is bounded, Assumption 6 with modulus mu, and Slater's
condition with x = 0 and margin b. Where the target violates the constraints, the agents are held at their border for as
long as the game lasts, so that the growth of violation and regret is seen.
"""

import math

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from slaternet.fields import checked
from slaternet_adversary.api import Adversary, CannotPlay, Game, History
from slaternet_adversary.builtin.forms import Constraints, RandomNumbers, Targets, along

_WAVE = np.array([0.0, 1.0, 0.0, -1.0])


class MovingTarget(Adversary):
    """Fresh targets and constraints for every agent in every round, whatever was decided."""

    rowwise = True

    @checked("adversary.options", CannotPlay)
    def __init__(
        self,
        game: Game,
        *,
        mu: PositiveFloat = 1.0,
        target: float = 1.0,
        drift: float = 0.5,
        period: PositiveInt = 200,
        noise: float = 1.0,
        constraints: Constraints = 1,
        b: PositiveFloat = 1.0,
        spread: float = 1.0,
    ) -> None:
        super().__init__(game)
        self.constraints = constraints
        self._root = math.sqrt(mu)
        self._target, self._drift, self._period = target, drift, period
        self._noise = abs(noise)
        self._b = b
        self._spread = abs(spread)
        p, m = game.dimension, constraints
        self._numbers = RandomNumbers(game, "functions", game.agents, p + m * p + m)  # for theta, B and b

    def play(self, round: int, past: History | None = None) -> Targets:
        """Return the functions of any round; they depend on nothing but the seed."""
        del past  # oblivious
        uniform = self._numbers.uniform(round)
        n, p, m = self.game.agents, self.game.dimension, self.constraints
        # mu/2 |x - theta|^2 = 1/2 |A x - A theta|^2 with A = sqrt(mu) I
        target = self._target + self._drift * along(_WAVE, round / self._period)
        targets = self._root * (target + self._noise * (2.0 * uniform[:, :p] - 1.0))
        matrix = 1.0 + self._spread * (2.0 * uniform[:, p:-m].reshape(n, m, p) - 1.0)
        return Targets(self._root, targets, matrix, self._b + self._spread * uniform[:, -m:])
