"""Algorithm 1 of Yi et al. 2024: distributed mirror descent with gradients and a memoryless dual.

Source: "Distributed online convex optimization with adversarial constraints: reduced cumulative constraint violation
bounds under Slater's condition", arXiv 2306.00149, later IEEE Trans. Automatic Control 2025. The structure is that of
the description by Zhang et al. (sections I and III-A, Remark 2, Table II); the composite term of the original, recalled
with medium confidence, is 0 here: no loss of ours is given in two parts.

z_t       State.z        (k, p)     gossiped, inside X
x_t       Decision.x     (k, p)     W_t z_t, the decision that is scored
q_{t+1}   q              (k, m)     the dual: no memory, hence no state
w_{t+1}   w              (k, p)     the Lagrangian's gradient

    q_{t+1} = gamma_t [g(x_t)]_+
    w_{t+1} = df(x_t) + dg(x_t) q_{t+1}
    z_{t+1} = argmin over X of alpha_t <w_{t+1}, x> + D_psi(x, x_t)

psi = "square" is |x|^2, Table II's choice: D_psi(x, y) = |x - y|^2 has no half, so z_{t+1} = P_X(x_t - (alpha_t/2) w).
psi = "half-square" is |x|^2/2, which gives the whole step.

Guarantee, for bounded convex f and g with bounded gradients and gamma0 at most sigma/(4 G2^2) (recalled, medium
confidence; psi is sigma-strongly convex: 2 for the square, 1 for the half): regret O(T^max(c, 1 - c)), violation
O(T^(1 - c/2)), with Slater's condition O(T^(1 - c)); strongly convex losses O(log T), O(sqrt(T log T)), with Slater's
condition O(log T). Table II's gamma0 is far above the bound.
"""

from typing import Literal

from pydantic import PositiveFloat

from slaternet.fields import checked
from slaternet.numerics.portable import power
from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Feedback, Gossip, Schedule, Values
from slaternet_agent.algorithms.duals import memoryless, weighted_gradient
from slaternet_agent.algorithms.gossiping import Gossiping, State
from slaternet_agent.algorithms.schedules import Rate, Rule, Rules, Step

_STEPS = {"square": 0.5, "half-square": 1.0}
"""The share of alpha that is the step of the projection: 1/2 for |x|^2, whose gradient is 2x."""


def table2(game: AlgorithmGame, *, gamma0: PositiveFloat = 0.15) -> Rule:
    """Table II of Zhang et al.: alpha = 2/s, gamma = gamma0/alpha."""
    del game
    return lambda s: _tied(2.0 / s, gamma0)


def convex(game: AlgorithmGame, *, gamma0: PositiveFloat, c: Rate = 0.5, alpha0: PositiveFloat = 1.0) -> Rule:
    """Return alpha = alpha0 s^-c and gamma = gamma0/alpha, with c in (0, 1)."""
    del game
    return lambda s: _tied(alpha0 * power(s, -c), gamma0)


def strongly_convex(game: AlgorithmGame, *, mu: PositiveFloat, gamma0: PositiveFloat) -> Rule:
    """Return alpha = 1/(mu s) and gamma = gamma0/alpha.

    mu is measured against D_psi: with psi = "square" it is half the modulus against |x|^2/2.
    """
    del game
    return lambda s: _tied(1.0 / (mu * s), gamma0)


def _tied(alpha: float, gamma0: float) -> Step:
    return Step(alpha=alpha, gamma=gamma0 / alpha)


SCHEDULES: Rules = {"table2": table2, "convex": convex, "strongly-convex": strongly_convex}


class Yi2024(Gossiping):
    """Gradients, a memoryless dual, gossip before the decision."""

    feedback = Feedback(loss_gradient=True, constraint_gradient=True)
    sequences = ("alpha", "gamma")
    schedules = SCHEDULES

    @checked("algorithm")
    def __init__(
        self, game: AlgorithmGame, schedule: Schedule, *, psi: Literal["square", "half-square"] = "square"
    ) -> None:
        super().__init__(game, schedule)
        self._share = _STEPS[psi]

    def row_scale(self, t: int) -> float:
        """z_t lies in X."""
        del t
        return 1.0

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        """Mix; the gradients are taken at the decision."""
        del state, t
        return Decision.without_points(gossip.mixed)

    def update(self, state: State, decision: Decision, seen: Values, t: int) -> State:
        """Take the primal-dual step."""
        step = self._schedule.step(t)
        assert seen.loss is not None
        assert seen.constraint is not None
        q = memoryless(seen.constraint.value, step.gamma)
        w = seen.loss.gradient + weighted_gradient(q, seen.constraint.gradient)
        return State(state.agents, self._set.project(decision.x - self._share * step.alpha * w))
