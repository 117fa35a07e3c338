"""A user's graph: every error of its code becomes one sentence for the operator."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from slaternet.errors import PluginFailed
from slaternet_coordinator.graphs.base import Graph, Matrix


class Foreign(Graph):
    """The graph of a plugin, each call of it within `calling(method, round)`; the plugin needs only `matrix(t)`.

    `breach` makes the error for an object whose method, in a round, has returned what it should not; with the remedy.
    """

    def __init__(
        self,
        name: str,
        agents: int,
        calling: Callable[..., AbstractContextManager[None]],
        breach: Callable[[object, str, int, str, str], PluginFailed],
        make: Callable[[], Any],
    ) -> None:
        self._breach = breach
        self._agents = agents
        self._calling = calling
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
        return found

    def matrix(self, t: int) -> Matrix:
        """Return W_t."""
        with self._calling("matrix", t, of=self._graph):
            return self._checked("matrix", t, 1, self._graph.matrix(t))

    def matrices(self, first: int, rounds: int) -> Matrix:
        """Return W_t of consecutive rounds, one below the other."""
        if not hasattr(self._graph, "matrices"):
            return super().matrices(first, rounds)
        with self._calling("matrices", first, of=self._graph):
            return self._checked("matrices", first, rounds, self._graph.matrices(first, rounds))

    def _checked(self, method: str, first: int, rounds: int, found: object) -> Matrix:
        """Return what a method has returned: a Matrix with a row for every agent of every round."""
        if not isinstance(found, Matrix):
            what = f"returned {type(found).__name__} where a slaternet_coordinator.graphs.Matrix was due"
            raise self._breach(self._graph, method, first, what, "return one, as metropolis(n, edges) makes it")
        rows, due = len(found.starts) - 1, rounds * self._agents
        if (found.agents, rows) != (self._agents, due):
            what = (
                f"returned the wrong shape: expected {due} rows of {self._agents} agents, got {rows} of {found.agents}"
            )
            raise self._breach(self._graph, method, first, what, "return a row for every agent of every round")
        return found
