"""The baseline that never moves from the centre of X and asks about nothing.

x = 0 in the paper's example, where it satisfies every constraint and is hard to beat: whatever an algorithm has learnt
shows against it. It sends empty rows, so it plays on any graph, and promises regret O(T).
"""

from dataclasses import dataclass

import numpy as np

from slaternet.model import Agents, Array
from slaternet_agent.algorithms.base import Algorithm, Decision, Feedback, Game, Gossip, Schedule, Values
from slaternet_agent.schedules import Rules

NO_SCHEDULES: Rules = {}


@dataclass(frozen=True, slots=True)
class State:
    """Where the agents are."""

    agents: Agents  # (k,)
    x: Array  # (k, p)


class Zero(Algorithm):
    """Stays at the centre."""

    feedback = Feedback()
    width = 0
    sequences = ()
    schedules = NO_SCHEDULES

    def __init__(self, game: Game, schedule: Schedule) -> None:
        del schedule
        self._centre = game.set.centre

    def start(self, agents: Agents) -> State:
        """Begin at the centre."""
        return State(agents, np.tile(self._centre, (len(agents), 1)))

    def outgoing(self, state: State) -> Array:
        """Gossip nothing."""
        return np.empty((len(state.agents), 0))

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        """Stay."""
        del gossip, t
        k, p = state.x.shape
        return Decision(state.x, np.empty((k, 0, p)))

    def update(self, state: State, decision: Decision, seen: Values, t: int) -> State:
        """Learn nothing."""
        del decision, seen, t
        return state
