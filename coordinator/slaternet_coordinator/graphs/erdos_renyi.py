"""Erdos-Renyi graphs: edges by chance, and the paper's graph, which adds parts of a path."""

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat

from slaternet.errors import BadSpec
from slaternet.fields import checked
from slaternet.model import Agents, Array
from slaternet.numerics.randomness import stream, streams
from slaternet_coordinator.graphs.base import Batched, Matrix, check_edges
from slaternet_coordinator.graphs.weights import Weights, uniform, weighed

_LONGEST_TABLE = 1 << 16

Probability = Annotated[float, Field(ge=0, le=1)]


class RandomEdges:
    """Erdos-Renyi edges: each pair of agents with probability rho, independently in every round.

    Pairs are numbered row by row, (0, 1), (0, 2), ..., (1, 2), ... The gaps between edges are geometric, so skipping
    from edge to edge costs O(edges) instead of O(n^2). A gap is found by looking a uniform number up in the table of
    (1 - rho)^1, (1 - rho)^2, ..., made by repeated multiplication, because logarithms differ between machines.
    """

    def __init__(self, agents: int, seed: int, rho: float) -> None:
        self._seed = seed
        self._rho = rho
        rows = np.arange(agents, dtype=np.intp)
        self.row_starts: Agents = rows * agents - rows * (rows + 1) // 2  # number of the pair (i, i + 1)
        self.pairs = agents * (agents - 1) // 2
        check_edges(agents, agents + 2 * rho * self.pairs)
        self._layouts: dict[int, tuple[Agents, Agents]] = {}
        length = _LONGEST_TABLE if rho * _LONGEST_TABLE < 4.0 else int(4.0 / rho) + 1  # 98 gaps of 100 end inside
        self._survival = np.multiply.accumulate(np.full(length, 1.0 - rho))[::-1].copy()  # ascending

    def numbers(self, first: int, rounds: int) -> Agents:
        """Return the numbers of the pairs that are edges, ascending, counted on from round to round."""
        uniforms = np.empty((rounds, self._draws(-1)))
        addresses = ((0, t) for t in range(first, first + rounds))
        for row, generator in zip(uniforms, streams(self._seed, "edges", addresses), strict=True):
            generator.random(out=row)
        positions, edge = self._skip(uniforms, -1)
        found = (positions + self.pairs * np.arange(rounds)[:, None])[edge & (positions < self.pairs)]
        short = np.flatnonzero(positions[:, -1] < self.pairs)
        if not len(short):
            return found
        rest = [
            self._rest(first + r, uniforms.shape[1], int(positions[r, -1])) + self.pairs * r for r in short.tolist()
        ]
        return np.sort(np.concatenate((found, *rest)))

    def ends(self, numbers: Agents, rounds: int) -> Agents:
        """Return the two ends of edges given by ascending numbers, as rows r n + i, r n + j with i < j; (E, 2)."""
        starts, offsets = self._layout(rounds)
        counts = np.diff(numbers.searchsorted(starts), append=len(numbers))
        ends = np.empty((2, len(numbers)), dtype=np.intp)
        ends[0] = np.arange(len(starts)).repeat(counts)
        np.subtract(numbers, offsets.repeat(counts), out=ends[1])
        return ends.T

    def _layout(self, rounds: int) -> tuple[Agents, Agents]:
        """Return the number of every row's first pair, and what a number exceeds its second end's row by."""
        if rounds not in self._layouts:
            r = np.arange(rounds)[:, None]
            starts = self.row_starts + self.pairs * r
            offsets = self.row_starts - np.arange(len(self.row_starts)) - 1 + (self.pairs - len(self.row_starts)) * r
            self._layouts[rounds] = (starts.ravel(), offsets.ravel())
        return self._layouts[rounds]

    def _draws(self, position: int) -> int:
        """Return how many gaps to draw, so that they mostly lead from a position to the end."""
        expected = (self.pairs - position) * max(self._rho, 1.0 / len(self._survival))
        return int(expected + 4.0 * math.sqrt(expected)) + 16

    def _rest(self, round: int, drawn: int, position: int) -> Agents:
        """Return the edges of a round beyond a position, which so many numbers of its generator have led to."""
        generator = stream(self._seed, "edges", block=round)
        generator.random(drawn)
        found = []
        while position < self.pairs:
            positions, edge = self._skip(generator.random((1, self._draws(position))), position)
            found.append(positions[edge & (positions < self.pairs)])
            position = int(positions[0, -1])
        return np.concatenate(found)

    def _skip(self, uniforms: Array, position: int) -> tuple[Agents, NDArray[np.bool_]]:
        """Return where the gaps of each row lead to from `position`, and which of them end at an edge."""
        length = len(self._survival)
        below = self._survival.searchsorted(uniforms, side="right")  # the gap is what remains of the table
        # Beyond the table's end the gap goes on with the next number, for it has no memory: no edge there.
        return position + np.add.accumulate(length + 1 - np.maximum(below, 1), axis=1), below > 0


class Paper(Batched):
    """The paper's graph: Erdos-Renyi plus, in turn, one of four segments of the path 0 - 1 - ... - n-1; weights 1/n.

    Any four consecutive rounds contain the whole path, so Assumption 4 holds with B = 4. In the paper's 1-based
    numbers the edge (i, i + 1) belongs to segment floor(4 i / n): for n = 100, i = 1..24 | 25..49 | 50..74 | 75..99.
    """

    @checked("graph")
    def __init__(self, agents: int, seed: int, *, rho: Probability = 0.1) -> None:
        self._agents = agents
        self._random = RandomEdges(agents, seed, rho)
        first = np.arange(1, agents)
        self._segments = [self._random.row_starts[:-1][4 * first // agents == each] for each in range(4)]

    def matrices(self, first: int, rounds: int) -> Matrix:
        """Return W_t of consecutive rounds, one below the other."""
        random = self._random
        paths = [self._segments[(first + r - 1) % 4] + random.pairs * r for r in range(rounds)]
        numbers = np.concatenate((random.numbers(first, rounds), *paths))
        numbers.sort()
        fresh = np.ones(len(numbers), dtype=np.bool_)
        np.not_equal(numbers[1:], numbers[:-1], out=fresh[1:])  # a path edge may have been drawn too
        return uniform(self._agents, random.ends(numbers[fresh], rounds), rounds)


class ErdosRenyi(Batched):
    """Each pair of agents with probability rho, independently in every round; `degree` sets rho = degree / (n - 1)."""

    @checked("graph")
    def __init__(
        self,
        agents: int,
        seed: int,
        *,
        rho: Probability | None = None,
        degree: PositiveFloat | None = None,
        weights: Weights = "metropolis",
    ) -> None:
        if (rho is None) == (degree is None):
            raise BadSpec("graph.rho or graph.degree must be given, one of the two")
        if degree is not None:
            rho = degree / max(1, agents - 1)
            if rho > 1.0:
                raise BadSpec(f"graph.degree must be at most {agents - 1}, the other agents, not {degree:g}")
        self._agents = agents
        self._weights = weights
        self._random = RandomEdges(agents, seed, rho or 0.0)

    def matrices(self, first: int, rounds: int) -> Matrix:
        """Return W_t of consecutive rounds, one below the other."""
        ends = self._random.ends(self._random.numbers(first, rounds), rounds)
        return weighed(self._weights, self._agents, ends, rounds)
