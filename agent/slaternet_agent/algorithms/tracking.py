"""Gradient tracking from values at two points, with the memoryless dual of Algorithm 1, for the k agents of one host.

Sources: the tracking of an average gradient by gossip is that of DIGing (A. Nedic, A. Olshevsky, W. Shi, "Achieving
geometric convergence for distributed optimization over time-varying graphs", SIAM J. Optimization 27(4), 2597-2633,
2017), recalled, with high confidence. Estimates from values in its place are those of Y. Tang, J. Zhang, N. Li,
"Distributed zero-order algorithms for nonconvex multiagent optimization", IEEE Trans. Control of Network Systems 8(1),
269-281, 2021, recalled, with medium confidence; they need more points. Points, dual and projection are those of
Algorithm 1 (`zhang2024`); to put the three together is our own derivation, and no bound is known to us for it.

z_t, s_t   State.z, State.s   (k, p)    gossiped: z_t, inside (1 - xi_t) X, and the tracked gradient, 0 at first
d_t        State.d            (k, p)    the agent's last estimate of its loss's gradient, 0 at first
x_t        Decision.x         (k, p)    the decision that is scored
y_t        Decision.memo      (k, p)    W_t s_t: the update needs it, and it follows from no state of the agent
u_t        u                  (k, p)    uniform on the unit sphere, one per agent

    x_t     = P_{(1 - xi_t) X}(W_t z_t)                               y_t = W_t s_t
    d_{t+1} = (p/delta_t) (f(x_t + delta_t u_t) - f(x_t)) u_t         s_{t+1} = y_t + d_{t+1} - d_t
    q_{t+1} = gamma_t [g(x_t)]_+
    c_{t+1} = (p/delta_t) <q_{t+1}, g(x_t + delta_t u_t) - g(x_t)> u_t
    z_{t+1} = P_{(1 - xi_{t+1}) X}(x_t - alpha_t (s_{t+1} + c_{t+1}))

The average of s over the agents is that of d in every round, so that an agent descends the loss of all rather than its
own. The constraints' part c is not tracked: its dual has no memory, so what it was in the round before says nothing.
Where agents leave, what they had put into s stays with the others. Tracking pays where losses differ between agents and
last (`examples/bowl.toml`, a little); where they are drawn anew in every round, as in the paper's example, it tracks
noise, and loses more than Algorithm 1 does.

The first projection does nothing but where rows were changed on their way, by a gossip code or by a host that cheats.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from slaternet.model import Agents, Array
from slaternet_agent.algorithms import gossiping
from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Feedback, Gossip, Schedule, Values
from slaternet_agent.algorithms.duals import memoryless, weighted_slope
from slaternet_agent.algorithms.estimators import forward, forward_points
from slaternet_agent.algorithms.gossiping import Gossiping


@dataclass(frozen=True, slots=True)
class TrackingState(gossiping.State):
    """The state of the agents between rounds: z, the tracked gradient, and the last estimate that went into it."""

    s: Array  # (k, p)
    d: Array  # (k, p)


class Tracking(Gossiping):
    """Two points per round; gossips its point and its gradient."""

    feedback = Feedback(points=2)

    def __init__(self, game: AlgorithmGame, schedule: Schedule) -> None:
        super().__init__(game, schedule)
        self._dimension = self.memo_width = game.dimension
        self.width = 2 * game.dimension

    def start(self, agents: Agents) -> TrackingState:
        """Begin at the centre, with no gradient known."""
        nothing = np.zeros((len(agents), self._dimension))
        return TrackingState(agents, np.tile(self._set.centre, (len(agents), 1)), nothing, nothing)

    def outgoing(self, state: Any, t: int) -> Array:  # noqa: ANN401  a TrackingState
        """Gossip z and s."""
        del t
        rows: Array = np.concatenate((state.z, state.s), axis=1)
        return rows

    def decide(self, state: TrackingState, gossip: Gossip, t: int) -> Decision:
        """Mix both, and look one exploration step ahead; the mixed gradient waits in the memo."""
        step = self._schedule.step(t)
        z, y = np.split(gossip.mixed, 2, axis=1)
        x = self._set.project(np.ascontiguousarray(z), scale=1.0 - step.xi)
        points = forward_points(x, self._directions.at(state.agents, t), step.delta)
        return Decision(x, points, memo=np.ascontiguousarray(y))

    def update(self, state: TrackingState, decision: Decision, seen: Values, t: int) -> TrackingState:
        """Track the gradient of the loss, and take the primal-dual step along it."""
        step, p = self._schedule.step(t), self._dimension
        u = self._directions.at(state.agents, t)
        d = forward(seen.f, p, step.delta)[:, None] * u
        s = decision.memo + (d - state.d)
        q = memoryless(seen.g[:, 0], step.gamma)
        c = weighted_slope(q, forward(seen.g, p, step.delta))[:, None] * u
        z = self._set.project(decision.x - step.alpha * (s + c), scale=1.0 - step.next_xi)
        return TrackingState(state.agents, z, s, d)
