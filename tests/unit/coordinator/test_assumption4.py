from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.errors import BadSpec
from slaternet_coordinator.graphs.assumption4 import check, connects, window
from slaternet_coordinator.graphs.base import Matrix
from slaternet_coordinator.graphs.erdos_renyi import ErdosRenyi, Paper
from slaternet_coordinator.graphs.fixed import Ring
from slaternet_coordinator.graphs.weights import uniform

DIRECTED = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])


def matrix_of(dense: np.ndarray) -> Matrix:
    rows, columns = np.nonzero(dense)
    return Matrix(len(dense), np.searchsorted(rows, np.arange(len(dense) + 1)), columns, dense[rows, columns])


@dataclass(frozen=True)
class Listed:
    """A graph given round by round as edges."""

    agents: int
    edges: list[list[tuple[int, int]]]
    directed: bool = False

    def matrix(self, t: int) -> Matrix:
        pairs = sorted({(min(edge), max(edge)) for edge in self.edges[t - 1]})
        return uniform(self.agents, np.array(pairs, dtype=np.intp).reshape(-1, 2))


def connected(graph: Listed, first: int, last: int) -> bool:
    union = nx.empty_graph(graph.agents)
    union.add_edges_from(edge for t in range(first, last + 1) for edge in graph.edges[t - 1])
    return bool(nx.is_connected(union))


def window_by_definition(graph: Listed, rounds: int) -> int | None:
    for length in range(1, rounds + 1):
        if all(connected(graph, first, first + length - 1) for first in range(1, rounds - length + 2)):
            return length
    return None


PAIRS = st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] != pair[1])


@given(st.lists(st.lists(PAIRS, max_size=4), min_size=1, max_size=12))
def test_the_window_is_the_smallest_that_connects_wherever_it_lies(edges: list[list[tuple[int, int]]]) -> None:
    graph = Listed(6, edges)

    assert window(graph, len(edges)) == window_by_definition(graph, len(edges))
    assert connects(graph, len(edges)) == connected(graph, 1, len(edges))


def test_the_paper_s_path_alone_connects_in_windows_of_four_rounds() -> None:
    assert window(Paper(100, 1, rho=0.0), 40) == 4


def test_with_random_edges_windows_of_four_rounds_are_always_enough() -> None:
    found = window(Paper(100, 1), 200)

    assert found is not None
    assert found <= 4


def test_a_constant_connected_graph_needs_one_round() -> None:
    assert window(Ring(30, 1), 10) == 1
    assert window(Ring(1, 1), 10) == 1


def test_a_graph_that_never_connects_has_no_window() -> None:
    apart = Listed(4, [[(0, 1)], [(2, 3)]])

    assert window(apart, 2) is None
    assert not connects(apart, 2)
    assert not connects(ErdosRenyi(100, 1, rho=0), 50)


def test_the_union_is_searched_no_further_than_needed() -> None:
    path = Listed(3, [[(0, 1)], [(1, 2)]])

    assert connects(path, 10**9)  # its third round does not exist


def test_a_doubly_stochastic_matrix_passes_also_when_directed() -> None:
    check(matrix_of(DIRECTED), 1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({(0, 1): 0.5 + 1e-11}, "row 0 sums to"),
        ({(0, 0): 0.6, (1, 1): 0.4, (0, 1): 0.4, (1, 2): 0.6}, "column 1 sums to 0.8 in round 1, not 1"),
        ({(0, 0): 0.0, (0, 1): 1.0}, "no weight on itself"),
        ({(0, 0): 1.5, (0, 1): -0.5}, "not positive"),
        ({(0, 0): np.nan}, "not positive"),
    ],
)
def test_what_is_not_doubly_stochastic_is_refused(change: dict[tuple[int, int], float], sentence: str) -> None:
    dense = DIRECTED.copy()
    for place, weight in change.items():
        dense[place] = weight

    with pytest.raises(BadSpec, match=sentence):
        check(matrix_of(dense), 1)
