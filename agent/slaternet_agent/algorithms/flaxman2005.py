"""Flaxman, Kalai and McMahan (SODA 2005): gradient descent without a gradient, from the one value that was played.

    x_t = y_t + delta u_t,   u_t uniform on the sphere;   x_t is played, scored, and the only point asked about
    df  = (p/delta) f_t(x_t) u_t
    y_{t+1} = P_{(1 - xi) X}(y_t - alpha df),   alpha = nu delta/p in the paper's nu

Recalled with high confidence. Centralised, and blind to the constraints: g comes with the value and is not used. Regret
O(T^3/4) for convex losses bounded by C and L-Lipschitz, with a known horizon; nothing is promised about the violation.

y_t   State.y      (k, p)   the point explored about, inside (1 - xi) X
x_t   Decision.x   (k, p)   the decision that is scored, inside X
"""

import math
from dataclasses import dataclass

from pydantic import PositiveFloat

from slaternet.model import Agents, Array
from slaternet.numerics.portable import power
from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Feedback, Gossip, Values
from slaternet_agent.algorithms.estimators import one_point, sphere_point
from slaternet_agent.algorithms.schedules import Rule, Rules, Step, horizon
from slaternet_agent.algorithms.solitary import Solitary


@dataclass(frozen=True, slots=True)
class Flaxman2005State:
    """The state of the agents between rounds."""

    agents: Agents  # (k,)
    y: Array  # (k, p)


def convex(game: AlgorithmGame, *, value_bound: PositiveFloat = 1.0, gradient_bound: PositiveFloat = 1.0) -> Rule:
    """Their steps for Lipschitz losses, with r, R of X, |f| <= C = value_bound and |grad f| <= L = gradient_bound.

    nu = R/(C T^1/2), delta = T^-1/4 (p R C r / (3 (L r + C)))^1/2, at most r, xi = delta/r, alpha = nu delta/p.
    """
    inner, outer, rounds = game.set.inner, game.set.outer, horizon(game)
    nu = outer * power(rounds, -0.5) / value_bound
    spread = game.dimension * outer * value_bound * inner / (3.0 * (gradient_bound * inner + value_bound))
    delta = min(inner, power(rounds, -0.25) * math.sqrt(spread))
    return lambda s: Step(alpha=nu * delta / game.dimension, xi=delta / inner, delta=delta)


SCHEDULES: Rules = {"convex": convex}


class Flaxman2005(Solitary):
    """One point per round, which is the decision; constraints are ignored."""

    feedback = Feedback(points=1)
    sequences = ("alpha", "xi", "delta")
    schedules = SCHEDULES

    def start(self, agents: Agents) -> Flaxman2005State:
        """Begin at the centre."""
        return Flaxman2005State(agents, self._centre(agents))

    def decide(self, state: Flaxman2005State, gossip: Gossip, t: int) -> Decision:
        """Play one exploration step away from y: the point asked about is the decision."""
        del gossip
        u = self._directions.at(state.agents, t)
        points = sphere_point(state.y, u, self._schedule.step(t).delta)
        return Decision(points[:, 0].copy(), points)

    def update(self, state: Flaxman2005State, decision: Decision, seen: Values, t: int) -> Flaxman2005State:
        """Descend along the direction played."""
        del decision
        step = self._schedule.step(t)
        slope = step.alpha * one_point(seen.f, self._game.dimension, step.delta)
        moved = state.y - slope[:, None] * self._directions.at(state.agents, t)
        return Flaxman2005State(state.agents, self._set.project(moved, scale=1.0 - step.next_xi))
