"""Distributed online linear regressions of Yuan et al. 2021: DOCO-LTC with two points for the loss.

Source: "Distributed online linear regressions", IEEE Trans. Information Theory 67(1), 616-639, 2021, arXiv 1902.04774.
Setting and bounds are as published; the update and the step sizes are recalled, with medium to low confidence, as those
of `yuan2022` with another estimate of the loss's gradient:

    df  =  (p / (2 delta)) (f(x_t + delta u) - f(x_t - delta u)) u

x_t, y_t, the dual, the constraints and the set are as in `yuan2022`. The decision that is scored is x_t; the two points
are only asked about. X is shrunk by xi = delta/r(X), so that they lie inside.

Guarantee, for square losses and linear constraints that do not change, and with G = gradient_bound at least the norm of
every gradient: regret O(T^max(c, 1 - c)) and violation O(T^(1 - c/2)). The "strongly-convex" steps are those of Theorem
2 of `yuan2022`; no bound is known to us for them here.
"""

from pydantic import PositiveFloat

from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Feedback, Gossip, Values
from slaternet_agent.algorithms.estimators import symmetric, symmetric_points
from slaternet_agent.algorithms.gossiping import State
from slaternet_agent.algorithms.schedules import Rate, Rule, Rules
from slaternet_agent.algorithms.yuan2022 import Above1, DocoLtc, exact_convex, exact_strongly_convex, exploring

_RATE = 0.5  # a difference of two values has no variance to fear from a small radius


def convex(
    game: AlgorithmGame,
    *,
    c: Rate = 0.5,
    a: Above1 = 2.0,
    gradient_bound: PositiveFloat = 1.0,
    delta0: PositiveFloat = 1.0,
) -> Rule:
    """Return alpha = 1/(a m G^2 T^c), gamma = T^c, delta = delta0 T^(-1/2), at most r(X), xi = delta/r(X)."""
    return exploring(game, exact_convex(game, c=c, a=a, gradient_bound=gradient_bound), delta0, _RATE)


def strongly_convex(
    game: AlgorithmGame, *, mu: PositiveFloat, gradient_bound: PositiveFloat = 1.0, delta0: PositiveFloat = 1.0
) -> Rule:
    """Return alpha = 1/(mu s), gamma = mu s/(2 m G^2), delta = delta0 T^(-1/2), at most r(X), xi = delta/r(X)."""
    return exploring(game, exact_strongly_convex(game, mu=mu, gradient_bound=gradient_bound), delta0, _RATE)


SCHEDULES: Rules = {"convex": convex, "strongly-convex": strongly_convex}


class Yuan2021(DocoLtc):
    """Two points for the loss, on both sides of the decision; gradients of the constraints at it."""

    feedback = Feedback(points=2, constraint_gradient=True)
    sequences = ("alpha", "gamma", "xi", "delta")
    schedules = SCHEDULES

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        """Mix and project, and look to both sides."""
        step = self._schedule.step(t)
        x = self._set.project(gossip.mixed, scale=1.0 - step.xi)
        return Decision(x, symmetric_points(x, self._directions.at(state.agents, t), step.delta))

    def update(self, state: State, decision: Decision, seen: Values, t: int) -> State:
        """Step down the estimate made from the two values."""
        slope = symmetric(seen.f, self.width, self._schedule.step(t).delta)
        return self._descended(state, decision, slope[:, None] * self._directions.at(state.agents, t), seen, t)
