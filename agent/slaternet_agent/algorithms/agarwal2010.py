"""Agarwal, Dekel and Xiao (COLT 2010): gradient descent on estimates from two points, or from p + 1.

    two points     df = (p/(2 delta)) (f_t(x_t + delta u_t) - f_t(x_t - delta u_t)) u_t,   u_t uniform on the sphere
    p + 1 points   df = (1/delta) sum_j (f_t(x_t + delta e_j) - f_t(x_t)) e_j,             without chance
    x_{t+1} = P_{(1 - xi) X}(x_t - alpha_t df)

Recalled with high confidence. Centralised, and blind to the constraints: g comes with the values and is not used.
Regret O(p^2 sqrt T) for convex and O(p^2 log T) for strongly convex losses from two points, O(sqrt T) and O(log T) from
p + 1, for Lipschitz losses (p + 1 points: smooth ones) and a known horizon; nothing is promised about the violation.
The paper scores the points asked about; here x_t is scored. With two points its loss is at most their average, by
convexity; with p + 1 it differs from theirs by at most the losses' Lipschitz constant times delta.

x_t   SolitaryState.x   (k, p)   the decision that is scored, inside (1 - xi) X
"""

from pydantic import PositiveFloat

from slaternet.model import Array
from slaternet.numerics.portable import logarithm, power
from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Feedback, Gossip, Schedule, Values
from slaternet_agent.algorithms.estimators import coordinate_points, coordinates, symmetric, symmetric_points
from slaternet_agent.algorithms.schedules import Rule, Rules, Step, horizon
from slaternet_agent.algorithms.solitary import Solitary, SolitaryState


def convex(game: AlgorithmGame, *, alpha0: PositiveFloat = 1.0) -> Rule:
    """Convex losses: alpha = alpha0 T^-1/2, delta = min(r(X), log T / T), xi = delta/r(X)."""
    alpha = alpha0 * power(horizon(game), -0.5)
    delta = _radius(game)
    return lambda s: Step(alpha=alpha, xi=delta / game.set.inner, delta=delta)


def strongly_convex(game: AlgorithmGame, *, mu: PositiveFloat) -> Rule:
    """Losses with modulus mu of strong convexity: alpha = 1/(mu s), delta = min(r(X), log T / T), xi = delta/r(X)."""
    delta = _radius(game)
    return lambda s: Step(alpha=1.0 / (mu * s), xi=delta / game.set.inner, delta=delta)


def _radius(game: AlgorithmGame) -> float:
    rounds = max(horizon(game), 2)  # one round alone would not explore: log 1 = 0
    return min(game.set.inner, logarithm(rounds) / rounds)


SCHEDULES: Rules = {"convex": convex, "strongly-convex": strongly_convex}


class _Descent(Solitary):
    """Base of both algorithms: projected descent."""

    sequences = ("alpha", "xi", "delta")
    schedules = SCHEDULES

    def _descended(self, state: SolitaryState, gradient: Array, t: int) -> SolitaryState:
        step = self._schedule.step(t)
        moved = state.x - step.alpha * gradient
        return SolitaryState(state.agents, self._set.project(moved, scale=1.0 - step.next_xi))


class Agarwal2010(_Descent):
    """Two points per round, on both sides of the decision; constraints are ignored."""

    feedback = Feedback(points=2)

    def decide(self, state: SolitaryState, gossip: Gossip, t: int) -> Decision:
        """Play x, and ask on both sides of it."""
        del gossip
        u = self._directions.at(state.agents, t)
        return Decision(state.x, symmetric_points(state.x, u, self._schedule.step(t).delta))

    def update(self, state: SolitaryState, decision: Decision, seen: Values, t: int) -> SolitaryState:
        """Descend along the direction asked about."""
        del decision
        u = self._directions.at(state.agents, t)
        slope = symmetric(seen.f, self._game.dimension, self._schedule.step(t).delta)
        return self._descended(state, slope[:, None] * u, t)


class Agarwal2010Multi(_Descent):
    """p + 1 points per round, the decision and one along each axis; constraints are ignored."""

    def __init__(self, game: AlgorithmGame, schedule: Schedule) -> None:
        super().__init__(game, schedule)
        self.feedback = Feedback(points=game.dimension + 1)

    def decide(self, state: SolitaryState, gossip: Gossip, t: int) -> Decision:
        """Play x, and ask there and one step along each axis."""
        del gossip
        return Decision(state.x, coordinate_points(state.x, self._schedule.step(t).delta))

    def update(self, state: SolitaryState, decision: Decision, seen: Values, t: int) -> SolitaryState:
        """Descend along the estimated gradient."""
        del decision
        return self._descended(state, coordinates(seen.f, self._schedule.step(t).delta), t)
