"""Builds the graph that `[graph]` of a spec describes, from its code and, where it has one, its file."""

import functools
import hashlib
from pathlib import Path
from typing import Any

from slaternet.errors import PluginFailed
from slaternet.fields import read
from slaternet.spec import GraphSection
from slaternet.spec.author_frames import broken
from slaternet.spec.plugins import Loaded, check_options, load, plugin_edge
from slaternet.storage.files import FILE_LIMITS, read_bytes
from slaternet_coordinator import graphs
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.graphs.file import FileGraph
from slaternet_coordinator.graphs.plugin import Foreign

GROUP = "slaternet.graphs"


def build(section: GraphSection, agents: int, seed: int) -> Graph:
    """Return the graph that `[graph]` of a spec describes; BadSpec names the key at fault."""
    loaded, numbers = _loaded(section)
    factory = loaded.factory
    is_file = issubclass(factory, FileGraph)
    source = _content(section) if is_file else seed

    def make(agents: int) -> Graph:
        if factory.__module__.startswith(graphs.__name__):
            built: Graph = factory(agents, source, **numbers)
            return built
        calling = functools.partial(plugin_edge, "graph", section.name)

        def breach(graph: object, method: str, round: int, what: str, remedy: str) -> PluginFailed:
            return PluginFailed.by(f"graph {section.name}", broken(graph, method, round, None, what, remedy))

        return Foreign(section.name, agents, calling, breach, lambda: factory(agents, source, **numbers))

    graph = make(agents)
    if not is_file:
        graph.smaller = make
    return graph


def digest(section: GraphSection) -> str:
    """Return the SHA-256 of what defines the graph besides the spec: its file, or else its code."""
    loaded, _ = _loaded(section)
    return hashlib.sha256(_content(section)).hexdigest() if issubclass(loaded.factory, FileGraph) else loaded.sha256


def _loaded(section: GraphSection) -> tuple[Loaded, dict[str, Any]]:
    """Return the class, and the numbers that it takes."""
    loaded = load(GROUP, section.name, key="graph.name")
    return loaded, check_options(loaded.factory, section.numbers, key="graph", given=2)


def _content(section: GraphSection) -> bytes:
    path = read("graph.path", str, section.numbers["path"])
    return read_bytes(Path(path), most=FILE_LIMITS.graph_bytes, who=f"graph.path = {path}")
