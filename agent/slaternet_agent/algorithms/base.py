"""What an algorithm is to the host that runs it: a pure machine over the host's k agents.

    n   agents of the game        p   dimension        m   constraints per agent
    k   agents of the host        s   points asked per agent and round

The first axis of every array is the host's k agents, in the order of `start`. No result of one agent may depend on
which others were computed with it.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from slaternet.model import Agents, Array
from slaternet.sets import FeasibleSet
from slaternet.streams import stream


@dataclass(frozen=True, slots=True)
class Feedback:
    """What an algorithm needs to be told per agent and round."""

    points: int = 0
    """Points at which f and g are evaluated."""
    loss_gradient: bool = False
    """f and its gradient at the anchor."""
    constraint_gradient: bool = False
    """g and its gradient at the anchor."""


@dataclass(frozen=True)
class Game:
    """What an algorithm may know of the game."""

    agents: int
    dimension: int
    constraints: int
    rounds: int | None
    seed: int
    set: FeasibleSet

    def stream(self, purpose: str, agent: int = 0, block: int = 0) -> np.random.Generator:
        """Return the generator of one address; the only randomness an algorithm may use."""
        return stream(self.seed, purpose, agent, block)


class Gossip(Protocol):
    """What the host's agents know of others' iterates in a round."""

    @property
    def mixed(self) -> Array:
        """W_t z_t for the host's agents, (k, width), neighbours summed in index order; computed when read."""

    @property
    def received(self) -> Array:
        """Every row the host knows this round, its own included, in index order."""


def _nothing() -> Array:
    return np.empty(0)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the agents do in a round."""

    x: Array
    """(k, p): scored, recorded and digested."""
    points: Array
    """(k, s, p): where f and g are asked; s may be 0."""
    anchor: Array | None = None
    """(k, p): where granted gradients are taken; x unless set."""
    memo: Array = field(default_factory=_nothing)
    """(w,): what a replica computed in `decide` and needs in `update`, the same on every agent."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the adversary revealed about a decision."""

    f: Array
    """(k, s)"""
    g: Array
    """(k, s, m)"""


class Algorithm(Protocol):
    """One paper's algorithm, for all agents of a host.

    Pure: what is remembered between rounds is the state, a frozen dataclass of the algorithm's own. `update` may use
    of a decision only x, points, anchor and memo, because a host that adopts another's agents rebuilds their states
    from journalled questions and answers, where nothing else is written.
    """

    feedback: ClassVar[Feedback]
    needs_horizon: ClassVar[bool]
    width: int
    """float64 per agent in a frame."""

    # A constructor takes (game: Game, schedule: Schedule) and, as keywords, the algorithm's own numbers.

    def start(self, agents: Agents) -> Any:  # noqa: ANN401  the state is the algorithm's own type
        """Return the state before round 1 of the agents named."""

    def outgoing(self, state: Any) -> Array:  # noqa: ANN401
        """Return the rows to gossip, (k, width)."""

    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:  # noqa: ANN401
        """Return the decision of round t."""

    def update(self, state: Any, decision: Decision, seen: Seen, t: int) -> Any:  # noqa: ANN401
        """Return the state after round t."""
