import numpy as np

from slaternet_adversary import Adversary


class Bowl(Adversary):
    """Losses |x - c_i|^2 / 2 with a centre per agent, and the constraint sum(x) <= budget."""

    constraints = 1

    def __init__(self, game, *, budget=1.0):
        super().__init__(game)
        self.centres = np.stack([game.stream("centre", i).uniform(-1, 1, game.dimension) for i in range(game.agents)])
        self.budget = budget

    def play(self, round, past):
        return self

    def loss(self, agents, points):
        return 0.5 * np.sum((points - self.centres[agents][:, None]) ** 2, axis=-1)

    def constraint(self, agents, points):
        return np.sum(points, axis=-1, keepdims=True) - self.budget
