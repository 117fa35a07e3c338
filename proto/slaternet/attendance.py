"""Which agents play a round, in a game that some agents leave before its end.

A departure names agents and the first round E that they do not play. Every process knows the list of departures, as it
knows the seats; everything else about attendance is computed here.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from slaternet.model import Agents, Departure

FOREVER = int(np.iinfo(np.int64).max)
"""The departure round of an agent that stays."""


class Attendance:
    """The agents 0..n-1 of a game, and when they leave it."""

    def __init__(self, agents: int, departures: Iterable[Departure] = ()) -> None:
        self._everyone: Agents = np.arange(agents)
        self.ends: NDArray[np.int64] = np.full(agents, FOREVER)
        """The first round that an agent does not play."""
        for departure in departures:
            self.ends[departure.agents] = departure.round
        self._steps: list[int] = np.unique(self.ends[self.ends < FOREVER]).tolist()
        self.full = not self._steps
        """Whether everyone stays."""

    def players(self, round: int) -> Agents:
        """Return the agents that play a round, in index order."""
        return self._everyone if self.full else self.of(self._everyone, round)

    def of(self, agents: Agents, round: int) -> Agents:
        """Return those of `agents` that play a round."""
        return agents if self.full else agents[self.ends[agents] > round]

    def last(self, agents: Agents) -> int:
        """Return the last round that any of `agents` plays; FOREVER - 1 where one of them stays."""
        return int(self.ends[agents].max(initial=0)) - 1

    def stages(self) -> list[Agents]:
        """Return who plays round 1, and then from each departure on."""
        return [self.players(round) for round in (1, *self._steps)]

    def until(self, round: int) -> int:
        """Return the last round, from this one on, that the same agents play."""
        return next((step - 1 for step in self._steps if step > round), FOREVER)
