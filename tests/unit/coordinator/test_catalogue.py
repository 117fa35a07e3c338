"""What every graph that a spec can name promises, whatever its kind."""

from importlib.metadata import entry_points

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slaternet.errors import BadSpec
from slaternet.spec import GraphSection
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.graphs.assumption4 import check, window
from slaternet_coordinator.graphs.base import stack
from slaternet_coordinator.registry import digest

KINDS = {entry.name: entry.load() for entry in entry_points(group="slaternet.graphs")}
WEIGHTS = st.sampled_from(["metropolis", "uniform"])
NUMBERS: dict[str, st.SearchStrategy[dict[str, object]]] = {
    "paper": st.fixed_dictionaries({"rho": st.floats(0, 1)}),
    "ring": st.fixed_dictionaries({"weights": WEIGHTS}),
    "complete": st.fixed_dictionaries({"weights": WEIGHTS}),
    "erdos-renyi": st.fixed_dictionaries({"rho": st.floats(0, 1), "weights": WEIGHTS}),
    "exponential": st.fixed_dictionaries({"one_peer": st.booleans(), "weights": WEIGHTS}),
    "hypercube": st.fixed_dictionaries({"weights": WEIGHTS}),
    "torus": st.fixed_dictionaries({"weights": WEIGHTS}),
    "geometric": st.fixed_dictionaries({"radius": st.floats(1e-3, 1.5), "fresh": st.booleans(), "weights": WEIGHTS}),
    "matching": st.just({}),
    "directed-circulant": st.fixed_dictionaries(
        {"hops": st.lists(st.integers(-50, 50), min_size=1, max_size=4), "weights": WEIGHTS}
    ),
    "directed-permutations": st.fixed_dictionaries({"count": st.integers(1, 4)}),
    "none": st.just({}),
}


@st.composite
def graphs(draw: st.DrawFn, largest: int = 40) -> Graph:
    """Draw a graph of any kind; sizes that it refuses are not what is tested here."""
    name = draw(st.sampled_from(sorted(NUMBERS)))
    numbers, agents = draw(NUMBERS[name]), draw(st.integers(1, largest))
    try:
        graph: Graph = KINDS[name](agents, draw(st.integers(0, 99)), **numbers)
    except BadSpec:
        assume(False)
    return graph


def strongly_connected(graph: Graph, first: int, last: int) -> bool:
    union = sum(graph.matrix(t).dense() for t in range(first, last + 1))
    return bool(nx.is_strongly_connected(nx.from_numpy_array(union, create_using=nx.DiGraph)))


def test_every_kind_is_looked_at_here() -> None:
    assert KINDS.keys() == {*NUMBERS, "file"}


@given(graphs(), st.integers(1, 10**9))
@settings(max_examples=300, deadline=None)
def test_every_round_is_doubly_stochastic_and_symmetric_unless_directed(graph: Graph, first: int) -> None:
    matrix = graph.matrices(first, 3)
    agents = matrix.agents

    assert matrix.rounds == 3
    check(matrix, first)
    for each in matrix.split():
        dense = each.dense()
        assert (np.diff(each.columns)[np.diff(each.rows()) == 0] > 0).all()
        assert dense.sum(axis=0) == pytest.approx(np.ones(agents), abs=1e-12)
        assert dense.sum(axis=1) == pytest.approx(np.ones(agents), abs=1e-12)
        assert graph.directed or dense.tolist() == dense.T.tolist()


@given(graphs(), st.integers(1, 10**6))
@settings(max_examples=200, deadline=None)
def test_a_round_has_the_same_bits_alone_and_among_others(graph: Graph, first: int) -> None:
    apart = stack([graph.matrix(t) for t in reversed(range(first, first + 5))][::-1])
    together = graph.matrices(first, 5)

    assert together.starts.tolist() == apart.starts.tolist()
    assert together.columns.tolist() == apart.columns.tolist()
    assert together.weights.tobytes() == apart.weights.tobytes()


@given(graphs(largest=12))
@settings(max_examples=150, deadline=None)
def test_the_window_connects_strongly_wherever_it_lies_and_no_smaller_one_does(graph: Graph) -> None:
    rounds = 8
    lengths = (
        length
        for length in range(1, rounds + 1)
        if all(strongly_connected(graph, t, t + length - 1) for t in range(1, rounds - length + 2))
    )

    assert window(graph, rounds) == next(lengths, None)


def test_the_code_of_a_graph_is_hashed_like_other_code() -> None:
    paper, cube, torus = (digest(GraphSection(name=name)) for name in ("paper", "hypercube", "torus"))

    assert len(paper) == 64
    assert paper != cube == torus  # one module
