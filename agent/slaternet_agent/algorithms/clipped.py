"""Algorithm 1 with clipped gossip: no neighbour can move an agent farther than a radius, whatever it sends.

Source of the mixing: ClippedGossip of L. He, S. P. Karimireddy, M. Jaggi, "Byzantine-robust decentralized learning via
ClippedGossip", arXiv 2202.01545, recalled, with high confidence; the radius that shrinks with t^-power, instead of one
chosen from the neighbours' distances, is our own derivation. The other steps are those of Algorithm 1 (`zhang2024`).

z_t       State.z          (k, p)      gossiped, inside (1 - xi_t) X
x_t       Decision.x       (k, p)      the decision that is scored
tau_t     tau / t^power                the radius; with power = 0 the same in every round

    CLIP(v, tau) = min(1, tau/|v|) v
    x_{i,t} = z_{i,t} + sum_j [W_t]_ij CLIP(z_{j,t} - z_{i,t}, tau_t)

and from there on q_{t+1}, w_{t+1} and z_{t+1} as in Algorithm 1. x_t is an average of points of (1 - xi_t) X, and is
projected on it all the same: a neighbour's row may be a copy from a gossip code, which loses something.

With a radius that is never reached this is Algorithm 1 up to rounding, and so are its bounds. Below that the weights
that an agent really uses are not doubly stochastic, and no bound is known to us for this game: against neighbours that
cheat, regret cannot be sublinear in general (Dong et al., IEEE Trans. Signal Processing 2023, recalled, medium to high
confidence). A radius too small slows the agreement down; one too large lets the liar in.
"""

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat

from slaternet.fields import checked
from slaternet.model import Array
from slaternet.numerics.portable import power as portable_power
from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Gossip, Schedule
from slaternet_agent.algorithms.estimators import forward_points
from slaternet_agent.algorithms.gossiping import State
from slaternet_agent.algorithms.zhang2024 import Zhang2024


class Clipped(Zhang2024):
    """Algorithm 1 that trusts no neighbour farther than tau / t^power."""

    @checked("algorithm")
    def __init__(
        self, game: AlgorithmGame, schedule: Schedule, *, tau: PositiveFloat = 1.0, power: NonNegativeFloat = 0.0
    ) -> None:
        super().__init__(game, schedule)
        self._tau, self._power = tau, power

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        """Move to the neighbours, to none farther than the radius, and look one exploration step ahead."""
        step, radius = self._schedule.step(t), self._tau * portable_power(float(t), -self._power)
        away = gossip.rows - np.repeat(state.z, np.diff(gossip.starts), axis=0)
        x = state.z + gossip.sum(gossip.weights[:, None] * _clip(away, radius))
        x = self._set.project(x, scale=1.0 - step.xi)
        return Decision(x, forward_points(x, self._directions.at(state.agents, t), step.delta))


def _clip(vectors: Array, radius: float) -> Array:
    """Return min(1, radius/|v|) v for each vector."""
    length = np.sqrt(np.add.reduce(vectors * vectors, axis=-1))
    factor = np.divide(radius, length, out=np.ones_like(length), where=length > radius)
    clipped: Array = factor[:, None] * vectors
    return clipped
