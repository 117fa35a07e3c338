from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet.numerics.randomness import stream
from slaternet.spec import GraphSection
from slaternet_coordinator.graphs import Matrix
from slaternet_coordinator.graphs.assumption4 import window
from slaternet_coordinator.graphs.sampled import Geometric, Matching
from slaternet_coordinator.registry import build


def edges_of(matrix: Matrix) -> set[tuple[int, int]]:
    return {(int(i), int(j)) for i, j in zip(matrix.rows(), matrix.columns, strict=True) if i < j}


@pytest.mark.parametrize(("n", "radius"), [(1, 0.5), (2, 2.0), (40, 0.25), (40, 1e-6), (150, 0.1)])
def test_geometric_edges_are_the_pairs_of_places_within_the_radius(n: int, radius: float) -> None:
    graph = Geometric(n, 7, radius=radius, fresh=True)
    for t in (1, 5):
        places = stream(7, "places", block=t).random((n, 2))
        oracle = nx.random_geometric_graph(n, radius, pos={i: place.tolist() for i, place in enumerate(places)})

        assert edges_of(graph.matrix(t)) == {(min(edge), max(edge)) for edge in oracle.edges}


def test_agents_exactly_at_the_radius_are_joined_by_the_comparison_of_squares() -> None:
    places = stream(3, "places", block=1).random((30, 2))
    for i, j in list(combinations(range(30), 2))[:60]:
        square = float(np.sum((places[i] - places[j]) ** 2))
        radius = float(np.sqrt(square))
        near = radius * radius >= square

        assert ((i, j) in edges_of(Geometric(30, 3, radius=radius).matrix(1))) == near


def test_places_stay_unless_they_are_drawn_afresh() -> None:
    still, moving = Geometric(50, 1, radius=0.2), Geometric(50, 1, radius=0.2, fresh=True)

    assert edges_of(still.matrix(1)) == edges_of(still.matrix(9)) == edges_of(moving.matrix(1))
    assert edges_of(moving.matrix(9)) != edges_of(moving.matrix(1))
    assert edges_of(Geometric(50, 2, radius=0.2).matrix(1)) != edges_of(still.matrix(1))


@pytest.mark.parametrize("n", [1, 2, 3, 8, 31])
def test_matched_agents_average_and_everyone_is_matched_that_can_be(n: int) -> None:
    matrix = Matching(n, 1).matrix(6)
    pairs = edges_of(matrix)
    expected = np.eye(n)
    for i, j in pairs:
        away = np.eye(n)[i] - np.eye(n)[j]
        expected -= np.outer(away, away) / 2

    assert matrix.dense().tolist() == expected.tolist()
    assert len(pairs) == n // 2
    assert len({agent for pair in pairs for agent in pair}) == n - n % 2


def test_every_pair_is_matched_equally_often() -> None:
    n, rounds = 7, 4200
    matrix = Matching(n, 5).matrices(1, rounds)
    upper = (matrix.dense().reshape(rounds, n, n) > 0.0).sum(axis=0)[np.triu_indices(n, 1)]
    mean = rounds * (n // 2) / len(upper)

    assert upper.sum() == rounds * (n // 2)
    assert np.abs(upper - mean).max() < 4 * np.sqrt(mean)


def test_matchings_of_a_few_rounds_connect_everyone() -> None:
    found = window(Matching(16, 1), 200)

    assert found is not None
    assert 2 <= found <= 20


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ({"name": "geometric"}, "graph.radius is missing; Geometric needs it"),
        ({"name": "geometric", "radius": 0}, "graph.radius must be above 0, not 0"),
        ({"name": "geometric", "radius": "wide"}, "graph.radius must be a finite number, not 'wide'"),
        ({"name": "geometric", "radius": 0.1, "fresh": 1}, "graph.fresh must be true or false, not 1"),
        ({"name": "matching", "fresh": True}, "graph.fresh is not an option of Matching; there is none to choose from"),
    ],
)
def test_a_sampled_graph_that_cannot_be_built_says_what_to_change(section: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadSpec) as error:
        build(GraphSection.model_validate(section), 10, seed=1)

    assert str(error.value) == sentence
