"""Traffic on parallel roads, and an authority that raises the toll where the traffic was: an adaptive adversary.

    x (p,)                                        the flow on each of p roads, as a part of its capacity
    f_{i,t}(x) = sum_j (toll_j x_j + delay_{i,j} x_j^2 / 2)  what agent i counts as cost in round t
    g_{i,t}(x) = demand_{i,t} - sum_j x_j                    the flow must carry the demand that agent i measures

The toll of a road follows the agents' mean flow on it in the last round. `play` never sees the decisions of its own
round. All roads full, x = 1, carries every demand: Slater's condition holds.
"""

from dataclasses import dataclass

import numpy as np

from slaternet_adversary import Adversary, CannotPlay


@dataclass(frozen=True)
class Functions:
    """The functions of one round."""

    tolls: np.ndarray  # (p,)
    delays: np.ndarray  # (n, p)
    demands: np.ndarray  # (n,)

    def loss(self, agents, points):
        return np.sum((self.tolls + 0.5 * self.delays[agents][:, None] * points) * points, axis=-1)

    def constraint(self, agents, points):
        return (self.demands[agents][:, None] - np.sum(points, axis=-1))[..., None]

    def loss_gradient(self, agents, points):
        return self.tolls + self.delays[agents][:, None] * points

    def constraint_gradient(self, agents, points):
        return np.full((*points.shape[:2], 1, points.shape[2]), -1.0)


class Tolls(Adversary):
    """Tolls that follow the traffic of the last round."""

    constraints = 1
    history = 1
    rowwise = True

    def __init__(self, game, *, demand=0.5, greed=1.0):
        super().__init__(game)
        if not 0 < demand < 0.9:
            raise CannotPlay(
                f"adversary.options.demand must lie between 0 and 0.9, so that it can be met, not {demand}"
            )
        self.demand, self.greed = demand * game.dimension, greed
        self.delays = game.stream("delays").uniform(0.5, 1.5, (game.agents, game.dimension))

    def play(self, round, past):
        tolls = np.full(self.game.dimension, 0.2)
        if len(past.decisions):
            tolls = tolls + self.greed * np.nanmean(past.decisions[-1], axis=0)  # NaN: an agent that has left
        demands = self.demand * self.game.stream("demand", block=round).uniform(0.9, 1.1, self.game.agents)
        return Functions(tolls, self.delays, demands)
