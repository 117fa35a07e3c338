"""Algorithms 1 and 2 of Yi et al. 2023: distributed primal-dual with clipped constraints and a dual that remembers.

Source: "Regret and cumulative constraint violation analysis for distributed online constrained convex optimization",
IEEE Trans. Automatic Control 68(5), 2875-2890. The Lagrangian f + q'[g]_+ - (beta/2) |q|^2 and the bounds are sure; the
steps of the two updates below are recalled, with medium confidence.

z_t       State.z        (k, p)     gossiped, inside (1 - xi_t) X
q_t       State.q        (k, m)     the dual, 0 at first, never gossiped
x_t       Decision.x     (k, p)     W_t z_t, the decision that is scored
dG                                  the gradient of [g]_+, or its estimate: first clipped, then differenced along u_t

    z_{t+1} = P_{(1 - xi_{t+1}) X}(x_t - alpha_t (df + dG q_t))
    q_{t+1} = [(1 - beta_t gamma_t) q_t + gamma_t ([g(x_t)]_+ + dG'(z_{t+1} - x_t))]_+

So with `dual_linearised`, the default and the form of the authors' neighbouring papers. Without it the dual moves first
and without the linear term, q_{t+1} = [(1 - beta_t gamma_t) q_t + gamma_t [g(x_t)]_+]_+, and the primal step uses
q_{t+1}, as section III-A of Zhang et al. describes it. Both have the same rates; on the paper's example the second ends
with little more than half of the first's violation.

Guarantee, for convex losses and bounded convex f and g with bounded gradients: regret O(T^max(kappa, 1 - kappa)) and
violation O(T^(1 - kappa/2)) with c = kappa; for strongly convex losses regret O(T^kappa) with c from max(kappa, 1 -
kappa) on. It needs alpha_t at most about beta_t / G2^2, and gains nothing from Slater's condition.
"""

import dataclasses
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field, PositiveFloat

from slaternet.fields import checked
from slaternet.model import Agents, Array
from slaternet.numerics.portable import power
from slaternet_agent.algorithms import gossiping
from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Feedback, Gossip, Schedule, Values
from slaternet_agent.algorithms.duals import ascended, clipped, weighted_gradient, weighted_slope
from slaternet_agent.algorithms.estimators import forward, forward_points
from slaternet_agent.algorithms.gossiping import Gossiping
from slaternet_agent.algorithms.schedules import Rate, Rule, Rules, Step

RateTo1 = Annotated[float, Field(gt=0, le=1), "above 0 and at most 1"]  # 1 is for strongly convex losses


def table2(game: AlgorithmGame, *, delta0: PositiveFloat = 0.01) -> Rule:
    """Table II of Zhang et al.: alpha = 1/s, beta = gamma = s^(-1/2), xi = 1/(s + 1), delta = delta0/(s + 1)."""
    del game

    def rule(s: float) -> Step:
        root = power(s, -0.5)
        return Step(alpha=1.0 / s, beta=root, gamma=root, xi=1.0 / (s + 1.0), delta=delta0 / (s + 1.0))

    return rule


def convex(game: AlgorithmGame, *, c: RateTo1 = 0.5, kappa: Rate = 0.5, alpha0: PositiveFloat = 1.0) -> Rule:
    """Return alpha = alpha0 s^-c, beta = s^-kappa, gamma = s^(kappa - 1), xi = (s + 1)^-c and delta = r(X) xi.

    Recalled, with medium confidence; convex losses take c = kappa, strongly convex ones c >= max(kappa, 1 - kappa).
    """
    exact = exact_convex(game, c=c, kappa=kappa, alpha0=alpha0)

    def rule(s: float) -> Step:
        xi = power(s + 1.0, -c)
        return dataclasses.replace(exact(s), xi=xi, delta=game.set.inner * xi)

    return rule


def exact_convex(game: AlgorithmGame, *, c: RateTo1 = 0.5, kappa: Rate = 0.5, alpha0: PositiveFloat = 1.0) -> Rule:
    """Return the same alpha, beta and gamma; exact gradients need neither shrinkage nor exploration."""
    del game
    return lambda s: Step(alpha=alpha0 * power(s, -c), beta=power(s, -kappa), gamma=power(s, kappa - 1.0))


SCHEDULES: Rules = {"table2": table2, "convex": convex}
EXACT_SCHEDULES: Rules = {"convex": exact_convex}


@dataclass(frozen=True, slots=True)
class Yi2023State(gossiping.State):
    """The state of the agents between rounds: z and the dual."""

    q: Array  # (k, m)


