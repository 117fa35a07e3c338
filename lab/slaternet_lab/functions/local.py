"""The functions of one round agent by agent, which the theorems' assumptions are about."""

from typing import ClassVar

import numpy as np

from slaternet.model import Agents, Array
from slaternet_adversary.testing.shape import slopes
from slaternet_lab.functions.replay import RoundFunctions


class LocalFunctions(RoundFunctions):
    """Values and slopes of each agent's functions; agents (k,) ascending, points (k, s, p)."""

    dense: ClassVar[int] = 128
    """Dimensions up to which Hessians are examined, and differences replace gradients."""

    @property
    def has_hessians(self) -> bool:
        """Whether losses are known quadratics."""
        return self.at.has("quadratic") and self.plugin.game.dimension <= self.dense

    @property
    def has_loss_slopes(self) -> bool:
        """Whether the gradients of losses are known."""
        return self.at.has("loss_gradient") or self.has_hessians

    @property
    def has_constraint_slopes(self) -> bool:
        """Whether the gradients of constraints are known."""
        return self.at.has("linear") or self.at.has("constraint_gradient")

    def hessians(self, agents: Agents) -> Array:
        """Return the Hessian of each agent's loss, (k, p, p)."""
        return np.array([self.at.quadratic(np.array([agent]))[0] for agent in agents])

    def loss_slopes(self, agents: Agents, points: Array, step: float) -> Array | None:
        """Return df_i, (k, s, p): as given, else by differences of this step; None in too many dimensions."""
        if self.at.has("loss_gradient"):
            return self.at.values("loss_gradient", agents, points)
        if self.has_hessians:
            known = [self.at.quadratic(np.array([agent])) for agent in agents]
            return np.array([at @ hessian + slope for at, (hessian, slope, _) in zip(points, known, strict=True)])
        if points.shape[-1] > self.dense:
            return None
        return slopes(self.at, "loss", agents, points, step)[:, :, 0]

    def constraint_slopes(self, agents: Agents, points: Array, step: float) -> Array | None:
        """Return dg_i, (k, s, m, p), with s = 1 where constraints are rows; as `loss_slopes` otherwise."""
        p = points.shape[-1]
        if self.at.has("linear"):
            return self.linear()[0].reshape(-1, 1, self.at.m, p)[agents]
        if self.at.has("constraint_gradient"):
            return self.at.values("constraint_gradient", agents, points)
        if p > self.dense:
            return None
        return slopes(self.at, "constraint", agents, points, step)
