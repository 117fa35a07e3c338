"""Time-varying graphs: generators, weights, checks, and how a spec's `[graph]` becomes one."""

import functools

from slaternet.plugins import check_options, load, plugin_edge
from slaternet.spec import GraphSection
from slaternet_coordinator.graphs.departed import check_departures
from slaternet_coordinator.graphs.file import File, sha256
from slaternet_coordinator.graphs.foreign import Foreign
from slaternet_coordinator.graphs.generators import Graph
from slaternet_coordinator.graphs.weights import Matrix

__all__ = ["Graph", "Matrix", "build", "check_departures", "digest"]

_GROUP, _KEY = "slaternet.graphs", "graph.name"


def build(section: GraphSection, agents: int, seed: int) -> Graph:
    """Return the graph that `[graph]` of a spec describes; BadSpec names the key at fault."""
    factory = load(_GROUP, section.name, key=_KEY).factory
    check_options(factory, section.numbers, key="graph", given=2)

    def make(agents: int) -> Graph:
        if factory.__module__.startswith(__name__):
            built: Graph = factory(agents, seed, **section.numbers)
            return built
        calling = functools.partial(plugin_edge, "graph", section.name)
        return Foreign(section.name, calling, lambda: factory(agents, seed, **section.numbers))

    graph = make(agents)
    if not isinstance(graph, File):
        graph.smaller = make
    return graph


def digest(section: GraphSection) -> str:
    """Return the SHA-256 of what decides the graph besides the spec: the file it is read from, or else its code."""
    loaded = load(_GROUP, section.name, key=_KEY)
    return sha256(section.numbers.get("path")) if issubclass(loaded.factory, File) else loaded.sha256
