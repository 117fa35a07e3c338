"""Games played in one process from the product's parts: what the tests of the algorithms share."""

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from slaternet.model import ValueAndGradient
from slaternet.numerics.sets import Box, FeasibleSet
from slaternet.spec import AlgorithmSection
from slaternet_adversary import Game as AdversaryGame
from slaternet_adversary.builtin.forms import Functions
from slaternet_adversary.builtin.linear_regression import LinearRegression
from slaternet_agent.algorithms import Algorithm, AlgorithmGame, Decision, Values
from slaternet_agent.algorithms.neighbours import neighbour_sums
from slaternet_agent.registry import GROUP, build
from slaternet_coordinator.graphs.erdos_renyi import Paper

Array = NDArray[np.float64]
Agents = NDArray[np.intp]

DISTRIBUTED = (
    *("zhang2024", "yi2023", "yi2023-full", "yi2024", "yuan2022", "yuan2022-full", "yuan2021", "zero"),
    *("tracking", "clipped"),
)
PAPER = Box(10, -5, 5)
CLASSES = {each.name: each.value for each in entry_points(group=GROUP)}  # looked up once, for it is slow


class Mixed(NamedTuple):
    """Gossip whose mixing is done."""

    mixed: Array
    received: Array


class Heard(NamedTuple):
    """Gossip of some agents: their rows of W_t, and what everybody sends; `received` on any graph."""

    matrix: csr_array
    received: Array

    @property
    def mixed(self) -> Array:
        mixed: Array = self.matrix @ self.received
        return mixed

    @property
    def starts(self) -> Agents:
        return self.matrix.indptr.astype(np.intp)  # type: ignore[no-any-return]

    @property
    def columns(self) -> Agents:
        return self.matrix.indices.astype(np.intp)  # type: ignore[no-any-return]

    @property
    def weights(self) -> Array:
        weights: Array = self.matrix.data
        return weights

    @property
    def rows(self) -> Array:
        return self.received[self.columns]

    def sum(self, values: Array) -> Array:
        return neighbour_sums(self.starts, values)


class Round(NamedTuple):
    """One round as it was played."""

    t: int
    sent: Array
    decision: Decision
    functions: Functions
    state: Any


class Outcome(NamedTuple):
    loss: float
    violation: float
    zero: float
    state: Any


def game(
    feasible: FeasibleSet, agents: int, *, constraints: int = 2, rounds: int | None = 100, seed: int = 3
) -> AlgorithmGame:
    return AlgorithmGame(agents, feasible.dimension, constraints, rounds, seed, feasible)


def made(name: str, of: AlgorithmGame, **numbers: object) -> Algorithm:
    """Return an algorithm as `[algorithm]` of a spec makes it."""
    return build(AlgorithmSection.model_validate({"name": CLASSES[name], **numbers}), of)


def seen_by(algorithm: Algorithm, functions: Functions, agents: Agents, decision: Decision) -> Values:
    """Return what the adversary reveals about a decision."""
    anchor = (decision.x if decision.anchor is None else decision.anchor)[:, None]
    loss = constraint = None
    if algorithm.feedback.loss_gradient:
        loss = ValueAndGradient(functions.loss(agents, anchor)[:, 0], functions.loss_gradient(agents, anchor)[:, 0])
    if algorithm.feedback.constraint_gradient:
        values, gradients = functions.constraint(agents, anchor), functions.constraint_gradient(agents, anchor)
        constraint = ValueAndGradient(values[:, 0], gradients[:, 0])
    points = decision.points
    return Values(functions.loss(agents, points), functions.constraint(agents, points), loss, constraint)


def played(algorithm: Algorithm, of: AlgorithmGame, rounds: int, **options: float) -> Iterator[Round]:
    """Play the paper's example with its graph, round after round."""
    n, agents = of.agents, np.arange(of.agents)
    adversary = LinearRegression(AdversaryGame(n, of.dimension, of.seed, of.set), constraints=of.constraints, **options)
    graph, state = Paper(n, of.seed), algorithm.start(agents)
    for t in range(1, rounds + 1):
        sent = algorithm.outgoing(state, t)
        matrix = graph.matrix(t)
        weights = csr_array((matrix.weights, matrix.columns, matrix.starts), shape=(n, n))
        decision = algorithm.decide(state, Heard(weights, sent), t)
        functions = adversary.play(t)
        state = algorithm.update(state, decision, seen_by(algorithm, functions, agents, decision), t)
        yield Round(t, sent, decision, functions, state)


def outcome(name: str, rounds: int, seed: int, **numbers: object) -> Outcome:
    """Return the scores of the paper's example, n = 100 and p = 10."""
    of = game(PAPER, 100, rounds=rounds, seed=seed)
    agents, scores, state = np.arange(100), np.zeros(3), None
    for each in played(made(name, of, **numbers), of, rounds):
        x, state = each.decision.x, each.state
        losses = each.functions.network_loss(agents, np.vstack((x, np.zeros(10))))
        scores += losses[:-1].mean(), each.functions.network_violation(agents, x).mean(), losses[-1]
    loss, violation, zero = scores.tolist()
    return Outcome(loss, violation, zero, state)
