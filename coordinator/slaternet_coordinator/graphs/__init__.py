"""Time-varying graphs, their weights, and Assumption 4."""

from slaternet_coordinator.graphs.base import Graph, Matrix
from slaternet_coordinator.graphs.survivors import check_departures

__all__ = ["Graph", "Matrix", "check_departures"]
