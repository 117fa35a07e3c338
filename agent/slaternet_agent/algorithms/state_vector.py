"""The state of an algorithm as one vector and back, for replicas and checkpoints.

A state is a dataclass whose fields are float64 arrays, besides `agents`, which names the rows and does not change. Most
fields have a row for each agent; a field whose shape does not depend on the agents belongs to all of them together.

A saved state: the number of agents (8 bytes), the agents (8 bytes each), the numbers; all little-endian.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slaternet.errors import BadSpec
from slaternet.model import Agents, Array

if TYPE_CHECKING:  # `replica`, an algorithm, imports this module
    from slaternet_agent.algorithms.base import Algorithm


def pack(state: Any) -> Array:  # noqa: ANN401  the state is the algorithm's own type
    """Return the numbers of a state, field after field."""
    return np.concatenate([getattr(state, name).ravel() for name in _fields(state)] or [np.empty(0)])


def unpack(like: Any, numbers: Array) -> Any:  # noqa: ANN401
    """Return a state of the same shape as `like`, with these numbers."""
    names = _fields(like)
    ends = np.cumsum([getattr(like, name).size for name in names], dtype=np.intp)
    parts = np.split(numbers, ends)[:-1]
    shaped = {name: part.reshape(getattr(like, name).shape) for name, part in zip(names, parts, strict=True)}
    return dataclasses.replace(like, **shaped)


def saved(state: Any) -> bytes:  # noqa: ANN401
    """Return a state as bytes, bit by bit, with the agents that it covers."""
    numbers = pack(state)
    agents = np.asarray(agents_of(state), dtype="<i8")
    return np.array([len(agents)], dtype="<i8").tobytes() + agents.tobytes() + numbers.astype("<f8").tobytes()


def covered(payload: bytes) -> Agents:
    """Return the agents of a saved state."""
    count = int.from_bytes(payload[:8], "little")
    if len(payload) < 8 * (1 + count):
        raise BadSpec(f"a checkpoint of {len(payload)} bytes is no state of agents; bring back the code that wrote it")
    return np.frombuffer(payload, "<i8", count, 8).astype(np.intp)


def restored(algorithm: "Algorithm", payload: bytes) -> Any:  # noqa: ANN401
    """Return a saved state, with all the agents that it covers."""
    agents = covered(payload)
    like = algorithm.start(agents)
    expected = 8 * (1 + len(agents) + pack(like).size)
    if len(payload) != expected:
        raise BadSpec(
            f"a checkpoint holds {len(payload)} bytes where the algorithm's state has {expected}; bring back the code "
            "that wrote it"
        )
    return unpack(like, np.frombuffer(payload, "<f8", offset=8 * (1 + len(agents))).astype(np.float64))


def taken(algorithm: "Algorithm", state: Any, agents: Agents) -> Any:  # noqa: ANN401
    """Return the state of some of its agents, in index order."""
    own = agents_of(state)
    if np.array_equal(own, agents):
        return state
    places = np.searchsorted(own, agents)
    rows = {name: getattr(state, name)[places] for name in _by_agent(algorithm)}
    return dataclasses.replace(state, agents=agents, **rows)


def joined(algorithm: "Algorithm", states: Sequence[Any]) -> Any:  # noqa: ANN401
    """Return one state for the agents of several, in index order; shared fields are the first one's."""
    first, *others = states
    if not others:
        return first
    agents = np.concatenate([agents_of(state) for state in states])
    order = agents.argsort()
    rows = {name: np.concatenate([getattr(state, name) for state in states])[order] for name in _by_agent(algorithm)}
    return dataclasses.replace(first, agents=agents[order], **rows)


def is_per_agent(algorithm: "Algorithm") -> bool:
    """Return whether every field of a state has a row for each agent."""
    return len(_by_agent(algorithm)) == len(_fields(algorithm.start(np.arange(1))))


def _by_agent(algorithm: "Algorithm") -> list[str]:
    """Return the fields that have a row for each agent: their shape differs between one agent and two."""
    one, two = algorithm.start(np.arange(1)), algorithm.start(np.arange(2))
    return [name for name in _fields(one) if getattr(one, name).shape != getattr(two, name).shape]


def agents_of(state: Any) -> Agents:  # noqa: ANN401
    """Return whose state it is."""
    agents = getattr(state, "agents", None)
    if not isinstance(agents, np.ndarray):
        raise BadSpec("algorithm.name has a state without `agents`; keep there the agents of its rows")
    return agents


def _fields(state: Any) -> list[str]:  # noqa: ANN401
    if not dataclasses.is_dataclass(state):
        raise BadSpec("algorithm.name has a state that is no dataclass; make it one of float64 arrays and `agents`")
    names = [each.name for each in dataclasses.fields(state) if each.name != "agents"]
    for name in names:
        value = getattr(state, name)
        if not isinstance(value, np.ndarray) or value.dtype != np.float64:
            raise BadSpec(f"algorithm.name has a state whose {name} is no float64 array; make it one")
    return names
