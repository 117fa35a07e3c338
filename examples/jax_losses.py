"""Losses written in jax, which also takes their gradients.

    f_{i,t}(x) = log sum_j exp(a_j'x + b_j)     a smooth maximum of q planes, which agent i draws anew in every round
    g_{i,t}(x) = |x - c|^2 - radius^2           agent i stays near a centre c of its own

Write a loss and a constraint of one agent at one point; `Everyone` makes the methods of a round of them. They are
convex, and x = 0 satisfies all constraints with a margin: Slater's condition holds.
"""

import jax
import jax.numpy as jnp
import numpy as np

from slaternet_adversary import Adversary, CannotPlay

jax.config.update("jax_enable_x64", True)  # float64: single precision is refused, and its gradients are too coarse


def loss(own, x):
    """Return f of the agent whose arrays are `own` at x (p,)."""
    return jax.nn.logsumexp(jnp.sum(own["planes"] * x, axis=1) + own["heights"])


def constraint(own, x):
    """Return g (m,) of that agent at x (p,)."""
    return jnp.atleast_1d(jnp.sum((x - own["centre"]) ** 2) - own["radius"] ** 2)


class Everyone:
    """A function of one agent at one point, compiled for all agents at s points each.

    An agent's points are put into its own row of an array for all agents, whoever is asked about: the same code with
    the same shape computes a row, so its bits do not depend on the batch, which `rowwise = True` promises. Only a new s
    has it compiled again.
    """

    def __init__(self, function):
        self._compiled = jax.jit(jax.vmap(jax.vmap(function, (None, 0)), (0, 0)))

    def __call__(self, arrays, agents, points):
        """Return the values for some agents at points (k, s, p)."""
        everywhere = np.zeros((len(arrays["centre"]), *points.shape[1:]))
        everywhere[agents] = points
        return np.asarray(self._compiled(arrays, everywhere))[agents]


LOSS, LOSS_GRADIENT = Everyone(loss), Everyone(jax.grad(loss, argnums=1))
CONSTRAINT, CONSTRAINT_GRADIENT = Everyone(constraint), Everyone(jax.jacrev(constraint, argnums=1))


class Functions:
    """The functions of one round."""

    def __init__(self, arrays):
        self._arrays = arrays  # of all agents, by name; the first axis is the agent

    def loss(self, agents, points):
        return LOSS(self._arrays, agents, points)

    def constraint(self, agents, points):
        return CONSTRAINT(self._arrays, agents, points)

    def loss_gradient(self, agents, points):
        return LOSS_GRADIENT(self._arrays, agents, points)

    def constraint_gradient(self, agents, points):
        return CONSTRAINT_GRADIENT(self._arrays, agents, points)


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
