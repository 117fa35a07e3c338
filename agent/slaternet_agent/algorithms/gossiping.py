"""Base of the distributed algorithms: every agent has one point, begins at the centre and gossips the point."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from slaternet.model import Agents, Array
from slaternet_agent.algorithms.base import Algorithm, AlgorithmGame, Schedule
from slaternet_agent.algorithms.estimators import Directions


@dataclass(frozen=True, slots=True)
class State:
    """The state of the agents between rounds."""

    agents: Agents  # (k,)
    z: Array  # (k, p)


class Gossiping(Algorithm):
    """An algorithm that gossips z."""

    def __init__(self, game: AlgorithmGame, schedule: Schedule) -> None:
        self.width = game.dimension
        self._set = game.set
        self._schedule = schedule
        self._directions = Directions(game)

    def start(self, agents: Agents) -> Any:  # noqa: ANN401  a State, or one with more fields
        """Begin at the centre, which lies in (1 - xi_1) X even where xi_1 = 1 leaves nothing else."""
        return State(agents, np.tile(self._set.centre, (len(agents), 1)))

    def outgoing(self, state: State, t: int) -> Array:
        """Gossip z."""
        del t
        return state.z
