"""The interface of an algorithm: pure functions over the k agents of a host.

    n   agents of the game        p   dimension        m   constraints per agent
    k   agents of the host        s   points asked per agent and round

The first axis of every array is the host's k agents, in the order of `start`. No result of one agent may depend on the
others computed with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from slaternet.model import Agents, Array, ValueAndGradient, Values
from slaternet_agent.algorithms.game import AlgorithmGame
from slaternet_agent.algorithms.neighbours import neighbour_sums
from slaternet_agent.algorithms.schedules import SEQUENCES, STANDARD, Rules, Schedule

__all__ = ["Algorithm", "AlgorithmGame", "Decision", "Feedback", "Gossip", "Schedule", "ValueAndGradient", "Values"]


@dataclass(frozen=True, slots=True)
class Feedback:
    """The values that an algorithm asks for per agent and round: in every round exactly these."""

    points: int = 0
    """Points at which f and g are evaluated."""
    loss_gradient: bool = False
    """f and its gradient at the anchor."""
    constraint_gradient: bool = False
    """g and its gradient at the anchor."""


class Gossip(Protocol):
    """The rows of other agents that a host has received in a round; each part is computed when it is read.

    `starts`, `columns`, `weights` and `rows` list the in-neighbours of the host's agents, each agent itself among them:
    those of agent i stand at starts[i] up to starts[i + 1], in index order. Values at these nnz places are added up by
    `sum`, whose bits do not depend on the other agents of the host.
    """

    @property
    def mixed(self) -> Array:
        """W_t z_t for the host's agents, (k, width), neighbours summed in index order; computed when read."""

    @property
    def received(self) -> Array:
        """Every agent's row, (n, width), in index order; only on the complete graph."""

    @property
    def starts(self) -> Agents:
        """Where each agent's in-neighbours begin, (k + 1,); the last number is nnz."""

    @property
    def columns(self) -> Agents:
        """The in-neighbours, (nnz,)."""

    @property
    def weights(self) -> Array:
        """Their weights in W_t, (nnz,), positive; an agent's add up to 1."""

    @property
    def rows(self) -> Array:
        """Their rows, (nnz, width); with a gossip code the public copies of others, and an agent's own row as it is."""

    def sum(self, values: Array) -> Array:
        """Return for each agent the sum of its in-neighbours' values, (k,) or (k, w), from (nnz,) or (nnz, w)."""
        return neighbour_sums(self.starts, values)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decisions and questions of a host's agents in a round."""

    x: Array
    """(k, p): scored, recorded and digested."""
    points: Array
    """(k, s, p): where f and g are asked; s is `Feedback.points` and may be 0."""
    anchor: Array | None = None
    """(k, p): where granted gradients are taken; x unless set."""
    memo: Array = field(default_factory=partial(np.empty, 0))
    """(k, w): what `decide` computed and `update` needs, where the algorithm declares `memo_width` = w.

    Of a replica, which declares none, (w,): the same for every agent.
    """

    @classmethod
    def without_points(cls, x: Array) -> "Decision":
        """Return a decision that asks about no points; granted gradients are taken at x."""
        return cls(x, np.empty((len(x), 0, x.shape[1])))


class Algorithm(Protocol):
    """One paper's algorithm, for all agents of a host.

    Pure: all memory between rounds is the state, a frozen dataclass of the algorithm's own. `update` may use of a
    decision only x, points, anchor and memo, because a host that adopts another's agents rebuilds their states from
    the questions and answers in the journal, which hold nothing else.
    """

    feedback: Feedback
    """Set on the class, or by the constructor where it depends on the game."""
    width: int
    """float64 per agent in a frame."""
    memo_width: int = 0
    """float64 per agent that `decide` keeps for `update`; they travel with the question and are journalled with it."""

    # The following have defaults, also for a class that does not inherit from this one.
    needs_horizon: bool = False
    """Whether it needs the number of rounds, whatever its schedule."""
    sequences: Sequence[str] = SEQUENCES
    """The step sequences it uses; `schedule = "explicit"` takes exactly these."""
    schedules: Rules = STANDARD
    """The schedules it names, the default first."""
    centralised: bool = False
    """Whether it never gossips; each agent then plays alone, or one learner plays for all."""

    def row_scale(self, t: int) -> float | None:
        """Return s where a row of round t is a point of s X, about the centre; None where it means something else.

        A host mixes no row that cannot be right, so that another cannot lead it out of X.
        """
        del t
        return None

    # A constructor takes (game: Game, schedule: Schedule) and, as keywords, the algorithm's own numbers.

    def start(self, agents: Agents) -> Any:  # noqa: ANN401  the state is the algorithm's own type
        """Return the state before round 1 of the agents named."""

    def outgoing(self, state: Any, t: int) -> Array:  # noqa: ANN401
        """Return the rows to gossip in round t, (k, width)."""

    def decide(self, state: Any, gossip: Gossip, t: int) -> Decision:  # noqa: ANN401
        """Return the decision of round t."""

    def update(self, state: Any, decision: Decision, seen: Values, t: int) -> Any:  # noqa: ANN401
        """Return the state after round t."""
