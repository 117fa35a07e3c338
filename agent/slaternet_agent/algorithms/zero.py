"""The baseline that never moves from the centre of X and asks about nothing.

x = 0 in the paper's example, where it satisfies every constraint and is hard to beat: whatever an algorithm has learnt
shows against it. It sends empty rows, so it plays on any graph, and promises regret O(T).
"""

from slaternet_agent.algorithms.base import Decision, Feedback, Gossip, Values
from slaternet_agent.algorithms.schedules import Rules
from slaternet_agent.algorithms.solitary import Alone, State

NO_SCHEDULES: Rules = {}


class Zero(Alone):
    """Stays at the centre."""

    feedback = Feedback()
    centralised = False
    sequences = ()
    schedules = NO_SCHEDULES

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        """Stay."""
        del gossip, t
        return Decision.without_points(state.x)

    def update(self, state: State, decision: Decision, seen: Values, t: int) -> State:
        """Learn nothing."""
        del decision, seen, t
        return state
