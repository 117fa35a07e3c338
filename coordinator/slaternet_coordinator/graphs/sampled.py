"""Random undirected graphs beyond Erdos-Renyi: agents near each other in the plane, and gossip matchings.

Distances are compared as squares: nothing that decides an edge differs between machines.
"""

import math
from collections.abc import Iterable

import numpy as np
from pydantic import PositiveFloat
from scipy.spatial import KDTree

from slaternet.fields import checked
from slaternet.model import Agents
from slaternet.numerics.randomness import stream
from slaternet_coordinator.graphs.base import Batched, Graph, Matrix, check_edges
from slaternet_coordinator.graphs.weights import Weights, metropolis, weighed

_SLACK = 1.0 + 1e-9
"""By how much wider the tree searches than the radius: it rounds in its own way."""


class Geometric(Graph):
    """Agents at uniform places in the unit square, each with those within `radius`.

    The places come from the stream ("places", block t): those of round 1 stay, or with `fresh` they are drawn anew.
    """

    @checked("graph")
    def __init__(
        self, agents: int, seed: int, *, radius: PositiveFloat, fresh: bool = False, weights: Weights = "metropolis"
    ) -> None:
        self._agents = agents
        self._seed = seed
        self._radius = radius
        self._fresh = fresh
        self._weights = weights
        check_edges(agents, agents + agents * agents * min(1.0, math.pi * radius * radius))
        self._first = self._drawn([1])

    def matrix(self, t: int) -> Matrix:
        """Return W_t."""
        return self._drawn([t]) if self._fresh else self._first

    def matrices(self, first: int, rounds: int) -> Matrix:
        """Return W_t of consecutive rounds, one below the other."""
        return self._drawn(range(first, first + rounds)) if self._fresh else super().matrices(first, rounds)

    @property
    def audience(self) -> Matrix | None:
        """The neighbours of round 1, where they stay."""
        return None if self._fresh else self._first

    def _drawn(self, rounds: Iterable[int]) -> Matrix:
        edges = [self._near(t) + self._agents * offset for offset, t in enumerate(rounds)]
        return weighed(self._weights, self._agents, np.concatenate(edges), len(edges))

    def _near(self, t: int) -> Agents:
        """Return the pairs of agents within the radius in round t."""
        places = stream(self._seed, "places", block=t).random((self._agents, 2))
        pairs: Agents = KDTree(places).query_pairs(self._radius * _SLACK, output_type="ndarray")
        away = places[pairs[:, 0]] - places[pairs[:, 1]]
        squares = away * away
        return pairs[squares[:, 0] + squares[:, 1] <= self._radius * self._radius]


class Matching(Batched):
    """Gossip: in every round the agents form random pairs that average, W_t = I - sum (e_i - e_j)(e_i - e_j)' / 2.

    Of an odd number one agent stays alone. The order of n uniform numbers from the stream ("matching", block t) pairs
    the first with the second, the third with the fourth, and so on.
    """

    def __init__(self, agents: int, seed: int) -> None:
        self._agents = agents
        self._seed = seed

    def matrices(self, first: int, rounds: int) -> Matrix:
        """Return W_t of consecutive rounds, one below the other."""
        n, blocks = self._agents, range(first, first + rounds)
        numbers = np.stack([stream(self._seed, "matching", block=t).random(n) for t in blocks])
        order = numbers.argsort(axis=-1, kind="stable") + n * np.arange(rounds)[:, None]
        pairs = np.sort(order[:, : n - n % 2].reshape(-1, 2), axis=1)
        return metropolis(n, pairs, rounds)  # everyone has at most one edge: weights of one half
