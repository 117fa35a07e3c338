"""The functions of one round agent by agent, as the theorems' assumptions speak of them."""

from typing import ClassVar

import numpy as np

from slaternet.model import Agents, Array
from slaternet_lab.hindsight.replay import Functions, edge

__all__ = ["Local", "edge"]


class Local(Functions):
    """Values and slopes of each agent's functions; agents (k,) ascending, points (k, s, p)."""

    dense: ClassVar[int] = 128
    """Dimensions up to which Hessians are looked at, and differences stand in for gradients."""

    @property
    def tells_hessians(self) -> bool:
        """Whether losses are known quadratics."""
        return hasattr(self._of, "quadratic") and self.plugin.game.dimension <= self.dense

    @property
    def tells_loss_slopes(self) -> bool:
        """Whether the gradients of losses are known."""
        return hasattr(self._of, "loss_gradient") or self.tells_hessians

    @property
    def tells_constraint_slopes(self) -> bool:
        """Whether the gradients of constraints are known."""
        return hasattr(self._of, "linear") or hasattr(self._of, "constraint_gradient")

    def losses(self, agents: Agents, points: Array) -> Array:
        """Return f_i at the points of agent i, (k, s)."""
        with self._calling("loss"):
            return self._checked(self._of.loss(agents, points), points.shape[:2])

    def constraint_values(self, agents: Agents, points: Array) -> Array:
        """Return g_i at the points of agent i, (k, s, m)."""
        with self._calling("constraint"):
            return self._checked(self._of.constraint(agents, points), (*points.shape[:2], self._m))

    def hessians(self, agents: Agents) -> Array:
        """Return the Hessian of each agent's loss, (k, p, p)."""
        return np.array([self._local_quadratic(agent)[0] for agent in agents])

    def loss_slopes(self, agents: Agents, points: Array, step: float) -> Array | None:
        """Return df_i, (k, s, p): as told, else by differences of this step, else None: in too many dimensions."""
        if hasattr(self._of, "loss_gradient"):
            with self._calling("loss_gradient"):
                return self._checked(self._of.loss_gradient(agents, points), points.shape)
        if self.tells_hessians:
            known = [self._local_quadratic(agent) for agent in agents]
            return np.array([at @ hessian + slope for at, (hessian, slope) in zip(points, known, strict=True)])
        if points.shape[-1] > self.dense:
            return None
        around = self.losses(agents, _around(points, step)).reshape(*points.shape[:2], 2, -1)
        difference: Array = (around[..., 0, :] - around[..., 1, :]) / (2.0 * step)
        return difference

    def constraint_slopes(self, agents: Agents, points: Array, step: float) -> Array | None:
        """Return dg_i, (k, s, m, p), with s = 1 where constraints are rows; as `loss_slopes` otherwise."""
        k, s, p = points.shape
        if hasattr(self._of, "linear"):
            return self.linear()[0].reshape(-1, 1, self._m, p)[agents]
        if hasattr(self._of, "constraint_gradient"):
            with self._calling("constraint_gradient"):
                return self._checked(self._of.constraint_gradient(agents, points), (k, s, self._m, p))
        if p > self.dense:
            return None
        around = self.constraint_values(agents, _around(points, step)).reshape(k, s, 2, p, self._m)
        difference: Array = (around[:, :, 0] - around[:, :, 1]) / (2.0 * step)
        return difference.swapaxes(-1, -2)

    def _local_quadratic(self, agent: int) -> tuple[Array, Array]:
        p = self.plugin.game.dimension
        with self._calling("quadratic"):
            hessian, slope, _ = self._of.quadratic(np.array([agent]))
            return self._checked(hessian, (p, p)), self._checked(slope, (p,))


def _around(points: Array, step: float) -> Array:
    """Return x + step e_1, ..., x + step e_p, x - step e_1, ... for each point, (k, s 2 p, p)."""
    k, s, p = points.shape
    unit = step * np.eye(p)
    return (points[:, :, None] + np.concatenate((unit, -unit))).reshape(k, s * 2 * p, p)
