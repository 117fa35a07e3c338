"""One learner for all agents, without a hub: every agent runs the same replica of it.

The learner plays the game of a single agent whose loss is the average of all losses and whose constraints are those of
everyone, stacked. On the complete graph each agent's frame carries the values of its last round; `decide` stacks the n
rows in index order, updates the replica with them and decides for all agents. So all hosts compute the same bits, and
each computes them once.

f, loss        averages over the agents              g, constraint   stacked, agent after agent
values         (k, width)   an agent's values: f (s), g (s m), then the granted values and gradients
memo           (w,)         the updated replica and the learner's own memo, which `update` keeps
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from slaternet.model import Agents, Array, ValueAndGradient
from slaternet_agent.algorithms.base import Algorithm, AlgorithmGame, Decision, Gossip, Values
from slaternet_agent.algorithms.state_vector import pack, unpack


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """The replica before its last decision, that decision, and the values that the host's agents then received."""

    agents: Agents  # (k,)
    learner: Array  # (w,)
    x: Array  # (1, p)
    points: Array  # (1, s, p)
    anchor: Array  # (1, p)
    memo: Array  # (1, the learner's memo_width)
    values: Array  # (k, width)


@dataclass(frozen=True, slots=True)
class _Alone(Gossip):
    """The gossip of a single agent: its own row, at weight 1."""

    own: Array
    starts = np.array([0, 1])
    columns = np.array([0])
    weights = np.ones(1)

    @property
    def mixed(self) -> Array:
        return self.own

    @property
    def received(self) -> Array:
        return self.own

    @property
    def rows(self) -> Array:
        return self.own


class Central(Algorithm):
    """Any algorithm, as one learner for the whole game."""

    def __init__(self, learner: Algorithm, game: AlgorithmGame) -> None:
        self.feedback = learner.feedback
        self._learner = learner
        self._game = game
        self._memo: int = getattr(learner, "memo_width", 0)
        self._first: Any = learner.start(np.zeros(1, dtype=np.intp))
        self.width = sum(self._sizes())

    def start(self, agents: Agents) -> ReplicaState:
        """Begin with a replica without any values."""
        p, s = self._game.dimension, self.feedback.points
        nothing = np.zeros((1, p))
        values = np.zeros((len(agents), self.width))
        memo = np.zeros((1, self._memo))
        return ReplicaState(agents, pack(self._first), nothing, np.zeros((1, s, p)), nothing, memo, values)

    def outgoing(self, state: ReplicaState, t: int) -> Array:
        """Send the values of the last round to all agents."""
        del t
        return state.values

    def decide(self, state: ReplicaState, gossip: Gossip, t: int) -> Decision:
        """Update the replica with the values of all agents in the last round, and decide for all."""
        replica = unpack(self._first, state.learner)
        if t > 1:
            decision = Decision(state.x, state.points, state.anchor, state.memo)
            replica = self._learner.update(replica, decision, self._joint(gossip.received), t - 1)
        alone = self._learner.decide(replica, _Alone(self._learner.outgoing(replica, t)), t)
        k = len(state.agents)
        anchor = None if alone.anchor is None else np.tile(alone.anchor, (k, 1))
        memo = np.concatenate([pack(replica), alone.memo.ravel()]) if self._memo else pack(replica)
        return Decision(np.tile(alone.x, (k, 1)), np.tile(alone.points, (k, 1, 1)), anchor, memo)

    def update(self, state: ReplicaState, decision: Decision, seen: Values, t: int) -> ReplicaState:
        """Keep the replica, its decision and the values; the replica is updated when the values of all are there."""
        del t
        anchor = decision.x if decision.anchor is None else decision.anchor
        granted = [each for each in (seen.loss, seen.constraint) if each is not None]
        parts = [seen.f, seen.g, *(part for each in granted for part in (each.value, each.gradient))]
        values = np.concatenate([each.reshape(len(state.agents), -1) for each in parts], axis=1)
        learner, memo = np.split(decision.memo, [decision.memo.size - self._memo])
        one = decision.x[:1], decision.points[:1], anchor[:1]
        return ReplicaState(state.agents, learner, *one, memo[None], values)

    def _sizes(self) -> list[int]:
        """Return how many numbers of a row each part takes: f, g, and the granted values and gradients."""
        s, m, p = self.feedback.points, self._game.constraints, self._game.dimension
        loss = [1, p] if self.feedback.loss_gradient else []
        constraint = [m, m * p] if self.feedback.constraint_gradient else []
        return [s, s * m, *loss, *constraint]

    def _joint(self, rows: Array) -> Values:
        """Return the values of the learner, from the rows (n, width) of all agents."""
        n, s, m, p = len(rows), self.feedback.points, self._game.constraints, self._game.dimension
        f, g, *rest = np.split(rows, np.cumsum(self._sizes())[:-1], axis=1)
        parts = iter(rest)
        loss = ValueAndGradient(_mean(next(parts))[0], _mean(next(parts))) if self.feedback.loss_gradient else None
        constraint = None
        if self.feedback.constraint_gradient:
            constraint = ValueAndGradient(next(parts).reshape(1, n * m), next(parts).reshape(1, n * m, p))
        stacked = g.reshape(n, s, m).transpose(1, 0, 2).reshape(1, s, n * m)
        return Values(_mean(f), stacked, loss, constraint)


def _mean(rows: Array) -> Array:
    """Return the average row, (1, w); summed along the last axis, in the order of the agents."""
    mean: Array = np.add.reduce(rows.T.copy(), axis=-1)[None]
    mean /= len(rows)
    return mean
