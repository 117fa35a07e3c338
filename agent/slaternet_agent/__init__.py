"""The agents of a game: their algorithms, and the host that seats them.

Authors of algorithms and gossip codes import what they need from here.
"""

TYPE_CHECKING = False  # as in `typing`: nothing is imported before `__main__` has dropped the working directory
if TYPE_CHECKING:
    from slaternet.errors import Malformed
    from slaternet.model import ValueAndGradient, Values
    from slaternet.numerics.bits import unzigzag, zigzag
    from slaternet.symbols import Layout, Symbols
    from slaternet_agent.algorithms.base import Algorithm, Decision, Feedback, Gossip
    from slaternet_agent.algorithms.estimators import Directions, forward, forward_points
    from slaternet_agent.algorithms.game import AlgorithmGame
    from slaternet_agent.algorithms.schedules import Schedule
    from slaternet_agent.codes.base import Code
    from slaternet_agent.codes.draws import Draws

__all__ = [
    "Algorithm",
    "AlgorithmGame",
    "Code",
    "Decision",
    "Directions",
    "Draws",
    "Feedback",
    "Gossip",
    "Layout",
    "Malformed",
    "Schedule",
    "Symbols",
    "ValueAndGradient",
    "Values",
    "forward",
    "forward_points",
    "unzigzag",
    "zigzag",
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
            "slaternet_agent.codes.base": "Code",
            "slaternet_agent.codes.draws": "Draws",
            "slaternet.errors": "Malformed",
            "slaternet.model": "ValueAndGradient Values",
            "slaternet.numerics.bits": "unzigzag zigzag",
            "slaternet.symbols": "Layout Symbols",
        },
    )(name)
