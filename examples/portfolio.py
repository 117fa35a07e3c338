"""A portfolio that several managers agree on, while returns drift and the exposure to one factor is limited.

    x (p,)                                   shares of the fund in p assets; the rest is cash
    f_{i,t}(x) = risk/2 sum_j v_j x_j^2 - r_{i,t}'x    variances v, and the returns that manager i expects in round t
    g_{i,t}(x) = b_{i,t}'x - limit                     the exposure to a factor, as manager i estimates it

Everything in cash, x = 0, is feasible with margin `limit` in every round: Slater's condition holds.
"""

from dataclasses import dataclass

import numpy as np

from slaternet_adversary import Adversary, CannotPlay


@dataclass(frozen=True)
class Functions:
    """The functions of one round. They are fixed: asked twice, they answer twice the same."""

    variances: np.ndarray  # (p,), times risk
    returns: np.ndarray  # (n, p)
    exposures: np.ndarray  # (n, p)
    limit: float

    def loss(self, agents, points):
        gain = np.sum(self.returns[agents][:, None] * points, axis=-1)
        return 0.5 * np.sum(self.variances * points * points, axis=-1) - gain

    def constraint(self, agents, points):
        exposure = np.sum(self.exposures[agents][:, None] * points, axis=-1, keepdims=True)
        return exposure - self.limit

    def loss_gradient(self, agents, points):
        return self.variances * points - self.returns[agents][:, None]

    def constraint_gradient(self, agents, points):
        return np.repeat(self.exposures[agents][:, None, None], points.shape[1], axis=1)


class Portfolio(Adversary):
    """Expected returns follow a common trend that drifts; each manager sees it with an error of its own."""

    constraints = 1
    rowwise = True

    def __init__(self, game, *, risk=2.0, limit=0.4, drift=0.05, noise=0.2):
        super().__init__(game)
        if not limit > 0:
            raise CannotPlay(f"adversary.options.limit must be above 0, so that cash is feasible, not {limit}")
        self.limit, self.drift, self.noise = limit, drift, noise
        self.variances = risk * game.stream("variances").uniform(0.5, 1.5, game.dimension)
        self.trend = game.stream("trend").uniform(0.0, 1.0, game.dimension)

    def play(self, round, past):
        stream = self.game.stream("round", block=round)
        shape = (self.game.agents, self.game.dimension)
        self.trend = np.clip(self.trend + self.drift * stream.uniform(-1, 1, shape[1]), 0.0, 1.0)  # a new array
        returns = self.trend + self.noise * stream.uniform(-1, 1, shape)
        return Functions(self.variances, returns, stream.uniform(0.5, 1.5, shape), self.limit)
