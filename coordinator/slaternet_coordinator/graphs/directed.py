"""Directed graphs that are doubly stochastic: circulants, and means of random permutations."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from slaternet.errors import BadSpec
from slaternet.fields import checked
from slaternet.numerics.randomness import stream
from slaternet_coordinator.graphs.base import Batched, Matrix, Periodic, check_edges
from slaternet_coordinator.graphs.weights import Weights, entries, permutations, share

Hops = Annotated[list[int], Field(min_length=1), "a list of one or more whole numbers"]


class DirectedCirculant(Periodic):
    """Agent i receives from i - h (mod n) for every hop h, the same in every round: a circulant, so doubly stochastic.

    The weights: "metropolis", hops and the agent itself alike; "uniform", 1/n for every hop; or a list of one number
    for each hop, which leaves the rest to the agent itself.
    """

    directed = True

    @checked("graph")
    def __init__(
        self, agents: int, seed: int, *, hops: Hops, weights: Weights | list[PositiveFloat] = "metropolis"
    ) -> None:
        del seed  # nothing is drawn
        steps = _steps(hops, agents)
        check_edges(agents, agents * (len(steps) + 1))
        super().__init__([circulant(agents, steps, _shares(weights, agents, len(steps)))])


class DirectedPermutations(Batched):
    """In every round the mean of the identity and `count` random permutations: doubly stochastic (Birkhoff).

    Each permutation is the order of n uniform numbers from the stream ("permutations", block t).
    """

    directed = True

    @checked("graph")
    def __init__(self, agents: int, seed: int, *, count: PositiveInt = 1) -> None:
        if count > agents:
            raise BadSpec(f"graph.count must be at most {agents}, the number of agents, not {count}")
        check_edges(agents, agents * (count + 1))
        self._seed = seed
        self._shape = (count, agents)

    def matrices(self, first: int, rounds: int) -> Matrix:
        """Return W_t of consecutive rounds, one below the other."""
        blocks = range(first, first + rounds)
        numbers = np.stack([stream(self._seed, "permutations", block=t).random(self._shape) for t in blocks])
        return permutations(numbers.argsort(axis=-1, kind="stable"))


def circulant(agents: int, hops: Sequence[int], shares: Sequence[float]) -> Matrix:
    """Return the matrix in which i gives shares[k] to i - hops[k] and the rest to itself; hops differ, none is 0."""
    i = np.arange(agents)
    hop = np.array(hops, dtype=np.intp)[:, None]
    return entries(agents, np.tile(i, len(hops)), ((i - hop) % agents).ravel(), np.repeat(shares, agents))


def _steps(hops: list[int], agents: int) -> list[int]:
    steps = [hop % agents for hop in hops]
    if 0 in steps:
        raise BadSpec(
            f"graph.hops holds {hops[steps.index(0)]}, which leads all {agents} agents back to themselves; remove it"
        )
    if len(set(steps)) < len(steps):
        raise BadSpec(f"graph.hops = {hops} leads twice to the same agent of {agents}; name each hop once modulo n")
    return steps


def _shares(weights: Weights | list[float], agents: int, hops: int) -> list[float]:
    if not isinstance(weights, list):
        return [share(weights, agents, hops)] * hops
    if len(weights) != hops:
        raise BadSpec(f"graph.weights holds {len(weights)} numbers for {hops} hops; give one for each of graph.hops")
    if not sum(weights) < 1.0:
        raise BadSpec(f"graph.weights sum to {sum(weights):g}; keep the sum below 1, the rest is an agent's own weight")
    return weights
