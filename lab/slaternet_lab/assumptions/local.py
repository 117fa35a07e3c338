"""The functions of one round agent by agent, as the theorems' assumptions speak of them."""

from typing import ClassVar

import numpy as np

from slaternet.model import Agents, Array
from slaternet_lab.hindsight.replay import Functions


class Local(Functions):
    """Values and slopes of each agent's functions; agents (k,) ascending, points (k, s, p)."""

    dense: ClassVar[int] = 128
    """Dimensions up to which Hessians are looked at, and differences stand in for gradients."""

    @property
    def tells_hessians(self) -> bool:
        """Whether losses are known quadratics."""
        return self._at.has("quadratic") and self.plugin.game.dimension <= self.dense

    @property
    def tells_loss_slopes(self) -> bool:
        """Whether the gradients of losses are known."""
        return self._at.has("loss_gradient") or self.tells_hessians

    @property
    def tells_constraint_slopes(self) -> bool:
        """Whether the gradients of constraints are known."""
        return self._at.has("linear") or self._at.has("constraint_gradient")

    def losses(self, agents: Agents, points: Array) -> Array:
        """Return f_i at the points of agent i, (k, s)."""
        return self._at.loss(agents, points)

    def constraint_values(self, agents: Agents, points: Array) -> Array:
        """Return g_i at the points of agent i, (k, s, m)."""
        return self._at.constraint(agents, points)

    def hessians(self, agents: Agents) -> Array:
        """Return the Hessian of each agent's loss, (k, p, p)."""
        return np.array([self._at.quadratic(np.array([agent]))[0] for agent in agents])

    def loss_slopes(self, agents: Agents, points: Array, step: float) -> Array | None:
        """Return df_i, (k, s, p): as told, else by differences of this step, else None: in too many dimensions."""
        if self._at.has("loss_gradient"):
            return self._at.values("loss_gradient", agents, points)
        if self.tells_hessians:
            known = [self._at.quadratic(np.array([agent])) for agent in agents]
            return np.array([at @ hessian + slope for at, (hessian, slope, _) in zip(points, known, strict=True)])
        if points.shape[-1] > self.dense:
            return None
        around = self.losses(agents, _around(points, step)).reshape(*points.shape[:2], 2, -1)
        difference: Array = (around[..., 0, :] - around[..., 1, :]) / (2.0 * step)
        return difference

    def constraint_slopes(self, agents: Agents, points: Array, step: float) -> Array | None:
        """Return dg_i, (k, s, m, p), with s = 1 where constraints are rows; as `loss_slopes` otherwise."""
        k, s, p = points.shape
        if self._at.has("linear"):
            return self.linear()[0].reshape(-1, 1, self._at.m, p)[agents]
        if self._at.has("constraint_gradient"):
            return self._at.values("constraint_gradient", agents, points)
        if p > self.dense:
            return None
        around = self.constraint_values(agents, _around(points, step)).reshape(k, s, 2, p, self._at.m)
        difference: Array = (around[:, :, 0] - around[:, :, 1]) / (2.0 * step)
        return difference.swapaxes(-1, -2)


def _around(points: Array, step: float) -> Array:
    """Return x + step e_1, ..., x + step e_p, x - step e_1, ... for each point, (k, s 2 p, p)."""
    k, s, p = points.shape
    unit = step * np.eye(p)
    return (points[:, :, None] + np.concatenate((unit, -unit))).reshape(k, s * 2 * p, p)
