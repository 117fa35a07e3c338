"""Base of the centralised algorithms: they start at the centre and gossip nothing."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from slaternet.model import Agents, Array
from slaternet_agent.algorithms.base import Algorithm, AlgorithmGame, Schedule
from slaternet_agent.algorithms.estimators import Directions


@dataclass(frozen=True, slots=True)
class SolitaryState:
    """The state of the agents between rounds."""

    agents: Agents  # (k,)
    x: Array  # (k, p)


class Solitary(Algorithm):
    """An algorithm each of whose rows is a learner of its own."""

    width = 0
    centralised = True

    def __init__(self, game: AlgorithmGame, schedule: Schedule) -> None:
        self._game = game
        self._set = game.set
        self._schedule = schedule
        self._directions = Directions(game)

    def start(self, agents: Agents) -> Any:  # noqa: ANN401  a SolitaryState, or the algorithm's own type
        """Begin at the centre."""
        return SolitaryState(agents, self._centre(agents))

    def outgoing(self, state: Any, t: int) -> Array:  # noqa: ANN401
        """Gossip nothing."""
        del t
        return np.empty((len(state.agents), 0))

    def _centre(self, agents: Agents) -> Array:
        """Return the centre of X for each agent, (k, p)."""
        return np.tile(self._set.centre, (len(agents), 1))
