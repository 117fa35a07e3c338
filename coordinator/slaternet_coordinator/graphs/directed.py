"""Directed graphs that are doubly stochastic: circulants, and means of random permutations."""

from collections.abc import Sequence

import numpy as np

from slaternet.errors import BadSpec
from slaternet.streams import stream
from slaternet_coordinator.graphs.generators import Graph, Periodic
from slaternet_coordinator.graphs.options import positive, share, whole
from slaternet_coordinator.graphs.weights import Matrix, entries, permutations


class DirectedCirculant(Periodic):
    """Agent i hears i - h (mod n) for every hop h, the same in every round; doubly stochastic as every circulant is.

    The weights: "metropolis", hops and the agent itself alike; "uniform", 1/n for every hop; or a list of one number
    for each hop, which leaves the rest to the agent itself.
    """

    directed = True

    def __init__(
        self, agents: int, seed: int, *, hops: Sequence[int], weights: str | Sequence[float] = "metropolis"
    ) -> None:
        del seed  # nothing is drawn
        steps = _hops(hops, agents)
        super().__init__([circulant(agents, steps, _shares(weights, agents, len(steps)))])


class DirectedPermutations(Graph):
    """In every round the mean of the identity and `count` random permutations: doubly stochastic (Birkhoff).

    Each permutation is the order of n uniform numbers from the stream ("permutations", block t).
    """

    directed = True

    def __init__(self, agents: int, seed: int, *, count: int = 1) -> None:
        self._seed = seed
        self._shape = (whole("graph.count", count, agents), agents)

    def matrix(self, t: int) -> Matrix:
        """Return W_t."""
        return self.matrices(t, 1)

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


def _hops(hops: object, agents: int) -> list[int]:
    given = [hop for hop in hops if isinstance(hop, int)] if isinstance(hops, list) else []
    if not given or given != hops or any(isinstance(hop, bool) for hop in given):
        raise BadSpec(f"graph.hops must be a list of one or more whole numbers, not {hops!r}")
    steps = [hop % agents for hop in given]
    if 0 in steps:
        wrong = given[steps.index(0)]
        raise BadSpec(f"graph.hops holds {wrong}, which leads all {agents} agents back to themselves; remove it")
    if len(set(steps)) < len(steps):
        raise BadSpec(f"graph.hops = {given} leads twice to the same agent of {agents}; name each hop once modulo n")
    return steps


def _shares(weights: object, agents: int, hops: int) -> list[float]:
    if not isinstance(weights, list):
        return [share(weights, agents, hops)] * hops
    shares = [positive("graph.weights", weight) for weight in weights]
    if len(shares) != hops:
        raise BadSpec(f"graph.weights holds {len(shares)} numbers for {hops} hops; give one for each of graph.hops")
    if not sum(shares) < 1.0:
        raise BadSpec(f"graph.weights sum to {sum(shares):g}; keep the sum below 1, the rest is an agent's own weight")
    return shares
