"""A user's graph, at arm's length: whatever its code raises is one sentence for the operator."""

from collections.abc import Callable
from typing import Any, TypeVar

from slaternet.errors import PluginFailed, SlaternetError
from slaternet_coordinator.graphs.base import Graph, Matrix

T = TypeVar("T")


class Foreign(Graph):
    """The graph that a plugin makes, called with its errors caught; it needs no more than `matrix(t)`."""

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self._name = name
        self._graph = self._call("its constructor", make)
        if not callable(getattr(self._graph, "matrix", None)):
            raise PluginFailed(f"graph.name = {name} is no graph; give its class a method matrix(t)")
        self.directed = bool(getattr(self._graph, "directed", False))

    def matrix(self, t: int) -> Matrix:
        """Return W_t."""
        found: Matrix = self._call(f"matrix({t})", lambda: self._graph.matrix(t))
        return found

    def matrices(self, first: int, rounds: int) -> Matrix:
        """Return W_t of consecutive rounds, one below the other."""
        if not hasattr(self._graph, "matrices"):
            return super().matrices(first, rounds)
        found: Matrix = self._call(f"matrices({first}, {rounds})", lambda: self._graph.matrices(first, rounds))
        return found

    def _call(self, what: str, work: Callable[[], T]) -> T:
        try:
            return work()
        except SlaternetError:
            raise
        except Exception as error:  # the plugin edge: whatever the author's code raises
            raise PluginFailed(
                f"graph.name = {self._name} failed: {what} raised {type(error).__name__}: {error}; correct its code"
            ) from error
