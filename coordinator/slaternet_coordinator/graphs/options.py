"""Reading the numbers that a spec gives to a graph: what does not suit is a BadSpec naming key and remedy."""

from collections.abc import Callable

from slaternet.errors import BadSpec
from slaternet.model import Agents
from slaternet.words import suggestion
from slaternet_coordinator.graphs.weights import Matrix, metropolis, uniform

_WEIGHTS: dict[str, Callable[[int, Agents, int], Matrix]] = {"metropolis": metropolis, "uniform": uniform}


def weighing(name: object) -> Callable[[int, Agents, int], Matrix]:
    """Return the function that weighs undirected edges as `graph.weights` says."""
    if not isinstance(name, str) or name not in _WEIGHTS:
        raise BadSpec(f"graph.weights = {name!r} is not known; {suggestion(str(name), _WEIGHTS)}")
    return _WEIGHTS[name]


def share(name: object, agents: int, degree: int) -> float:
    """Return what `graph.weights` gives to an edge where no agent has more edges than `degree`.

    With "metropolis" the edges and the agent itself count alike, with "uniform" an edge weighs 1/n.
    """
    return 1.0 / agents if weighing(name) is uniform else 1.0 / (1.0 + degree)


def flag(key: str, value: object) -> bool:
    """Return a switch."""
    if not isinstance(value, bool):
        raise BadSpec(f"{key} must be true or false, not {value!r}")
    return value


def whole(key: str, value: object, highest: int) -> int:
    """Return a whole number from 1 to `highest`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= highest:
        raise BadSpec(f"{key} must be a whole number from 1 to {highest}, not {value!r}")
    return value


def positive(key: str, value: object) -> float:
    """Return a positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0.0:
        raise BadSpec(f"{key} must be a positive number, not {value!r}")
    return float(value)
