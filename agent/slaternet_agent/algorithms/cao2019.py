"""Cao and Liu (IEEE TAC 64(7), 2019): online convex optimisation with time-varying constraints, from two points.

    df   = (p/(2 delta)) (f_t(x_t + delta u_t) - f_t(x_t - delta u_t)) u_t,   u_t uniform on the sphere; dg alike
    gbar = (g_t(x_t + delta u_t) + g_t(x_t - delta u_t))/2
    x_{t+1}   = P_{(1 - xi) X}(x_t - alpha (df + dg lam_t))
    lam_{t+1} = [(1 - beta gamma) lam_t + gamma gbar]_+

The paper's step eta is alpha and gamma, and its regularisation is beta/eta. The setting is recalled with high
confidence, the formulas with medium confidence: the modified Lagrangian of Mahdavi et al. made time-varying.
Centralised. Regret O(sqrt T) and |[sum_t g_t]_+| of O(T^3/4) for convex, bounded, Lipschitz f and g. g is not clipped
and the dual remembers, so good rounds make up for bad ones: nothing is promised about the cumulative violation.

x_t     State.x     (k, p)   the decision that is scored, inside (1 - xi) X
lam_t   State.lam   (k, m)   the dual
"""

from dataclasses import dataclass

import numpy as np
from pydantic import PositiveFloat

from slaternet.model import Agents, Array
from slaternet.numerics.portable import power
from slaternet_agent.algorithms import solitary
from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Feedback, Gossip, Values
from slaternet_agent.algorithms.duals import ascended, weighted_slope
from slaternet_agent.algorithms.estimators import symmetric, symmetric_points
from slaternet_agent.algorithms.schedules import Rule, Rules, Step, horizon
from slaternet_agent.algorithms.solitary import Solitary


@dataclass(frozen=True, slots=True)
class Cao2019State(solitary.SolitaryState):
    """The state of the agents between rounds: x and the dual."""

    lam: Array  # (k, m)


def convex(game: AlgorithmGame, *, alpha0: PositiveFloat = 1.0, gradient_bound: PositiveFloat = 1.0) -> Rule:
    """Known horizon: alpha = gamma = alpha0 T^-1/2, xi = T^-1/2, delta = r(X) xi, beta = 2 p^2 G^2 alpha.

    G = gradient_bound should bound the gradients of g. beta is at most 1/alpha, where the dual has no memory.
    """
    weight = _weight(game, gradient_bound)
    xi = power(horizon(game), -0.5)
    return lambda s: _step(game, alpha0 * xi, xi, weight)


def anytime(game: AlgorithmGame, *, alpha0: PositiveFloat = 1.0, gradient_bound: PositiveFloat = 1.0) -> Rule:
    """No horizon: alpha = gamma = alpha0 s^-1/2, xi = (s + 1)^-1/2, delta and beta as in `convex`."""
    weight = _weight(game, gradient_bound)
    return lambda s: _step(game, alpha0 * power(s, -0.5), power(s + 1.0, -0.5), weight)


def _weight(game: AlgorithmGame, gradient_bound: float) -> float:
    return 2.0 * (game.dimension * gradient_bound) * (game.dimension * gradient_bound)


def _step(game: AlgorithmGame, eta: float, xi: float, weight: float) -> Step:
    return Step(alpha=eta, beta=min(weight * eta, 1.0 / eta), gamma=eta, xi=xi, delta=game.set.inner * xi)


SCHEDULES: Rules = {"convex": convex, "anytime": anytime}


class Cao2019(Solitary):
    """Two points per round, on both sides of the decision, and a dual with memory."""

    feedback = Feedback(points=2)
    sequences = ("alpha", "beta", "gamma", "xi", "delta")
    schedules = SCHEDULES

    def start(self, agents: Agents) -> Cao2019State:
        """Begin at the centre, with a dual of 0."""
        return Cao2019State(agents, self._centre(agents), np.zeros((len(agents), self._game.constraints)))

    def decide(self, state: Cao2019State, gossip: Gossip, t: int) -> Decision:
        """Play x, and ask on both sides of it."""
        del gossip
        u = self._directions.at(state.agents, t)
        return Decision(state.x, symmetric_points(state.x, u, self._schedule.step(t).delta))

    def update(self, state: Cao2019State, decision: Decision, seen: Values, t: int) -> Cao2019State:
        """Take both steps from where the round began: the primal step uses the dual before it rises."""
        step, p = self._schedule.step(t), self._game.dimension
        slope = symmetric(seen.f, p, step.delta) + weighted_slope(state.lam, symmetric(seen.g, p, step.delta))
        moved = decision.x - step.alpha * (slope[:, None] * self._directions.at(state.agents, t))
        x = self._set.project(moved, scale=1.0 - step.next_xi)
        between = 0.5 * (seen.g[:, 0] + seen.g[:, 1])
        return Cao2019State(state.agents, x, ascended(state.lam, between, step.beta, step.gamma))
