"""The state of an algorithm as one vector and back: what a replica hands over, and what a checkpoint holds.

A state is a dataclass whose fields are float64 arrays, besides `agents`, which names the rows and does not change.
"""

import dataclasses
from typing import Any

import numpy as np

from slaternet.errors import BadSpec
from slaternet.model import Array


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
    """Return a state as bytes, bit by bit: float64, little-endian."""
    return pack(state).astype("<f8", copy=False).tobytes()


def restored(like: Any, payload: bytes) -> Any:  # noqa: ANN401
    """Return the state that was saved, of the same shape as `like`."""
    expected = 8 * pack(like).size
    if len(payload) != expected:
        raise BadSpec(
            f"a checkpoint holds {len(payload)} bytes where the algorithm's state has {expected}; bring back the code "
            "that wrote it"
        )
    return unpack(like, np.frombuffer(payload, "<f8").astype(np.float64))


def _fields(state: Any) -> list[str]:  # noqa: ANN401
    if not dataclasses.is_dataclass(state):
        raise BadSpec("algorithm.name has a state that is no dataclass; make it one of float64 arrays and `agents`")
    names = [each.name for each in dataclasses.fields(state) if each.name != "agents"]
    for name in names:
        value = getattr(state, name)
        if not isinstance(value, np.ndarray) or value.dtype != np.float64:
            raise BadSpec(f"algorithm.name has a state whose {name} is no float64 array; make it one")
    return names
