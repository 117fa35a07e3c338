import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.errors import BadSpec
from slaternet.spec import GraphSection
from slaternet_coordinator.graphs import Matrix
from slaternet_coordinator.graphs.assumption4 import check
from slaternet_coordinator.graphs.base import Graph, stack
from slaternet_coordinator.graphs.erdos_renyi import ErdosRenyi, Paper, RandomEdges
from slaternet_coordinator.graphs.fixed import Complete, Ring
from slaternet_coordinator.registry import build

MODULES = dict.fromkeys(("Paper", "ErdosRenyi"), "slaternet_coordinator.graphs.erdos_renyi")
MODULES |= dict.fromkeys(("Ring", "Complete"), "slaternet_coordinator.graphs.fixed")


def edges_of(matrix: Matrix) -> set[tuple[int, int]]:
    return {(int(i), int(j)) for i, j in zip(matrix.rows(), matrix.columns, strict=True) if i < j}


@pytest.mark.parametrize(
    ("t", "first", "last"), [(1, 1, 24), (2, 25, 49), (3, 50, 74), (4, 75, 99), (5, 1, 24), (1000, 75, 99)]
)
def test_the_paper_adds_these_path_edges_in_these_rounds(t: int, first: int, last: int) -> None:
    graph = Paper(100, seed=1, rho=0.0)

    assert edges_of(graph.matrix(t)) == {(i - 1, i) for i in range(first, last + 1)}  # the paper counts from 1


@given(st.integers(1, 60), st.integers(1, 99))
def test_four_rounds_of_the_paper_s_graph_contain_the_whole_path_at_any_size(n: int, t: int) -> None:
    graph = Paper(n, seed=1, rho=0.0)
    union = set().union(*(edges_of(graph.matrix(t + each)) for each in range(4)))

    assert union == {(i, i + 1) for i in range(n - 1)}


@given(st.integers(2, 60), st.floats(0, 1), st.integers(1, 10**6), st.integers(0, 99))
def test_the_paper_s_graph_is_random_edges_and_a_path_segment_with_weights_one_nth(
    n: int, rho: float, t: int, seed: int
) -> None:
    matrix = Paper(n, seed, rho=rho).matrix(t)
    drawn = RandomEdges(n, seed, rho)
    random = {(int(i), int(j)) for i, j in drawn.ends(drawn.numbers(t, 1), 1)}
    dense = matrix.dense()

    assert edges_of(matrix) == random | edges_of(Paper(n, seed, rho=0.0).matrix(t))
    assert set(np.unique(dense[~np.eye(n, dtype=bool)])) <= {0.0, 1.0 / n}
    check(matrix, 1)


@given(st.integers(2, 50))
def test_pairs_are_numbered_row_by_row(n: int) -> None:
    drawn = RandomEdges(n, 0, 1.0)

    assert drawn.ends(drawn.numbers(1, 1), 1).tolist() == [[i, j] for i in range(n) for j in range(i + 1, n)]


@pytest.mark.parametrize(("n", "rho"), [(100, 0.1), (100, 0.97), (60, 0.5), (400, 0.01), (3000, 1e-5)])
def test_every_pair_is_an_edge_with_probability_rho(n: int, rho: float) -> None:
    drawn, rounds = RandomEdges(n, 7, rho), 200  # with 1e-5, half of the gaps outrun the table
    counts = np.array([len(drawn.numbers(t, 1)) for t in range(1, rounds + 1)])
    pairs = n * (n - 1) / 2
    mean, deviation = pairs * rho, np.sqrt(pairs * rho * (1 - rho))

    assert counts.mean() == pytest.approx(mean, abs=4 * deviation / np.sqrt(rounds))
    assert counts.std() == pytest.approx(deviation, rel=0.25)
    last = np.concatenate([drawn.numbers(t, 1) for t in range(1, rounds + 1)])
    assert last.mean() == pytest.approx((pairs - 1) / 2, abs=4 * pairs / np.sqrt(12 * len(last)))


