"""Who may talk to whom in round t: the graphs a spec can name.

A graph is built as Graph(agents, seed, **numbers) and asked for matrix(t) of any round, in any order. The random ones
draw the edges of round t from the stream ("edges", block t), so that everyone who knows the spec knows them.
"""

import math
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from slaternet.errors import BadSpec
from slaternet.model import Agents
from slaternet.plugins import suggestion
from slaternet.streams import stream
from slaternet_coordinator.graphs.weights import Matrix, metropolis, uniform

_LONGEST_TABLE = 1 << 16
_WEIGHTS: dict[str, Callable[[int, Agents], Matrix]] = {"metropolis": metropolis, "uniform": uniform}


class Graph(Protocol):
    """A time-varying weighted graph."""

    @property
    def directed(self) -> bool:
        """Whether j may send to i in a round in which i does not send to j."""

    def matrix(self, t: int) -> Matrix:
        """Return W_t, doubly stochastic; t = 1, 2, 3, ..."""


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
        self._rows = rows
        self._offsets: Agents = self.row_starts - rows - 1  # number of (i, j) less j
        self._pairs = agents * (agents - 1) // 2
        length = _LONGEST_TABLE if rho * _LONGEST_TABLE < 4.0 else int(4.0 / rho) + 1  # 98 gaps of 100 end inside
        self._survival = np.multiply.accumulate(np.full(length, 1.0 - rho))[::-1].copy()  # ascending

    def numbers(self, t: int) -> Agents:
        """Return the numbers of the pairs that are edges in round t, ascending."""
        generator = stream(self._seed, "edges", block=t)
        found, position = [], -1
        while position < self._pairs:
            edges, position = self._skip(generator, position)
            found.append(edges)
        edges = found[0] if len(found) == 1 else np.concatenate(found)
        return edges[: edges.searchsorted(self._pairs)]

    def pairs(self, numbers: Agents) -> Agents:
        """Return the pairs (i, j), i < j, of ascending numbers, (E, 2)."""
        starts = numbers.searchsorted(self.row_starts)
        pairs = np.empty((2, len(numbers)), dtype=np.intp)
        pairs[0] = self._rows[:-1].repeat(starts[1:] - starts[:-1])  # the last row is empty
        np.subtract(numbers, self._offsets[pairs[0]], out=pairs[1])
        return pairs.T

    def _skip(self, generator: np.random.Generator, position: int) -> tuple[Agents, int]:
        """Return the next edges after `position`, about as many as are expected up to the end, and the new position."""
        length = len(self._survival)
        expected = (self._pairs - position) * max(self._rho, 1.0 / length)
        uniforms = generator.random(int(expected + 4.0 * math.sqrt(expected)) + 16)
        below = self._survival.searchsorted(uniforms, side="right")  # the gap is what remains of the table
        # Beyond the table's end the gap goes on with the next number, for it has no memory: no edge there.
        edge = below > 0
        positions = position + np.add.accumulate(length + 1 - np.maximum(below, 1))
        return positions[edge], int(positions[-1])


class Paper:
    """The paper's graph: Erdos-Renyi plus, in turn, one of four segments of the path 0 - 1 - ... - n-1; weights 1/n.

    Any four consecutive rounds contain the whole path, so Assumption 4 holds with B = 4. In the paper's 1-based
    numbers the edge (i, i + 1) belongs to segment floor(4 i / n): for n = 100, i = 1..24 | 25..49 | 50..74 | 75..99.
    """

    directed = False

    def __init__(self, agents: int, seed: int, *, rho: float = 0.1) -> None:
        self._agents = agents
        self._random = RandomEdges(agents, seed, _probability(rho))
        first = np.arange(1, agents)
        self._segments = [self._random.row_starts[:-1][4 * first // agents == each] for each in range(4)]

    def matrix(self, t: int) -> Matrix:
        """Return W_t."""
        numbers = np.concatenate((self._random.numbers(t), self._segments[(t - 1) % 4]))
        numbers.sort()
        fresh = np.ones(len(numbers), dtype=np.bool_)
        np.not_equal(numbers[1:], numbers[:-1], out=fresh[1:])  # a path edge may have been drawn too
        return uniform(self._agents, self._random.pairs(numbers[fresh]))


class ErdosRenyi:
    """Each pair of agents with probability rho, independently in every round; `degree` sets rho = degree / (n - 1)."""

    directed = False

    def __init__(
        self,
        agents: int,
        seed: int,
        *,
        rho: float | None = None,
        degree: float | None = None,
        weights: str = "metropolis",
    ) -> None:
        if (rho is None) == (degree is None):
            raise BadSpec("graph.rho or graph.degree must be given, one of the two")
        if degree is not None:
            rho = _degree(degree, agents) / max(1, agents - 1)
        self._agents = agents
        self._weigh = _weights(weights)
        self._random = RandomEdges(agents, seed, _probability(rho))

    def matrix(self, t: int) -> Matrix:
        """Return W_t."""
        return self._weigh(self._agents, self._random.pairs(self._random.numbers(t)))


class Ring:
    """Every agent with the next and the one before, the same in every round."""

    directed = False

    def __init__(self, agents: int, seed: int, *, weights: str = "metropolis") -> None:
        del seed  # nothing is drawn
        pairs = {(min(i, j), max(i, j)) for i, j in _around(agents) if i != j}
        self._matrix = _weights(weights)(agents, np.array(sorted(pairs), dtype=np.intp).reshape(-1, 2))

    def matrix(self, t: int) -> Matrix:
        """Return W."""
        del t  # constant
        return self._matrix


class Complete:
    """Everyone with everyone, the same in every round."""

    directed = False

    def __init__(self, agents: int, seed: int, *, weights: str = "metropolis") -> None:
        del seed  # nothing is drawn
        self._matrix = _weights(weights)(agents, np.stack(np.triu_indices(agents, 1), axis=1))

    def matrix(self, t: int) -> Matrix:
        """Return W."""
        del t  # constant
        return self._matrix


def _around(agents: int) -> Iterator[tuple[int, int]]:
    return ((i, (i + 1) % agents) for i in range(agents))


def _probability(rho: object) -> float:
    if isinstance(rho, bool) or not isinstance(rho, int | float) or not 0.0 <= rho <= 1.0:
        raise BadSpec(f"graph.rho must be a probability from 0 to 1, not {rho!r}")
    return float(rho)


def _degree(degree: object, agents: int) -> float:
    if isinstance(degree, bool) or not isinstance(degree, int | float) or not 0.0 < degree <= max(1, agents - 1):
        raise BadSpec(f"graph.degree must lie above 0 and at most at {agents - 1}, the other agents, not {degree!r}")
    return float(degree)


def _weights(name: object) -> Callable[[int, Agents], Matrix]:
    if not isinstance(name, str) or name not in _WEIGHTS:
        raise BadSpec(f"graph.weights = {name!r} is not known; {suggestion(str(name), _WEIGHTS)}")
    return _WEIGHTS[name]
