"""The agents of a game: their algorithms, and the host that seats them.

Authors of algorithms import what they need from here.
"""

TYPE_CHECKING = False  # as in `typing`: nothing is imported before `__main__` has dropped the working directory
if TYPE_CHECKING:
    from slaternet.model import ValueAndGradient, Values
    from slaternet_agent.algorithms.base import Algorithm, Decision, Feedback, Gossip
    from slaternet_agent.algorithms.estimators import Directions, forward, forward_points
    from slaternet_agent.algorithms.game import AlgorithmGame
    from slaternet_agent.algorithms.schedules import Schedule

__all__ = [
    "Algorithm",
    "AlgorithmGame",
    "Decision",
    "Directions",
    "Feedback",
    "Gossip",
    "Schedule",
    "ValueAndGradient",
    "Values",
    "forward",
    "forward_points",
]


def __getattr__(name: str) -> object:
    from slaternet.facade import lazy

    return lazy(
        __name__,
        {
            "slaternet_agent.algorithms.base": "Algorithm Decision Feedback Gossip",
            "slaternet_agent.algorithms.game": "AlgorithmGame",
            "slaternet_agent.algorithms.estimators": "Directions forward forward_points",
            "slaternet_agent.algorithms.schedules": "Schedule",
            "slaternet.model": "ValueAndGradient Values",
        },
    )(name)
