"""An adversary that looks at the decisions of the last two rounds."""

import numpy as np

from slaternet.model import Agents, Array
from slaternet_adversary.api import Adversary, History


class Bowls:
    """Losses around one point, and a constraint on the first coordinate."""

    def __init__(self, centre: Array) -> None:
        self._centre = centre

    def loss(self, agents: Agents, points: Array) -> Array:
        away = points - self._centre
        return np.asarray(np.add.reduce(away * away, axis=-1))

    def constraint(self, agents: Agents, points: Array) -> Array:
        return points[..., :1] - 1.0


class Chaser(Adversary):
    """Moves its losses away from where the agents have been."""

    constraints = 1
    history = 2
    rowwise = True

    def play(self, round: int, past: History | None) -> Bowls:
        seen = past.decisions if past is not None else np.empty(0)
        return Bowls(0.5 - seen.mean(axis=(0, 1)) if len(seen) else np.ones(self.game.dimension))