@dataclass(frozen=True, slots=True)
class _Along:
    """f and G = [g]_+ to first order about x, known by slopes along one direction."""

    clipped: Array  # (k, m)
    u: Array  # (k, p)
    df: Array  # (k,)
    dg: Array  # (k, m)

    def gradient(self, q: Array) -> Array:
        """Return df + dG q, (k, p)."""
        slope: Array = self.df + weighted_slope(q, self.dg)
        return slope[:, None] * self.u

    def change(self, move: Array) -> Array:
        """Return dG' move, (k, m)."""
        along: Array = np.add.reduce(np.multiply(self.u, move, order="C"), axis=-1)
        return self.dg * along[:, None]


@dataclass(frozen=True, slots=True)
class _Exact:
    """f and G = [g]_+ to first order about x, known by gradients."""

    clipped: Array  # (k, m)
    df: Array  # (k, p)
    dg: Array  # (k, m, p)

    def gradient(self, q: Array) -> Array:
        """Return df + dG q, (k, p)."""
        return self.df + weighted_gradient(q, self.dg)

    def change(self, move: Array) -> Array:
        """Return dG' move, (k, m)."""
        change: Array = np.add.reduce(np.multiply(self.dg, move[:, None], order="C"), axis=-1)
        return change


class _Remembering(Gossiping):
    """Base of the two algorithms: gossip before the decision, and the primal-dual step."""

    @checked("algorithm")
    def __init__(self, game: AlgorithmGame, schedule: Schedule, *, dual_linearised: bool = True) -> None:
        super().__init__(game, schedule)
        self._constraints = game.constraints
        self._linearised = dual_linearised

    def start(self, agents: Agents) -> Yi2023State:
        """Begin at the centre, with duals 0."""
        k = len(agents)
        return Yi2023State(agents, np.tile(self._set.centre, (k, 1)), np.zeros((k, self._constraints)))

    def _stepped(self, state: Yi2023State, x: Array, about: _Along | _Exact, step: Step, scale: float) -> Yi2023State:
        """Return the state after a round, from the first order of f and [g]_+ about x."""
        q = state.q if self._linearised else ascended(state.q, about.clipped, step.beta, step.gamma)
        z = self._set.project(x - step.alpha * about.gradient(q), scale=scale)
        if self._linearised:
            q = ascended(state.q, about.clipped + about.change(z - x), step.beta, step.gamma)
        return Yi2023State(state.agents, z, q)


class Yi2023(_Remembering):
    """Algorithm 2: two points per round."""

    feedback = Feedback(points=2)
    sequences = ("alpha", "beta", "gamma", "xi", "delta")
    schedules = SCHEDULES

    def row_scale(self, t: int) -> float:
        """z_t lies in (1 - xi_t) X."""
        return 1.0 - self._schedule.step(t).xi

    def decide(self, state: Yi2023State, gossip: Gossip, t: int) -> Decision:
        """Mix, and look one exploration step ahead."""
        x = gossip.mixed
        u = self._directions.at(state.agents, t)
        return Decision(x, forward_points(x, u, self._schedule.step(t).delta))

    def update(self, state: Yi2023State, decision: Decision, seen: Values, t: int) -> Yi2023State:
        """Take the primal-dual step along the direction of the round."""
        step = self._schedule.step(t)
        g = clipped(seen.g)
        about = _Along(
            g[:, 0],
            self._directions.at(state.agents, t),
            forward(seen.f, self.width, step.delta),
            forward(g, self.width, step.delta),
        )
        return self._stepped(state, decision.x, about, step, 1.0 - step.next_xi)


class Yi2023Full(_Remembering):
    """Algorithm 1: gradients of loss and constraints."""

    feedback = Feedback(loss_gradient=True, constraint_gradient=True)
    sequences = ("alpha", "beta", "gamma")
    schedules = EXACT_SCHEDULES

    def row_scale(self, t: int) -> float:
        """z_t lies in X."""
        del t
        return 1.0

    def decide(self, state: Yi2023State, gossip: Gossip, t: int) -> Decision:
        """Mix; the gradients are taken at the decision."""
        del state, t
        return Decision.without_points(gossip.mixed)

    def update(self, state: Yi2023State, decision: Decision, seen: Values, t: int) -> Yi2023State:
        """Take the primal-dual step, projected on X itself."""
        assert seen.loss is not None
        assert seen.constraint is not None
        value, gradient = seen.constraint.value, seen.constraint.gradient
        # [g]_+ is flat where g <= 0, also for a constraint whose dual is still positive
        active = np.where(value[..., None] > 0.0, gradient, 0.0)
        about = _Exact(clipped(value), seen.loss.gradient, active)
        return self._stepped(state, decision.x, about, self._schedule.step(t), 1.0)
