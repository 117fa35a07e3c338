"""A user's graph: every error of its code becomes one sentence for the operator."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from slaternet.errors import PluginFailed
from slaternet_coordinator.graphs.base import Graph, Matrix


class Foreign(Graph):
    """The graph of a plugin, each call of it within `calling(method, round)`; the plugin needs only `matrix(t)`."""

    def __init__(
        self, name: str, calling: Callable[..., AbstractContextManager[None]], make: Callable[[], Any]
    ) -> None:
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
            found: Matrix = self._graph.matrix(t)
        return found

    def matrices(self, first: int, rounds: int) -> Matrix:
        """Return W_t of consecutive rounds, one below the other."""
        if not hasattr(self._graph, "matrices"):
            return super().matrices(first, rounds)
        with self._calling("matrices", first, of=self._graph):
            found: Matrix = self._graph.matrices(first, rounds)
        return found