@pytest.mark.parametrize(
    "graph",
    [
        Paper(30, 3),
        Paper(7, 3, rho=0.9),
        ErdosRenyi(40, 3, degree=4),
        ErdosRenyi(40, 3, rho=0.5, weights="uniform"),
        ErdosRenyi(900, 3, rho=2e-5),
        Ring(9, 0),
        Complete(5, 0),
    ],
    ids=["paper", "dense", "sparse", "uniform", "nearly empty", "ring", "complete"],
)
def test_many_rounds_at_a_time_are_the_same_as_one_by_one(graph: Graph) -> None:
    together = graph.matrices(11, 40)
    apart = stack([graph.matrix(t) for t in range(11, 51)])

    assert together.rounds == 40
    assert together.starts.tolist() == apart.starts.tolist()
    assert together.columns.tolist() == apart.columns.tolist()
    assert together.weights.tobytes() == apart.weights.tobytes()


def test_rounds_whose_gaps_fall_short_of_the_end_are_drawn_on() -> None:
    short = RandomEdges(60, 5, 0.3)
    short._draws = lambda position: 5  # type: ignore[method-assign]
    numbers = short.numbers(1, 3)

    assert (np.diff(numbers) > 0).all()
    assert len(numbers) == pytest.approx(3 * 0.3 * short.pairs, rel=0.15)


def test_edges_depend_on_seed_and_round_alone() -> None:
    one, other, another = Paper(50, 1), Paper(50, 1), Paper(50, 2)
    order = [5, 1, 900, 5]
    matrices = [one.matrix(t) for t in order]

    for t, matrix in zip(reversed(order), reversed(matrices), strict=True):
        assert other.matrix(t).columns.tobytes() == matrix.columns.tobytes()
        assert another.matrix(t).columns.tobytes() != matrix.columns.tobytes()


def test_a_mean_degree_sets_the_probability() -> None:
    graph = ErdosRenyi(500, 1, degree=10)
    degrees = [len(graph.matrix(t).columns) / 500 - 1 for t in range(1, 41)]

    assert np.mean(degrees) == pytest.approx(10, abs=0.2)


@pytest.mark.parametrize("weights", ["metropolis", "uniform"])
@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_ring_and_complete_graph_have_their_edges(n: int, weights: str) -> None:
    ring, complete = Ring(n, 1, weights=weights), Complete(n, 1, weights=weights)
    cycle = nx.cycle_graph(n)
    cycle.remove_edges_from(nx.selfloop_edges(cycle.copy()))

    assert edges_of(ring.matrix(1)) == {(min(edge), max(edge)) for edge in cycle.edges}
    assert edges_of(complete.matrix(9)) == {(i, j) for i in range(n) for j in range(i + 1, n)}
    check(ring.matrix(1), 1)
    check(complete.matrix(1), 1)


def test_a_complete_graph_averages_in_one_round() -> None:
    assert Complete(8, 1).matrix(1).dense() == pytest.approx(np.full((8, 8), 1 / 8))


@pytest.mark.parametrize("name", ["Paper", "Ring", "Complete", "ErdosRenyi"])
def test_a_section_becomes_the_graph_it_names(name: str) -> None:
    numbers = {"rho": 0.5} if name == "ErdosRenyi" else {}
    graph: Graph = build(GraphSection.model_validate({"name": f"{MODULES[name]}:{name}", **numbers}), agents=6, seed=1)

    assert graph.matrix(1).agents == 6
    assert not graph.directed


@pytest.mark.parametrize(
    ("name", "numbers", "sentence"),
    [
        ("Paper", {"rho": 1.5}, "graph.rho must be at most 1, not 1.5"),
        ("Paper", {"roh": 0.5}, "graph.roh is not an option of Paper; did you mean rho?"),
        ("ErdosRenyi", {}, "graph.rho or graph.degree must be given, one of the two"),
        ("ErdosRenyi", {"rho": 0.1, "degree": 3}, "graph.rho or graph.degree must be given, one of the two"),
        ("ErdosRenyi", {"rho": "x"}, "graph.rho must be a finite number, not 'x'"),
        ("ErdosRenyi", {"degree": 6}, "graph.degree must be at most 5, the other agents, not 6"),
        ("ErdosRenyi", {"degree": "x"}, "graph.degree must be a finite number, not 'x'"),
        ("Ring", {"weights": "metropolos"}, 'graph.weights must be "metropolis" or "uniform", not \'metropolos\''),
        ("Complete", {"weights": 3}, 'graph.weights must be "metropolis" or "uniform", not 3'),
    ],
)
def test_a_wrong_graph_is_named_with_its_remedy(name: str, numbers: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadSpec) as error:
        build(GraphSection.model_validate({"name": f"{MODULES[name]}:{name}", **numbers}), agents=6, seed=1)

    assert str(error.value) == sentence
