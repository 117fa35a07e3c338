"""Algorithm 1 of Zhang et al.: distributed bandit online primal-dual, for the k agents of one host.

Source: K. Zhang, X. Yi, J. Ding, M. Cao, K. H. Johansson, T. Yang, "Reduced network cumulative constraint violation for
distributed bandit convex optimization under Slater's condition"; the rule stands there word for word.

z_t       State.z          (k, p)      gossiped, inside (1 - xi_t) X
x_t       Decision.x       (k, p)      the decision that is scored
u_t       u                (k, p)      uniform on the unit sphere, one per agent
f, g      Values.f, Values.g   (k, 2(, m)) values at x_t and x_t + delta_t u_t
q_{t+1}   q                (k, m)      the dual: no memory, hence no state
w_{t+1}   slope * u        (k, p)      the estimate of the Lagrangian's gradient

    x_t     = W_t z_t
    q_{t+1} = gamma_t [g(x_t)]_+
    w_{t+1} = (p/delta_t) (f(x_t + delta_t u_t) - f(x_t) + <q_{t+1}, g(x_t + delta_t u_t) - g(x_t)>) u_t
    z_{t+1} = P_{(1 - xi_{t+1}) X}(x_t - alpha_t w_{t+1})

Guarantee, for bounded convex f and g with gradients bounded by G1 and G2, a graph that connects over windows
(Assumptions 1 to 4) and gamma_0 = gamma_t alpha_t at most 1/(4 (p^2 + 1) G2^2): regret O(T^max(c, 1 - c)), violation
O(T^(1 - c/2)), with Slater's condition O(T^(1 - c)) (Theorems 1 and 2, alpha_t = t^-c; Theorem 3 for strongly convex
losses); with their modulus known O(log T), O(sqrt(T log T)), with Slater's condition O(log T) (Theorem 4).
"""

from slaternet_agent.algorithms.base import Decision, Feedback, Gossip, Values
from slaternet_agent.algorithms.duals import memoryless, weighted_slope
from slaternet_agent.algorithms.estimators import forward, forward_points
from slaternet_agent.algorithms.gossiping import Gossiping, State


class Zhang2024(Gossiping):
    """Two points per round, a memoryless dual, gossip before the decision."""

    feedback = Feedback(points=2)

    def row_scale(self, t: int) -> float:
        """z_t lies in (1 - xi_t) X."""
        return 1.0 - self._schedule.step(t).xi

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        """Algorithm1-eq1: mix, and look one exploration step ahead."""
        x = gossip.mixed
        u = self._directions.at(state.agents, t)
        return Decision(x, forward_points(x, u, self._schedule.step(t).delta))

    def update(self, state: State, decision: Decision, seen: Values, t: int) -> State:
        """Take the primal-dual step; exact to the bit."""
        step = self._schedule.step(t)
        u = self._directions.at(state.agents, t)

        # Algorithm1-eq2. The dual maximises the regularised Lagrangian. g is clipped here only, so that Slater's
        # condition keeps its force.
        q = memoryless(seen.g[:, 0], step.gamma)

        # Algorithm1-eq3. Forward differences along one direction serve the loss and every constraint row.
        slope = forward(seen.f, self.width, step.delta)
        slope += weighted_slope(q, forward(seen.g, self.width, step.delta))

        # Algorithm1-eq4. alpha of this round, shrinkage of the next: x + delta u must stay in X next time.
        slope *= step.alpha
        return State(state.agents, self._set.project(decision.x - slope[:, None] * u, scale=1.0 - step.next_xi))
