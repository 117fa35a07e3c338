"""Algorithm 1 of Zhang et al.: distributed bandit online primal-dual, for the k agents of one host.

z_t       State.z          (k, p)      what is gossiped, inside (1 - xi_t) X
x_t       Decision.x       (k, p)      the decision that is scored
u_t       u                (k, p)      uniform on the unit sphere, one per agent
f, g      Seen.f, Seen.g   (k, 2(, m)) values at x_t and x_t + delta_t u_t
q_{t+1}   q                (k, m)      the dual: no memory, hence no state
w_{t+1}   slope * u        (k, p)      the estimate of the Lagrangian's gradient
"""

from dataclasses import dataclass

import numpy as np

from slaternet.model import Agents, Array
from slaternet_agent.algorithms.base import Algorithm, Decision, Feedback, Game, Gossip, Schedule, Seen
from slaternet_agent.duals import memoryless, weighted_slope
from slaternet_agent.estimators import Directions, forward, forward_points


@dataclass(frozen=True, slots=True)
class State:
    """What the agents remember between rounds."""

    agents: Agents  # (k,)
    z: Array  # (k, p)


class Zhang2024(Algorithm):
    """Two points per round, a memoryless dual, gossip before the decision."""

    feedback = Feedback(points=2)

    def __init__(self, game: Game, schedule: Schedule) -> None:
        self.width = game.dimension
        self._set = game.set
        self._schedule = schedule
        self._directions = Directions(game)

    def start(self, agents: Agents) -> State:
        """Begin at the centre, which lies in (1 - xi_1) X even where xi_1 = 1 leaves nothing else."""
        return State(agents, np.tile(self._set.centre, (len(agents), 1)))

    def outgoing(self, state: State) -> Array:
        """Gossip z."""
        return state.z

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        """Algorithm1-eq1: mix, and look one exploration step ahead."""
        x = gossip.mixed
        u = self._directions.at(state.agents, t)
        return Decision(x, forward_points(x, u, self._schedule.step(t).delta))

    def update(self, state: State, decision: Decision, seen: Seen, t: int) -> State:
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
