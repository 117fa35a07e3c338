"""The agents of a game: their algorithms, and the host that seats them.

Authors of algorithms import what they need from here.
"""

from typing import TYPE_CHECKING

from slaternet.facade import lazy

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

__getattr__ = lazy(
    __name__,
    {
        "Algorithm": "slaternet_agent.algorithms.base",
        "AlgorithmGame": "slaternet_agent.algorithms.game",
        "Decision": "slaternet_agent.algorithms.base",
        "Directions": "slaternet_agent.algorithms.estimators",
        "Feedback": "slaternet_agent.algorithms.base",
        "Gossip": "slaternet_agent.algorithms.base",
        "Schedule": "slaternet_agent.algorithms.schedules",
        "ValueAndGradient": "slaternet.model",
        "Values": "slaternet.model",
        "forward": "slaternet_agent.algorithms.estimators",
        "forward_points": "slaternet_agent.algorithms.estimators",
    },
)
