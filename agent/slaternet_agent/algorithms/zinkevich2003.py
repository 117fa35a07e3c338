"""Online gradient descent: Zinkevich (ICML 2003), and with the steps of Hazan, Agarwal and Kale (2007).

    x_{t+1} = P_X(x_t - alpha_t grad f_t(x_t))

Recalled with high confidence. Centralised, and blind to the constraints: g is never asked for. Regret O(sqrt T) for
convex losses with bounded gradients, O(log T) where every loss is strongly convex; nothing is promised about the
violation.

x_t   SolitaryState.x   (k, p)   the decision that is scored
"""

from pydantic import PositiveFloat

from slaternet.numerics.portable import power
from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Feedback, Gossip, Values
from slaternet_agent.algorithms.schedules import Rule, Rules, Step
from slaternet_agent.algorithms.solitary import Solitary, SolitaryState


def convex(game: AlgorithmGame, *, alpha0: PositiveFloat = 1.0) -> Rule:
    """Zinkevich: alpha = alpha0 s^-1/2; best is alpha0 = D/G, the diameter of X over the bound of the gradients."""
    del game
    return lambda s: Step(alpha=alpha0 * power(s, -0.5))


def strongly_convex(game: AlgorithmGame, *, mu: PositiveFloat) -> Rule:
    """Hazan et al.: alpha = 1/(mu s), mu the modulus of strong convexity of every loss."""
    del game
    return lambda s: Step(alpha=1.0 / (mu * s))


SCHEDULES: Rules = {"convex": convex, "strongly-convex": strongly_convex}


class Zinkevich2003(Solitary):
    """The gradient of the loss at the decision; constraints are ignored."""

    feedback = Feedback(loss_gradient=True)
    sequences = ("alpha",)
    schedules = SCHEDULES

    def decide(self, state: SolitaryState, gossip: Gossip, t: int) -> Decision:
        """Play x."""
        del gossip, t
        return Decision.without_points(state.x)

    def update(self, state: SolitaryState, decision: Decision, seen: Values, t: int) -> SolitaryState:
        """Step against the gradient."""
        assert seen.loss is not None
        moved = decision.x - self._schedule.step(t).alpha * seen.loss.gradient
        return SolitaryState(state.agents, self._set.project(moved))
