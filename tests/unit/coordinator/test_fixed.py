import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet.errors import BadSpec
from slaternet.model import Array
from slaternet.spec import GraphSection
from slaternet_coordinator.graphs import Graph, Matrix
from slaternet_coordinator.graphs.assumption4 import window
from slaternet_coordinator.graphs.fixed import Exponential, Hypercube, Nobody, Torus
from slaternet_coordinator.registry import build


def edges_of(matrix: Matrix) -> set[tuple[int, int]]:
    return {(int(i), int(j)) for i, j in zip(matrix.rows(), matrix.columns, strict=True) if i < j}


def edges_in(graph: nx.Graph) -> set[tuple[int, int]]:
    return {(min(edge), max(edge)) for edge in graph.edges if edge[0] != edge[1]}


def product(graph: Graph, first: int, rounds: int) -> Array:
    """W_last ... W_first."""
    result = np.eye(graph.matrix(1).agents)
    for t in range(first, first + rounds):
        result = graph.matrix(t).dense() @ result
    return result


@given(st.integers(1, 70))
@settings(deadline=None)
def test_the_static_exponential_graph_is_the_circulant_of_powers_of_two(n: int) -> None:
    graph = Exponential(n, 1)
    oracle = nx.circulant_graph(n, [2**k for k in range(n.bit_length()) if 2**k < n])

    assert edges_of(graph.matrix(1)) == edges_of(graph.matrix(7)) == edges_in(oracle)
    assert not graph.directed


def test_the_exponential_graph_weighs_all_neighbours_and_itself_alike() -> None:
    dense = Exponential(6, 1).matrix(1).dense()  # hops 1, 2, 4 = -2 and 5 = -1

    assert dense[0] == pytest.approx([0.2, 0.2, 0.2, 0.0, 0.2, 0.2])
    assert Exponential(6, 1, weights="uniform").matrix(1).dense()[0] == pytest.approx(np.array([2, 1, 1, 0, 1, 1]) / 6)


@given(st.integers(2, 40), st.integers(1, 1000))
@settings(deadline=None)
def test_with_one_peer_everyone_hears_one_agent_a_power_of_two_before_it(n: int, t: int) -> None:
    hop = 2 ** ((t - 1) % math.ceil(math.log2(n)))
    expected = (np.eye(n) + np.roll(np.eye(n), hop, axis=0)) / 2

    assert Exponential(n, 1, one_peer=True).matrix(t).dense().tolist() == expected.tolist()


@given(st.integers(0, 6), st.integers(1, 50))
@settings(deadline=None)
def test_one_peer_rounds_average_exactly_where_n_is_a_power_of_two(digits: int, first: int) -> None:
    n = 2**digits
    graph = Exponential(n, 1, one_peer=True)

    assert product(graph, first, digits).tolist() == np.full((n, n), 1 / n).tolist()


@pytest.mark.parametrize("n", [2, 3, 5, 8, 12, 16, 33, 100])
def test_one_peer_rounds_connect_within_log_n_rounds(n: int) -> None:
    found = window(Exponential(n, 1, one_peer=True), 40)

    assert found is not None
    assert found <= math.ceil(math.log2(n))
    assert Exponential(n, 1, one_peer=True).directed == (n > 2)


@pytest.mark.parametrize("digits", [0, 1, 2, 5])
def test_the_hypercube_joins_numbers_that_differ_in_one_digit(digits: int) -> None:
    n = 2**digits
    matrix = Hypercube(n, 1).matrix(3)

    assert edges_of(matrix) == {(i, j) for i in range(n) for j in range(i + 1, n) if (i ^ j).bit_count() == 1}
    assert matrix.weights == pytest.approx(np.full(len(matrix.weights), 1 / (digits + 1)))


@pytest.mark.parametrize(
    ("n", "numbers", "sides"),
    [
        (12, {}, (3, 4)),
        (36, {}, (6, 6)),
        (8, {}, (2, 4)),
        (12, {"rows": 2}, (2, 6)),
        (12, {"columns": 2}, (6, 2)),
        (12, {"rows": 4, "columns": 3}, (4, 3)),
        (7, {"rows": 1}, (1, 7)),
        (4, {}, (2, 2)),
    ],
)
def test_the_torus_is_a_grid_whose_ends_meet(n: int, numbers: dict[str, int], sides: tuple[int, int]) -> None:
    grid = nx.grid_2d_graph(*sides, periodic=True)
    oracle = nx.relabel_nodes(grid, {(i, j): i * sides[1] + j for i, j in grid})

    assert edges_of(Torus(n, 1, **numbers).matrix(2)) == edges_in(oracle)


def test_nobody_hears_anybody() -> None:
    matrix = Nobody(5, 1).matrix(4)

    assert matrix.dense().tolist() == np.eye(5).tolist()
    assert len(matrix.columns) == 5
    assert window(Nobody(1, 1), 3) == 1
    assert window(Nobody(2, 1), 3) is None


@pytest.mark.parametrize(
    ("agents", "section", "sentence"),
    [
        (
            100,
            {"name": "hypercube"},
            "run.agents = 100 makes no hypercube, which needs a power of two; choose 64 or 128",
        ),
        (
            97,
            {"name": "torus"},
            "run.agents = 97 is prime and makes no torus; choose another number, or graph.rows = 1 for what is then a "
            "ring",
        ),
        (
            12,
            {"name": "torus", "rows": 5},
            "graph.rows = 5 and graph.columns = 2 hold 10 agents, not 12; choose two numbers whose product is "
            "run.agents",
        ),
        (12, {"name": "torus", "columns": 0}, "graph.columns must be above 0, not 0"),
        (12, {"name": "torus", "rows": 2.0}, "graph.rows must be a whole number, not 2.0"),
        (12, {"name": "exponential", "one_peer": 1}, "graph.one_peer must be true or false, not 1"),
        (
            12,
            {"name": "exponential", "weights": "unifrom"},
            'graph.weights must be "metropolis" or "uniform", not \'unifrom\'',
        ),
        (12, {"name": "none", "rho": 1}, "graph.rho is not an option of Nobody; there is none to choose from"),
    ],
)
def test_a_graph_that_cannot_be_built_says_what_to_change(
    agents: int, section: dict[str, object], sentence: str
) -> None:
    with pytest.raises(BadSpec) as error:
        build(GraphSection.model_validate(section), agents, seed=1)

    assert str(error.value) == sentence
