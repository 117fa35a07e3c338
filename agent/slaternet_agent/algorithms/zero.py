"""The baseline that never moves from the centre of X and asks about nothing.

x = 0 in the paper's example, where it satisfies every constraint and is hard to beat: a comparison with it shows what
an algorithm has learnt. It sends empty rows, so it plays on any graph, and has regret O(T).
"""

from slaternet_agent.algorithms.base import Decision, Feedback, Gossip, Values
from slaternet_agent.algorithms.schedules import Rules
from slaternet_agent.algorithms.solitary import Solitary, SolitaryState

NO_SCHEDULES: Rules = {}


class Zero(Solitary):
    """Stays at the centre."""

    feedback = Feedback()
    centralised = False
    sequences = ()
    schedules = NO_SCHEDULES

    def decide(self, state: SolitaryState, gossip: Gossip, t: int) -> Decision:
        """Stay."""
        del gossip, t
        return Decision.without_points(state.x)

    def update(self, state: SolitaryState, decision: Decision, seen: Values, t: int) -> SolitaryState:
        """Learn nothing."""
        del decision, seen, t
        return state
