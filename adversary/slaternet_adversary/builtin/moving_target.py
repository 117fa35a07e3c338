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

from slaternet_adversary.api import Adversary, Game, History
from slaternet_adversary.builtin.forms import Functions, Uniform, along
from slaternet_adversary.builtin.options import check_above_zero, check_count, check_number

_WAVE = np.array([0.0, 1.0, 0.0, -1.0])


class MovingTarget(Adversary):
    """Fresh targets and constraints for every agent in every round, whatever was decided."""

    rowwise = True

    def __init__(
        self,
        game: Game,
        *,
        mu: float = 1.0,
        target: float = 1.0,
        drift: float = 0.5,
        period: int = 200,
        noise: float = 1.0,
        constraints: int = 1,
        b: float = 1.0,
        spread: float = 1.0,
    ) -> None:
        super().__init__(game)
        self.constraints = check_count("constraints", constraints)
        self._root = math.sqrt(check_above_zero("mu", mu))
        self._target = check_number("target", target)
        self._drift = check_number("drift", drift)
        self._period = check_count("period", period)
        self._noise = abs(check_number("noise", noise))
        self._b = check_above_zero("b", b)
        self._spread = abs(check_number("spread", spread))
        p, m = game.dimension, constraints
        self._uniform = Uniform(game, "functions", game.agents, p + m * p + m)  # for theta, B and b

    def play(self, round: int, past: History | None = None) -> Functions:
        """Return the functions of any round; they depend on nothing but the seed."""
        del past  # oblivious
        uniform = self._uniform.at(round)
        n, p, m = self.game.agents, self.game.dimension, self.constraints
        matrix = np.empty((n, p + m, p))
        # mu/2 |x - theta|^2 = 1/2 |A x - A theta|^2 with A = sqrt(mu) I
        matrix[:, :p] = self._root * np.eye(p)
        matrix[:, p:] = 1.0 + self._spread * (2.0 * uniform[:, p:-m].reshape(n, m, p) - 1.0)
        offsets = np.empty((n, p + m))
        target = self._target + self._drift * along(_WAVE, round / self._period)
        offsets[:, :p] = self._root * (target + self._noise * (2.0 * uniform[:, :p] - 1.0))
        offsets[:, p:] = self._b + self._spread * uniform[:, -m:]
        return Functions(matrix, offsets, p)
