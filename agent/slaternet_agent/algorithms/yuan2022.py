"""Algorithms 1 and 2 of Yuan et al. 2022, DOCO-LTC: the gradient step first, then gossip, then the projection.

Source: "Distributed online optimization with long-term constraints", IEEE Trans. Automatic Control 2022, arXiv
1912.09705; updates and step sizes as published.

y_t     State.z            (k, p)     gossiped in round t + 1, may lie outside X; y_0 is the centre
x_t     Decision.anchor    (k, p)     P_{(1 - xi_t) X}(W_t y_{t-1})
lam_t   dual               (k, m)     [g(x_t)]_+ / eta_{t-1}, a function of x_t and hence no state; lam_1 = 0

    y_t = x_t - alpha_t (df(x_t) + dg(x_t) lam_t)

alpha is the beta of the source, gamma = 1/eta, delta its eps and xi its pi. Algorithm 1 (`yuan2022-full`) has the exact
df and projects on X itself. Algorithm 2 (`yuan2022`) estimates df by (p/delta) f(x_t + delta u) u from one point: the
point that is played and scored. g and dg are exact and taken at x_t, never at the point played.

The source fixes one set of constraints that everyone knows, and its set B is a ball; here g_{i,t} of the current round
stands for them, and X for B, shrunk by xi = delta/r(X) about its centre (the source's box prints B, its text needs the
shrunk set). Rounds are counted as everywhere: y_{t-1} is mixed with W_t.

Guarantee, for constraints that do not change, and with G = gradient_bound at least the norm of every gradient of f and
of every row of g: with one point regret O(T^max(c, 1 - c/3)) and violation O(T^(1 - c/2)), for strongly convex losses
regret O(T^(2/3) log T) and violation O(sqrt(T log T)) (Table I of Zhang et al.); with gradients, recalled with medium
confidence, regret O(T^max(c, 1 - c)) and O(log T) and the same violation. With constraints that change nothing is
promised.
"""

import dataclasses
from typing import Annotated

from pydantic import Field, PositiveFloat

from slaternet.model import Array
from slaternet.numerics.portable import power
from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Feedback, Gossip, Values
from slaternet_agent.algorithms.duals import memoryless, weighted_gradient
from slaternet_agent.algorithms.estimators import one_point, sphere_point
from slaternet_agent.algorithms.gossiping import Gossiping, State
from slaternet_agent.algorithms.schedules import Rate, Rule, Rules, Step, horizon

Above1 = Annotated[float, Field(gt=1)]


def exact_convex(game: AlgorithmGame, *, c: Rate = 0.5, a: Above1 = 2.0, gradient_bound: PositiveFloat = 1.0) -> Rule:
    """Theorem 1: alpha = 1/(a m G^2 T^c) and gamma = T^c in every round, with c in (0, 1) and a > 1."""
    growth = power(horizon(game), c)
    step = Step(alpha=1.0 / (a * _scale(game, gradient_bound) * growth), gamma=growth)
    return lambda s: step


def exact_strongly_convex(game: AlgorithmGame, *, mu: PositiveFloat, gradient_bound: PositiveFloat = 1.0) -> Rule:
    """Theorem 2: alpha = 1/(mu s) and gamma = mu s/(2 m G^2)."""
    scale = 2.0 * _scale(game, gradient_bound)
    return lambda s: Step(alpha=1.0 / (mu * s), gamma=mu * s / scale)


def convex(
    game: AlgorithmGame,
    *,
    c: Rate = 0.5,
    a: Above1 = 2.0,
    gradient_bound: PositiveFloat = 1.0,
    delta0: PositiveFloat = 1.0,
) -> Rule:
    """Theorem 3: alpha and gamma of Theorem 1, delta = delta0 T^(-c/3), at most r(X), and xi = delta/r(X).

    G must be a true bound: the estimate is as large as (p/delta) f, and with too small a G it moves the iterates to the
    border of X. On the paper's example, where gradients of g reach 8.9, G = 10 works well and G = 1 does not.
    """
    exact = exact_convex(game, c=c, a=a, gradient_bound=gradient_bound)
    return exploring(game, exact, delta0, c / 3.0)


