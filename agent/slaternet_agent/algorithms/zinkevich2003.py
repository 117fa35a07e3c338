"""Online gradient descent: Zinkevich (ICML 2003), and with the steps of Hazan, Agarwal and Kale (2007).

    x_{t+1} = P_X(x_t - alpha_t grad f_t(x_t))

Recalled with high confidence. Centralised, and blind to the constraints: g is never asked for. Regret O(sqrt T) for
convex losses with bounded gradients, O(log T) where every loss is strongly convex; nothing is promised about the
violation.

x_t   State.x   (k, p)   the decision that is scored
"""

from dataclasses import dataclass

from slaternet.model import Agents, Array
from slaternet.powers import power
from slaternet_agent.algorithms.alone import Alone
from slaternet_agent.algorithms.base import Decision, Feedback, Game, Gossip, Values
from slaternet_agent.schedules import Rule, Rules, Step, positive


@dataclass(frozen=True, slots=True)
class State:
    """What the agents remember between rounds."""

    agents: Agents  # (k,)
    x: Array  # (k, p)


def convex(game: Game, *, alpha0: object = 1.0) -> Rule:
    """Zinkevich: alpha = alpha0 s^-1/2; best is alpha0 = D/G, the diameter of X over the bound of the gradients."""
    del game
    first = positive("alpha0", alpha0)
    return lambda s: Step(alpha=first * power(s, -0.5))


def strongly_convex(game: Game, *, mu: object) -> Rule:
    """Hazan et al.: alpha = 1/(mu s), mu the modulus of strong convexity of every loss."""
    del game
    modulus = positive("mu", mu)
    return lambda s: Step(alpha=1.0 / (modulus * s))


SCHEDULES: Rules = {"convex": convex, "strongly-convex": strongly_convex}


class Zinkevich2003(Alone):
    """The gradient of the loss at the decision; constraints are ignored."""

    feedback = Feedback(loss_gradient=True)
    sequences = ("alpha",)
    schedules = SCHEDULES

    def start(self, agents: Agents) -> State:
        """Begin at the centre."""
        return State(agents, self._centre(agents))

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        """Play x."""
        del gossip, t
        return Decision(state.x, self._no_points(state.agents))

    def update(self, state: State, decision: Decision, seen: Values, t: int) -> State:
        """Step against the gradient."""
        assert seen.loss is not None
        moved = decision.x - self._schedule.step(t).alpha * seen.loss.gradient
        return State(state.agents, self._set.project(moved))
