"""Edge lists over time: a text of lines `round i j` or `round i j weight`, parted by blanks or commas.

Rounds count from 1, agents from 0. Headings on top, empty lines and what follows a # are skipped. A round without
lines is one without edges.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet_coordinator.graphs.base import Matrix
from slaternet_coordinator.graphs.weights import Weights, entries, share, weighed

_MOST_ROUNDS = 1 << 18
"""Most rounds of a file: a round number far beyond the others is probably a mistake, and each takes some memory."""
_MOST_ROWS = 1 << 22
"""Most rounds times agents."""
_MOST_EDGES = 1 << 21
"""Most edges of a list, which take far more memory as text than as an .npz."""

Edge = tuple[int, int, int]


@dataclass(frozen=True)
class EdgeList:
    """The content of a list: `weights` is None where it gives none, `source` begins error messages about it."""

    source: str
    agents: int
    edges: Agents  # (E, 3): round, i, j, in ascending order; undirected ones with i < j
    weights: Array | None  # (E,)

    @property
    def rounds(self) -> int:
        """The number of its last round."""
        return int(self.edges[-1, 0])

    def undirected(self, weights: Weights) -> Matrix:
        """Return the rounds, every edge going both ways, weighed as listed or else as `graph.weights` says."""
        low, high = self._rows()
        if self.weights is None:
            return weighed(weights, self.agents, np.stack((low, high), axis=1), self.rounds)
        both = np.concatenate((self.weights, self.weights))
        return self._matrix(np.concatenate((low, high)), np.concatenate((high, low)), both)

    def directed(self, weights: Weights) -> Matrix:
        """Return the rounds, an edge (i, j) meaning that i receives from j; BadSpec where that is not balanced.

        Unless the list weighs them, all edges of a round weigh the same: 1 / (1 + its largest degree), or 1/n.
        """
        to, by = self._rows()
        if self.weights is not None:
            return self._matrix(to, by, self.weights)
        degrees = np.maximum(*(np.bincount(rows, minlength=self.rounds * self.agents) for rows in (to, by)))
        largest = degrees.reshape(self.rounds, self.agents).max(axis=1)
        shares = np.array([share(weights, self.agents, int(degree)) for degree in largest])
        return self._matrix(to, by, shares[to // self.agents])

    def _rows(self) -> tuple[Agents, Agents]:
        first = (self.edges[:, 0] - 1) * self.agents
        return first + self.edges[:, 1], first + self.edges[:, 2]

    def _matrix(self, to: Agents, by: Agents, weights: Array) -> Matrix:
        received, sent = (np.bincount(rows, weights, self.rounds * self.agents) for rows in (to, by))
        worst = int(np.abs(received - sent).argmax())
        if abs(received[worst] - sent[worst]) > LIMITS.stochastic:
            raise BadSpec(
                f"{self.source} is not balanced, because {self._place(worst)} receives with weight "
                f"{received[worst]:g} and sends with {sent[worst]:g}; make the two equal for every agent, or set "
                "graph.directed = false"
            )
        largest = int(received.argmax())
        if not received[largest] < 1.0:
            raise BadSpec(
                f"{self.source} leaves an agent no weight on itself, because {self._place(largest)} receives with "
                f"weight {received[largest]:g}; keep that below 1"
            )
        return entries(self.agents, to, by % self.agents, weights, self.rounds)

    def _place(self, row: int) -> str:
        return f"in round {row // self.agents + 1} agent {row % self.agents}"


def check_length(rounds: int, agents: int, source: str) -> None:
    """Refuse a file of more rounds than can be held in memory."""
    if rounds > (most := _most_rounds(agents)):
        raise BadSpec(f"{source} holds {rounds} rounds; make it at most {most}, it is played again from its first")


def _most_rounds(agents: int) -> int:
    return max(1, min(_MOST_ROUNDS, _MOST_ROWS // agents))


def parse(text: str, agents: int, source: str, *, directed: bool) -> EdgeList:
    """Read a list of edges among that many agents; BadSpec names the line at fault."""
    found: dict[Edge, tuple[float | None, int]] = {}
    weighted: bool | None = None
    for number, fields in _lines(text):
        where = f"{source}, line {number},"
        edge, weight = _edge(fields, agents, where, directed=directed), _weight(fields[3:], where)
        if weighted not in (None, weight is not None):
            raise BadSpec(f"{where} differs from the lines before it; give a weight on every line or on none")
        weighted = weight is not None
        before, line = found.setdefault(edge, (weight, number))
        if len(found) > _MOST_EDGES:
            raise BadSpec(f"{where} is one edge too many; a list holds {_MOST_EDGES}, and an .npz with W may hold more")
        if before != weight:
            raise BadSpec(f"{where} gives the edge of line {line} another weight; remove one of the two")
    if not found:
        raise BadSpec(f"{source} holds no edge; write lines of round, i, j and perhaps a weight")
    edges = sorted(found)
    weights = np.array([found[edge][0] for edge in edges], dtype=np.float64) if weighted else None
    return EdgeList(source, agents, np.array(edges, dtype=np.intp), weights)


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of every line that is neither empty nor a heading."""
    begun = False
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.partition("#")[0].replace(",", " ").split()
        if fields and (begun or not fields[0].strip('"').isalpha()):
            yield number, fields
        begun = begun or bool(fields)


def _edge(fields: list[str], agents: int, where: str, *, directed: bool) -> Edge:
    try:
        t, i, j = map(int, fields[:3])
    except ValueError:
        raise BadSpec(f"{where} does not begin with three whole numbers; write round, i, j") from None
    if not (0 <= i < agents and 0 <= j < agents):
        raise BadSpec(f"{where} names agents {i} and {j}; agents are numbered from 0 to {agents - 1}")
    if i == j:
        raise BadSpec(f"{where} joins agent {i} with itself; remove it, an agent's own weight is what its edges leave")
    most = _most_rounds(agents)
    if not 1 <= t <= most:
        raise BadSpec(f"{where} names round {t}; rounds are numbered from 1 on, at most to {most}")
    return (t, i, j) if directed else (t, min(i, j), max(i, j))


def _weight(fields: list[str], where: str) -> float | None:
    try:
        weights = [float(field) for field in fields]
    except ValueError:
        weights = [0.0]
    if len(weights) > 1 or not all(0.0 < weight < 1.0 for weight in weights):
        raise BadSpec(f"{where} says {' '.join(fields)} after round, i, j; write one weight between 0 and 1, or none")
    return weights[0] if weights else None
