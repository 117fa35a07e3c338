"""Mahdavi, Jin and Yang (JMLR 13, 2012): trading regret for efficiency with long-term constraints.

Gradients of f and g, recalled with high confidence (the constants of the schedule: medium):
    x_{t+1}   = P_X(x_t - alpha (grad f_t(x_t) + sum_s lam_s grad g_s(x_t)))
    lam_{t+1} = [(1 - beta gamma) lam_t + gamma g(x_t)]_+

Gradient of f and two values of the one constraint g = max_s g_s, recalled with medium confidence (constants: low):
    dg   = (p/(2 delta)) (g(x_t + delta u_t) - g(x_t - delta u_t)) u_t,   u_t uniform on the sphere
    gbar = (g(x_t + delta u_t) + g(x_t - delta u_t))/2
    x_{t+1}   = P_{(1 - xi) X}(x_t - alpha (grad f_t(x_t) + lam_t dg))
    lam_{t+1} = [(1 - beta gamma) lam_t + gamma gbar]_+

The paper's step eta is alpha and gamma, its delta is beta/eta and its zeta is our delta. Centralised. Regret O(sqrt T)
and [sum_t g(x_t)]_+ of O(T^3/4) for convex f_t and constraints that stay the same, all Lipschitz and bounded, and a
known horizon; where the constraints vary, those of the round are used, and the guarantee no longer applies. g is not
clipped and the dual has memory, so good rounds compensate for bad ones.

x_t     State.x     (k, p)              the decision that is scored
lam_t   State.lam   (k, m) or (k, 1)    the dual
"""

import math
from dataclasses import dataclass

import numpy as np
from pydantic import PositiveFloat

from slaternet.model import Agents, Array
from slaternet.numerics.portable import power
from slaternet_agent.algorithms import solitary
from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Feedback, Gossip, Values
from slaternet_agent.algorithms.duals import ascended, weighted_gradient
from slaternet_agent.algorithms.estimators import symmetric, symmetric_points
from slaternet_agent.algorithms.schedules import Rule, Rules, Step, horizon
from slaternet_agent.algorithms.solitary import Solitary


@dataclass(frozen=True, slots=True)
class Mahdavi2012State(solitary.SolitaryState):
    """The state of the agents between rounds: x and the dual."""

    lam: Array  # (k, m), or (k, 1)


def convex(game: AlgorithmGame, *, gradient_bound: PositiveFloat = 1.0, value_bound: PositiveFloat = 1.0) -> Rule:
    """Gradients of f and g bounded by G = gradient_bound, |g| by D = value_bound.

    alpha = gamma = R(X) ((m + 1) G^2 + 2 m D^2)^-1/2 T^-1/2, beta = 2 (m + 1) G^2 alpha, at most 1/alpha, where the
    dual has no memory. The guarantee needs 8 (m + 1) G^2 alpha^2 <= 1.
    """
    gradients = (game.constraints + 1) * gradient_bound * gradient_bound
    scale = math.sqrt(gradients + 2.0 * game.constraints * value_bound * value_bound)
    eta = game.set.outer * power(horizon(game), -0.5) / scale
    return lambda s: Step(alpha=eta, beta=min(2.0 * gradients * eta, 1.0 / eta), gamma=eta)


def convex_bandit(game: AlgorithmGame, *, alpha0: PositiveFloat = 1.0, gradient_bound: PositiveFloat = 1.0) -> Rule:
    """Two values of g: alpha = gamma = alpha0 T^-1/2, xi = T^-1/2, delta = r(X) xi, beta = 4 p^2 G^2 alpha.

    G = gradient_bound should bound the gradients of f and g. beta is at most 1/alpha, where the dual has no memory; the
    guarantee needs 16 p^2 G^2 alpha^2 <= 1.
    """
    slope = game.dimension * gradient_bound
    xi = power(horizon(game), -0.5)
    eta = alpha0 * xi
    beta = min(4.0 * slope * slope * eta, 1.0 / eta)
    return lambda s: Step(alpha=eta, beta=beta, gamma=eta, xi=xi, delta=game.set.inner * xi)


SCHEDULES: Rules = {"convex": convex}
BANDIT_SCHEDULES: Rules = {"convex": convex_bandit}


class Mahdavi2012(Solitary):
    """Gradients of loss and constraints at the decision, and a dual with memory."""

    feedback = Feedback(loss_gradient=True, constraint_gradient=True)
    sequences = ("alpha", "beta", "gamma")
    schedules = SCHEDULES

    def start(self, agents: Agents) -> Mahdavi2012State:
        """Begin at the centre, with a dual of 0."""
        return Mahdavi2012State(agents, self._centre(agents), np.zeros((len(agents), self._game.constraints)))

    def decide(self, state: Mahdavi2012State, gossip: Gossip, t: int) -> Decision:
        """Play x."""
        del gossip, t
        return Decision.without_points(state.x)

    def update(self, state: Mahdavi2012State, decision: Decision, seen: Values, t: int) -> Mahdavi2012State:
        """Take both steps from where the round began: the primal step uses the dual before it rises."""
        assert seen.loss is not None
        assert seen.constraint is not None
        step = self._schedule.step(t)
        gradient = seen.loss.gradient + weighted_gradient(state.lam, seen.constraint.gradient)
        x = self._set.project(decision.x - step.alpha * gradient)
        return Mahdavi2012State(state.agents, x, ascended(state.lam, seen.constraint.value, step.beta, step.gamma))


class Mahdavi2012Bandit(Solitary):
    """The gradient of the loss at the decision, two values of the worst constraint, and a dual with memory."""

    feedback = Feedback(points=2, loss_gradient=True)
    sequences = ("alpha", "beta", "gamma", "xi", "delta")
    schedules = BANDIT_SCHEDULES

    def start(self, agents: Agents) -> Mahdavi2012State:
        """Begin at the centre, with a dual of 0."""
        return Mahdavi2012State(agents, self._centre(agents), np.zeros((len(agents), 1)))

    def decide(self, state: Mahdavi2012State, gossip: Gossip, t: int) -> Decision:
        """Play x, and ask on both sides of it; the gradient of the loss is taken at x."""
        del gossip
        u = self._directions.at(state.agents, t)
        return Decision(state.x, symmetric_points(state.x, u, self._schedule.step(t).delta))

    def update(self, state: Mahdavi2012State, decision: Decision, seen: Values, t: int) -> Mahdavi2012State:
        """Take both steps from where the round began: the primal step uses the dual before it rises."""
        assert seen.loss is not None
        step = self._schedule.step(t)
        worst = np.maximum.reduce(seen.g, axis=-1) + 0.0  # (k, 2); of two zeros always the positive one
        slope = state.lam * symmetric(worst, self._game.dimension, step.delta)[:, None]
        gradient = seen.loss.gradient + slope * self._directions.at(state.agents, t)
        x = self._set.project(decision.x - step.alpha * gradient, scale=1.0 - step.next_xi)
        between = 0.5 * (worst[:, :1] + worst[:, 1:])
        return Mahdavi2012State(state.agents, x, ascended(state.lam, between, step.beta, step.gamma))
