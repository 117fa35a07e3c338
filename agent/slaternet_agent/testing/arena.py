"""The small game of the exam: five agents, thirteen dimensions, on a box and on a ball, without a network.

f_{i,t}(x) = 1/2 |x - c_{i,t}|^2        c   (n, p)
g_{i,t}(x) = a_{i,t} x - b_{i,t}        a   (n, m, p),  b   (n, m)

Every agent receives the rows of all others, with unequal weights, so that no two rows are alike. The bits of a row do
not depend on the batch.
"""

from dataclasses import dataclass

import numpy as np

from slaternet.model import Agents, Array, ValueAndGradient
from slaternet.numerics.sets import Ball, Box, FeasibleSet
from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Feedback, Values

AGENTS, DIMENSION, CONSTRAINTS, ROUNDS = 5, 13, 2, 20

_WEIGHTS = (0.4, 0.25, 0.1, 0.05, 0.2)
"""The weights of an agent's own row and of the next ones around the circle."""


@dataclass(frozen=True, slots=True)
class ExamGossip:
    """The gossip of a round."""

    mixed: Array
    received: Array


@dataclass(frozen=True, slots=True)
class Arena:
    """The game on one set; `silent` where the agents do not gossip."""

    name: str
    game: AlgorithmGame
    silent: bool

    def gossip(self, outgoing: Array) -> ExamGossip:
        """Return the gossip of all agents where these rows (n, width) are sent."""
        if self.silent:
            return ExamGossip(outgoing.copy(), outgoing.copy())
        mixed = np.zeros_like(outgoing)
        for step, weight in enumerate(_WEIGHTS):
            mixed += weight * np.roll(outgoing, -step, axis=0)
        return ExamGossip(mixed, outgoing.copy())

    def values(self, decision: Decision, feedback: Feedback, t: int) -> Values:
        """Return the values of all agents for a decision of round t."""
        n, m, p = self.game.agents, self.game.constraints, self.game.dimension
        draw = np.random.default_rng([self.game.seed, t])
        c, a = 0.5 * draw.standard_normal((n, p)), draw.standard_normal((n, m, p))
        b = draw.random((n, m)) - 0.25
        anchor = decision.x if decision.anchor is None else decision.anchor
        away = decision.points - c[:, None]
        f = 0.5 * np.add.reduce(away * away, axis=-1)
        loss = constraint = None
        if feedback.loss_gradient:
            loss = ValueAndGradient(0.5 * np.add.reduce((anchor - c) * (anchor - c), axis=-1), anchor - c)
        if feedback.constraint_gradient:
            constraint = ValueAndGradient(_linear(a, b, anchor[:, None])[:, 0], a)
        return Values(f, _linear(a, b, decision.points), loss, constraint)


def arenas(*, silent: bool) -> list[Arena]:
    """Return the game on a box that is not symmetric, and on a ball."""
    sets: dict[str, FeasibleSet] = {"box": Box(DIMENSION, -3.0, 4.0), "ball": Ball(DIMENSION, 5.0)}
    return [
        Arena(name, AlgorithmGame(AGENTS, DIMENSION, CONSTRAINTS, ROUNDS, 1, each), silent)
        for name, each in sets.items()
    ]


def select_agents(agents: Agents, seen: Values) -> Values:
    """Return the values of some agents."""

    def rows(tangent: ValueAndGradient | None) -> ValueAndGradient | None:
        return None if tangent is None else ValueAndGradient(tangent.value[agents], tangent.gradient[agents])

    return Values(seen.f[agents], seen.g[agents], rows(seen.loss), rows(seen.constraint))


def _linear(a: Array, b: Array, points: Array) -> Array:
    """Return a x - b at points (n, s, p), as (n, s, m)."""
    values: Array = np.add.reduce(a[:, None] * points[:, :, None], axis=-1)
    return values - b[:, None]
