"""What the centralised algorithms share: they start at the centre and gossip nothing."""

from typing import Any

import numpy as np

from slaternet.model import Agents, Array
from slaternet_agent.algorithms.base import Algorithm, Game, Schedule


class Alone(Algorithm):
    """An algorithm each of whose rows is a learner of its own."""

    width = 0
    centralised = True

    def __init__(self, game: Game, schedule: Schedule) -> None:
        self._game = game
        self._set = game.set
        self._schedule = schedule

    def outgoing(self, state: Any, t: int) -> Array:  # noqa: ANN401  the state is the algorithm's own type
        """Gossip nothing."""
        del t
        return np.empty((len(state.agents), 0))

    def _centre(self, agents: Agents) -> Array:
        """Return the centre of X for each agent, (k, p)."""
        return np.tile(self._set.centre, (len(agents), 1))

    def _no_points(self, agents: Agents) -> Array:
        """Return no points for each agent, (k, 0, p)."""
        return np.empty((len(agents), 0, self._game.dimension))
