"""Random numbers for coding, drawn for each agent and round at the address (seed, "gossip", agent, block of rounds).

Every host draws the same at an address, whatever it has drawn before, and for which other agents.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from slaternet.model import Agents, Array
from slaternet.numerics.randomness import block_length, locate, streams
from slaternet_agent.algorithms.game import AlgorithmGame

N = TypeVar("N", bound=np.generic)


class Draws(Generic[N]):
    """What a code makes of uniform random numbers in [0, 1), so many per agent and round.

    The last block of each agent is kept, in one table: with a trigger, other agents are coded in every round.
    """

    def __init__(self, game: AlgorithmGame, numbers: int, make: Callable[[Array], NDArray[N]]) -> None:
        """`make` turns the uniform numbers of some rounds (rounds, numbers) into what is kept of them, (rounds, c)."""
        self._seed = game.seed
        self._make = make
        self._uniform = np.zeros((block_length(numbers), numbers))
        self._places = np.full(game.agents, -1)  # of agents in the table
        self._blocks = np.empty(0, np.intp)  # that the table holds, by place
        self._table = make(self._uniform)[np.newaxis][:0]  # (places, rounds, c)

    def at(self, agents: Agents, t: int) -> NDArray[N]:
        """Return the draws of round t, (k, c), a new array."""
        block, offset = locate(t, len(self._uniform))
        places = self._places[agents]
        if places.size and places.min() < 0:
            places = self._add(agents)
        stale = self._blocks[places] != block
        if stale.any():
            self._draw(agents[stale], places[stale], block)
        drawn: NDArray[N] = self._table[places, offset]
        return drawn

    def _add(self, agents: Agents) -> Agents:
        """Return the places of agents, some of which have had none."""
        new = agents[self._places[agents] < 0]
        self._places[new] = len(self._blocks) + np.arange(len(new))
        self._blocks = np.append(self._blocks, np.full(len(new), -1))
        room = np.empty((len(new), *self._table.shape[1:]), self._table.dtype)
        self._table = np.concatenate((self._table, room))
        return self._places[agents]

    def _draw(self, agents: Agents, places: Agents, block: int) -> None:
        addresses = ((int(agent), block) for agent in agents)
        for place, generator in zip(places, streams(self._seed, "gossip", addresses), strict=True):
            generator.random(out=self._uniform)
            self._table[place] = self._make(self._uniform)
        self._blocks[places] = block
