"""The small game of the exam: five agents, thirteen dimensions, on a box and on a ball, without a network.

f_{i,t}(x) = 1/2 |x - c_{i,t}|^2        c   (n, p)
g_{i,t}(x) = a_{i,t} x - b_{i,t}        a   (n, m, p),  b   (n, m)

Where the graph is complete, every agent receives the rows of all others, with unequal weights, so that no two rows are
alike. Where it is sparse, the agents stand in a ring with a chord that moves from round to round, so that they receive
three or four rows. The bits of a row do not depend on the batch.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from slaternet.model import Agents, Array, ValueAndGradient
from slaternet.numerics.sets import Ball, Box, FeasibleSet
from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Feedback, Values
from slaternet_agent.algorithms.neighbours import neighbour_sums

AGENTS, DIMENSION, CONSTRAINTS, ROUNDS = 5, 13, 2, 20

_WEIGHTS = (0.4, 0.25, 0.1, 0.05, 0.2)
"""The weights of an agent's own row and of the next ones around the circle."""


def _no_places() -> Array:
    return np.empty(0)


def _no_agents() -> Agents:
    return np.zeros(1, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class ExamGossip:
    """The gossip of a round."""

    mixed: Array
    everyone: Array | None
    """The rows of all agents; None where the graph is not complete."""
    starts: Agents = field(default_factory=_no_agents)
    columns: Agents = field(default_factory=_no_agents)
    weights: Array = field(default_factory=_no_places)
    rows: Array = field(default_factory=_no_places)
    read: set[str] = field(default_factory=set)
    """What an algorithm has read that only a complete graph has."""

    @property
    def received(self) -> Array:
        """The rows of all agents."""
        self.read.add("received")
        if self.everyone is None:
            raise ValueError("received is for the complete graph; use mixed, or rows and weights")
        return self.everyone

    def sum(self, values: Array) -> Array:
        """Return for each agent the sum of its in-neighbours' values."""
        return neighbour_sums(self.starts, values)

    def part(self, agents: Agents) -> "ExamGossip":
        """Return the gossip of some agents."""
        counts = np.diff(self.starts)[agents]
        places = np.concatenate([np.arange(self.starts[each], self.starts[each + 1]) for each in agents.tolist()])
        starts = np.concatenate(([0], np.cumsum(counts)))
        own = self.columns[places], self.weights[places], self.rows[places]
        return ExamGossip(self.mixed[agents], self.everyone, starts, *own)


@dataclass(frozen=True, slots=True)
class Arena:
    """The game on one set; `silent` where the agents do not gossip."""

    name: str
    game: AlgorithmGame
    silent: bool
    complete: bool = True

    def gossip(self, outgoing: Array, t: int = 1) -> ExamGossip:
        """Return the gossip of all agents in a round where these rows (n, width) are sent."""
        matrix = csr_array(self._matrix(t))
        starts, columns = (each.astype(np.intp) for each in (matrix.indptr, matrix.indices))
        everyone = outgoing.copy() if self.silent or self.complete else None
        return ExamGossip(matrix @ outgoing, everyone, starts, columns, matrix.data, outgoing[columns])

    def _matrix(self, t: int) -> Array:
        """Return W_t, (n, n)."""
        n = self.game.agents
        if self.silent:
            return np.eye(n)
        if self.complete:
            return np.array([np.roll(_WEIGHTS, agent) for agent in range(n)])
        matrix = np.zeros((n, n))
        chord = t % n, (t + 2) % n
        for one, other in [*((agent, (agent + 1) % n) for agent in range(n)), chord]:
            matrix[one, other] = matrix[other, one] = 0.25  # at most three neighbours
        np.fill_diagonal(matrix, 1.0 - np.add.reduce(matrix, axis=1))
        return matrix

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
    """Return the game on a box that is not symmetric and on a ball; where agents gossip, on a sparse graph, too."""
    box, ball = Box(DIMENSION, -3.0, 4.0), Ball(DIMENSION, 5.0)
    found = [Arena("box", _game(box), silent), Arena("ball", _game(ball), silent)]
    return found if silent else [*found, Arena("box", _game(box), silent, complete=False)]


def _game(feasible: FeasibleSet) -> AlgorithmGame:
    return AlgorithmGame(AGENTS, DIMENSION, CONSTRAINTS, ROUNDS, 1, feasible)


def select_agents(agents: Agents, seen: Values) -> Values:
    """Return the values of some agents."""

    def rows(tangent: ValueAndGradient | None) -> ValueAndGradient | None:
        return None if tangent is None else ValueAndGradient(tangent.value[agents], tangent.gradient[agents])

    return Values(seen.f[agents], seen.g[agents], rows(seen.loss), rows(seen.constraint))


def _linear(a: Array, b: Array, points: Array) -> Array:
    """Return a x - b at points (n, s, p), as (n, s, m)."""
    values: Array = np.add.reduce(a[:, None] * points[:, :, None], axis=-1)
    return values - b[:, None]
