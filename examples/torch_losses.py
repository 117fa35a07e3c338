"""Losses written in PyTorch, which also takes their gradients: the game of `jax_losses.py`, to the last digits.

f_{i,t}(x) = log sum_j exp(a_j'x + b_j)     a smooth maximum of q planes, which agent i draws anew in every round
g_{i,t}(x) = |x - c|^2 - radius^2           agent i stays near a centre c of its own
"""

import numpy as np
import torch
from torch.func import grad, jacrev, vmap

from slaternet_adversary import Adversary, CannotPlay

torch.set_num_threads(1)  # sums that several threads share would have other bits with another number of them


def loss(own, x):
    """Return f of the agent whose tensors are `own` at x (p,)."""
    return torch.logsumexp(torch.sum(own["planes"] * x, 1) + own["heights"], 0)


def constraint(own, x):
    """Return g (m,) of that agent at x (p,)."""
    return torch.sum((x - own["centre"]) ** 2).reshape(1) - own["radius"] ** 2


class Everyone:
    """A function of one agent at one point, for all agents at s points each.

    An agent's points are put into its own row of an array for all agents, whoever is asked about: operations on the
    same shape compute a row, so its bits do not depend on the batch, which `rowwise = True` promises.
    """

    def __init__(self, function):
        self._function = vmap(vmap(function, (None, 0)), (0, 0))

    def __call__(self, tensors, agents, points):
        """Return the values for some agents at points (k, s, p)."""
        everywhere = np.zeros((len(tensors["centre"]), *points.shape[1:]))
        everywhere[agents] = points
        return self._function(tensors, torch.from_numpy(everywhere)).numpy()[agents]


LOSS, LOSS_GRADIENT = Everyone(loss), Everyone(grad(loss, argnums=1))
CONSTRAINT, CONSTRAINT_GRADIENT = Everyone(constraint), Everyone(jacrev(constraint, argnums=1))


class Functions:
    """The functions of one round."""

    def __init__(self, arrays):
        self._tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}  # float64, as the arrays are

    def loss(self, agents, points):
        return LOSS(self._tensors, agents, points)

    def constraint(self, agents, points):
        return CONSTRAINT(self._tensors, agents, points)

    def loss_gradient(self, agents, points):
        return LOSS_GRADIENT(self._tensors, agents, points)

    def constraint_gradient(self, agents, points):
        return CONSTRAINT_GRADIENT(self._tensors, agents, points)


class SmoothMaximum(Adversary):
    """Planes that are drawn anew in every round, and centres that stay."""

    constraints = 1
    rowwise = True

    def __init__(self, game, *, planes=4, radius=1.0):
        super().__init__(game)
        if not radius > 0:
            raise CannotPlay(f"adversary.options.radius must be above 0, not {radius}")
        self.planes = planes
        n, p = game.agents, game.dimension
        centres = game.stream("centres").uniform(-0.5, 0.5, (n, p)) * radius / p**0.5  # 0 lies within each ball
        self.arrays = {"centre": centres, "radius": np.full(n, float(radius))}

    def play(self, round, past):
        stream, n, p = self.game.stream("planes", block=round), self.game.agents, self.game.dimension
        planes = stream.uniform(-1.0, 1.0, (n, self.planes, p)) + 0.5  # downhill is towards negative x
        return Functions({**self.arrays, "planes": planes, "heights": stream.uniform(0.0, 1.0, (n, self.planes))})