def strongly_convex(
    game: AlgorithmGame, *, mu: PositiveFloat, gradient_bound: PositiveFloat = 1.0, delta0: PositiveFloat = 1.0
) -> Rule:
    """Theorem 4: alpha and gamma of Theorem 2, delta = delta0 T^(-1/3), at most r(X), and xi = delta/r(X)."""
    return exploring(game, exact_strongly_convex(game, mu=mu, gradient_bound=gradient_bound), delta0, 1.0 / 3.0)


def exploring(game: AlgorithmGame, exact: Rule, delta0: float, rate: float) -> Rule:
    """Return a rule that explores by delta = delta0 T^-rate, at most r(X), and shrinks X so that points stay inside."""
    delta = min(game.set.inner, delta0 * power(horizon(game), -rate))
    xi = delta / game.set.inner
    return lambda s: dataclasses.replace(exact(s), xi=xi, delta=delta)


def _scale(game: AlgorithmGame, gradient_bound: float) -> float:
    """Return m G^2."""
    return game.constraints * gradient_bound * gradient_bound


SCHEDULES: Rules = {"convex": convex, "strongly-convex": strongly_convex}
EXACT_SCHEDULES: Rules = {"convex": exact_convex, "strongly-convex": exact_strongly_convex}


class DocoLtc(Gossiping):
    """The step of this family of algorithms; they differ in the gradient of the loss."""

    def _descended(self, state: State, decision: Decision, loss: Array, seen: Values, t: int) -> State:
        """Return the state after round t, from the gradient of the loss, (k, p)."""
        x = decision.x if decision.anchor is None else decision.anchor
        # The dual of round t was due at the end of round t - 1, with the step of that round; the first is 0.
        gamma = self._schedule.step(t - 1).gamma if t > 1 else 0.0
        assert seen.constraint is not None
        dual = memoryless(seen.constraint.value, gamma)
        # the gradient of [g]_+ is that of g where g > 0; elsewhere the dual is 0
        w = loss + weighted_gradient(dual, seen.constraint.gradient)
        return State(state.agents, x - self._schedule.step(t).alpha * w)


class Yuan2022(DocoLtc):
    """Algorithm 2: one point for the loss, which is the decision; gradients of the constraints beside it."""

    feedback = Feedback(points=1, constraint_gradient=True)
    sequences = ("alpha", "gamma", "xi", "delta")
    schedules = SCHEDULES

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        """Mix and project, and play a point beside it."""
        step = self._schedule.step(t)
        x = self._set.project(gossip.mixed, scale=1.0 - step.xi)
        points = sphere_point(x, self._directions.at(state.agents, t), step.delta)
        return Decision(points[:, 0], points, anchor=x)

    def update(self, state: State, decision: Decision, seen: Values, t: int) -> State:
        """Step from the anchor, down the estimate made from the one value."""
        slope = one_point(seen.f, self.width, self._schedule.step(t).delta)
        loss = slope[:, None] * self._directions.at(state.agents, t)
        return self._descended(state, decision, loss, seen, t)


class Yuan2022Full(DocoLtc):
    """Algorithm 1: gradients of loss and constraints."""

    feedback = Feedback(loss_gradient=True, constraint_gradient=True)
    sequences = ("alpha", "gamma")
    schedules = EXACT_SCHEDULES

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        """Mix and project; the gradients are taken at the decision."""
        del state, t
        return Decision.without_points(self._set.project(gossip.mixed))

    def update(self, state: State, decision: Decision, seen: Values, t: int) -> State:
        """Step down the exact gradient."""
        assert seen.loss is not None
        return self._descended(state, decision, seen.loss.gradient, seen, t)
