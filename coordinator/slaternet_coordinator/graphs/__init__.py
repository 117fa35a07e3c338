"""Time-varying graphs: generators, weights, checks, and how a spec's `[graph]` becomes one."""

from slaternet.plugins import check_options, load
from slaternet.spec import GraphSection
from slaternet_coordinator.graphs.generators import Graph
from slaternet_coordinator.graphs.weights import Matrix

__all__ = ["Graph", "Matrix", "build"]


def build(section: GraphSection, agents: int, seed: int) -> Graph:
    """Return the graph that `[graph]` of a spec describes; BadSpec names the key at fault."""
    factory = load("slaternet.graphs", section.name, key="graph.name").factory
    check_options(factory, section.numbers, key="graph", given=2)
    graph: Graph = factory(agents, seed, **section.numbers)
    return graph
