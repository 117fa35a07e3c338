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

from slaternet.model import Array
from slaternet.streams import block_length, locate
from slaternet_adversary.api import Adversary, CannotPlay, Game, History
from slaternet_adversary.builtin.linear_regression import Functions, check_count


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
        self._root = math.sqrt(_above_zero("mu", mu))
        self._target = _number("target", target)
        self._drift = _number("drift", drift)
        self._period = check_count("period", period)
        self._noise = abs(_number("noise", noise))
        self._b = _above_zero("b", b)
        self._spread = abs(_number("spread", spread))
        self._length = block_length(self._numbers)
        self._drawn: tuple[int, Array] | None = None

    @property
    def _numbers(self) -> int:
        """Numbers drawn per agent and round: theta, B and b."""
        p, m = self.game.dimension, self.constraints
        return p + m * p + m

    def play(self, round: int, past: History | None = None) -> Functions:
        """Return the functions of any round; they depend on nothing but the seed."""
        del past  # oblivious
        block, offset = locate(round, self._length)
        if self._drawn is None or self._drawn[0] != block:
            self._drawn = (block, self._draw(block))
        uniform = self._drawn[1][:, offset]
        n, p, m = self.game.agents, self.game.dimension, self.constraints
        matrix = np.empty((n, p + m, p))
        # mu/2 |x - theta|^2 = 1/2 |A x - A theta|^2 with A = sqrt(mu) I
        matrix[:, :p] = self._root * np.eye(p)
        matrix[:, p:] = 1.0 + self._spread * (2.0 * uniform[:, p:-m].reshape(n, m, p) - 1.0)
        offsets = np.empty((n, p + m))
        target = self._target + self._drift * _wave(round / self._period)
        offsets[:, :p] = self._root * (target + self._noise * (2.0 * uniform[:, :p] - 1.0))
        offsets[:, p:] = self._b + self._spread * uniform[:, -m:]
        return Functions(matrix, offsets, p)

    def _draw(self, block: int) -> Array:
        """Return a block's numbers, uniform on [0, 1), (n, rounds, numbers); whole also where the game ends inside."""
        uniform = np.empty((self.game.agents, self._length, self._numbers))
        for agent in range(self.game.agents):
            self.game.stream("functions", agent, block).random(out=uniform[agent])
        return uniform


def _wave(turns: float) -> float:
    """Return where a wave of straight lines stands: 0, 1, 0, -1, 0 at 0, 1/4, 1/2, 3/4, 1 of a turn."""
    phase = (turns + 0.25) % 1.0
    return 1.0 - abs(4.0 * phase - 2.0)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CannotPlay(f"adversary.options.{name} must be a finite number, not {value!r}")
    return float(value)


def _above_zero(name: str, value: object) -> float:
    number = _number(name, value)
    if not number > 0.0:
        raise CannotPlay(f"adversary.options.{name} must be above 0, not {number:g}")
    return number
