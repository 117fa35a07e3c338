"""What the agents of a host must remember between rounds: the algorithm's state, and their rows' public copies.

A checkpoint is the saved state of the algorithm, followed by the copies, row after row, float64 little-endian.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slaternet.model import Agents, Array
from slaternet_agent.algorithms import state_vector
from slaternet_agent.algorithms.base import Algorithm


@dataclass(frozen=True, slots=True)
class HostState:
    """The state of the agents of a host between rounds."""

    algorithm: Any  # of the algorithm's own type
    copies: Array  # (k, w): public copies of the round before; w is 0 where the gossip code does not remember them

    @property
    def agents(self) -> Agents:
        """Whose state it is."""
        return state_vector.agents_of(self.algorithm)


def saved(state: HostState) -> bytes:
    """Return a state as bytes, bit by bit."""
    return state_vector.saved(state.algorithm) + state.copies.astype("<f8", copy=False).tobytes()


def restored(algorithm: Algorithm, payload: bytes, width: int) -> HostState:
    """Return a saved state whose copies have `width` numbers each."""
    agents = state_vector.covered(payload)
    numbers = len(payload) - 8 * len(agents) * width
    inner = state_vector.restored(algorithm, payload[: max(numbers, 0)])
    copies = np.frombuffer(payload, "<f8", offset=numbers).astype(np.float64)
    return HostState(inner, copies.reshape(len(agents), width))


def taken(algorithm: Algorithm, state: HostState, agents: Agents) -> HostState:
    """Return the state of some of its agents, in index order."""
    places = np.searchsorted(state.agents, agents)
    return HostState(state_vector.taken(algorithm, state.algorithm, agents), state.copies[places])


def joined(algorithm: Algorithm, states: Sequence[HostState]) -> HostState:
    """Return one state for the agents of several, in index order."""
    order = np.concatenate([state.agents for state in states]).argsort()
    inner = state_vector.joined(algorithm, [state.algorithm for state in states])
    return HostState(inner, np.concatenate([state.copies for state in states])[order])
