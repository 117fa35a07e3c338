"""A user's graph: every error of its code becomes one sentence for the operator."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from slaternet.errors import PluginFailed
from slaternet_coordinator.graphs.base import Graph, Matrix


class Foreign(Graph):
    """The graph of a plugin, each call of it within `calling(method, round)`; the plugin needs only `matrix(t)`."""

    def __init__(
        self, name: str, agents: int, calling: Callable[..., AbstractContextManager[None]], make: Callable[[], Any]
    ) -> None:
        self._name, self._agents, self._calling = name, agents, calling
        with calling("constructor"):
            self._graph = make()
        if not callable(getattr(self._graph, "matrix", None)):
            raise PluginFailed(f"graph.name = {name} is no graph; give its class a method matrix(t)")
        self.directed = bool(getattr(self._graph, "directed", False))

    @property
    def audience(self) -> Matrix | None:
        """Who may ever mix whom, where the plugin says so."""
        with self._calling("audience", of=self._graph):
            found: Matrix | None = getattr(self._graph, "audience", None)
        if found is not None and not _is_matrix(found, self._agents):
            raise PluginFailed(
                f"the graph {self._name} failed: its audience is no Matrix of one round for {self._agents} agents, "
                "with columns that ascend and an agent's own among them; correct it, or return None"
            )
        return found

    def matrix(self, t: int) -> Matrix:
        """Return W_t."""
        with self._calling("matrix", t, of=self._graph):
            found: Matrix = self._graph.matrix(t)
        return found

    def matrices(self, first: int, rounds: int) -> Matrix:
        """Return W_t of consecutive rounds, one below the other."""
        if not hasattr(self._graph, "matrices"):
            return super().matrices(first, rounds)
        with self._calling("matrices", first, of=self._graph):
            found: Matrix = self._graph.matrices(first, rounds)
        return found


def _is_matrix(found: object, agents: int) -> bool:
    """Return whether this is a matrix of one round: who may mix whom is looked up in it by place."""
    if not isinstance(found, Matrix) or found.agents != agents:
        return False
    starts, columns, weights = found.starts, found.columns, found.weights
    if not all(isinstance(each, np.ndarray) and each.ndim == 1 for each in (starts, columns, weights)):
        return False
    if starts.dtype.kind not in "iu" or columns.dtype.kind not in "iu" or len(starts) != agents + 1:
        return False
    if starts[0] != 0 or (starts[1:] < starts[:-1]).any() or not starts[-1] == len(columns) == len(weights):
        return False
    rows = found.rows()
    if (
        not columns.size
        or columns.min() < 0
        or columns.max() >= agents
        or (np.diff(rows * agents + columns) <= 0).any()
    ):
        return False
    return bool(np.count_nonzero(rows == columns) == agents)
