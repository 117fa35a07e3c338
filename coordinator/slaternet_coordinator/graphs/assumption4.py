"""Assumption 4: double stochasticity of every W_t, and joint connectivity over windows of rounds.

Strong connectivity needs no separate search. The sum of W_t over a window is a positive multiple of a doubly stochastic
matrix: whatever weight leaves a group of agents also enters it, so a window that connects everyone when directions are
ignored connects everyone strongly.
"""

import numpy as np

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet_coordinator.graphs.base import Graph, Matrix

_REMEDY = "correct the graph's weights"


def check(matrix: Matrix, first: int, who: str = "graph.name") -> None:
    """Raise BadSpec unless in every round weights are positive, diagonal included, and rows and columns sum to 1.

    The matrix holds consecutive rounds from `first` on, checked all at once: it is done for every round played. The
    sentence begins with `who`, the key that gave the weights.
    """
    n, rounds, weights = matrix.agents, matrix.rounds, matrix.weights
    # rows and columns numbered through all rounds
    row = matrix.rows()
    column = matrix.columns + np.repeat(n * np.arange(rounds), np.diff(matrix.starts[::n]))
    if not (weights.size and weights.min() > 0.0):
        raise BadSpec(f"{who} gives a weight that is not positive in rounds {first} on; {_REMEDY}")
    if np.count_nonzero(row == column) != rounds * n:
        raise BadSpec(f"{who} gives an agent no weight on itself in rounds {first} on; {_REMEDY}")
    by_row = np.add.reduceat(weights, matrix.starts[:-1])
    by_column = np.bincount(column, weights, rounds * n)
    for what, sums in (("row", by_row), ("column", by_column)):
        miss = np.abs(sums - 1.0)
        worst = int(miss.argmax())
        if not miss[worst] <= LIMITS.stochastic:
            offset, which = divmod(worst, n)
            raise BadSpec(
                f"{who} gives weights whose {what} {which} sums to {sums[worst]} in round {first + offset}, "
                f"not 1; {_REMEDY}"
            )


def connects(graph: Graph, rounds: int) -> bool:
    """Return whether rounds 1..rounds together connect all agents; stop at the first round where they do."""
    forest = _Forest()
    return any(forest.add(graph.matrix(t), t) is not None for t in range(1, rounds + 1))


def window(graph: Graph, rounds: int) -> int | None:
    """Return the smallest B such that every window of B rounds in 1..rounds connects all agents, if there is one."""
    windows = Windows()
    for t in range(1, rounds + 1):
        windows.add(graph.matrix(t), t)
    return windows.smallest


class Windows:
    """The smallest B such that every window of B rounds seen so far connects all agents; rounds come from 1 on."""

    def __init__(self) -> None:
        self._forest = _Forest()
        self.smallest: int | None = None
        """None as long as not even all rounds together connect."""

    def add(self, matrix: Matrix, t: int) -> None:
        """Add the graph of round t."""
        latest = self._forest.add(matrix, t)
        if latest is not None:
            # No window that ends before the first connected one may lie within 1..rounds, so B is at least its end.
            self.smallest = max(self.smallest or t, t - latest + 1)


class _Forest:
    """The spanning forest of the newest edges: it gives the latest start of a connected window that ends now.

    A window start..end is connected exactly if the spanning tree of greatest edge rounds uses no edge older than
    `start`. A round's edges enter as stars, one for each group they connect, which connect the same agents.
    """

    def __init__(self) -> None:
        self._edges: list[tuple[int, int, int]] = []  # (round, agent, agent), newest first

    def add(self, matrix: Matrix, t: int) -> int | None:
        """Add the edges of round t; return the latest start of a connected window start..t, if there is one."""
        # imported here: it takes as long as everything else that a game needs, and a game does not need it
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        shape = (matrix.agents, matrix.agents)
        entries = csr_array((matrix.weights, matrix.columns, matrix.starts), shape=shape)
        group = connected_components(entries, directed=False)[1]
        _, centres = np.unique(group, return_index=True)
        star = [(t, int(centres[each]), agent) for agent, each in enumerate(group) if centres[each] != agent]
        parent = [int(centres[each]) for each in group]
        if len(centres) > 1:
            star += [edge for edge in self._edges if _join(parent, edge[1], edge[2])]
        self._edges = star
        if matrix.agents == 1:
            return t
        return star[-1][0] if len(star) == matrix.agents - 1 else None


def _join(parent: list[int], one: int, other: int) -> bool:
    """Unite the groups of two agents; return whether they were apart."""
    one, other = _root(parent, one), _root(parent, other)
    parent[one] = other
    return one != other


def _root(parent: list[int], agent: int) -> int:
    while parent[agent] != agent:
        parent[agent] = parent[parent[agent]]
        agent = parent[agent]
    return agent
