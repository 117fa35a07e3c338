import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet.errors import BadSpec
from slaternet.model import Agents, Array
from slaternet.spec import GraphSection
from slaternet_agent.engine.round_plan import round_plans
from slaternet_agent.engine.rows import Mixer, RowTable
from slaternet_coordinator.engine.topology import cut
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.graphs.directed import DirectedCirculant, DirectedPermutations
from slaternet_coordinator.graphs.fixed import Exponential
from slaternet_coordinator.registry import build


def test_a_directed_circulant_hears_from_its_hops() -> None:
    graph = DirectedCirculant(5, 1, hops=[1, -2])

    assert graph.directed
    assert graph.matrix(3).dense()[0] == pytest.approx([1 / 3, 0, 1 / 3, 0, 1 / 3])  # from 0 - 1 = 4 and 0 + 2


@given(st.integers(2, 30), st.sets(st.integers(1, 29), min_size=1, max_size=5))
@settings(deadline=None)
def test_a_directed_circulant_has_the_arrows_of_its_permutations(n: int, numbers: set[int]) -> None:
    hops = sorted({hop % n for hop in numbers} - {0}) or [1]
    arrows = nx.from_numpy_array(DirectedCirculant(n, 1, hops=hops).matrix(1).dense().T, create_using=nx.DiGraph)
    arrows.remove_edges_from(list(nx.selfloop_edges(arrows)))

    assert set(arrows.edges) == {(j, (j + hop) % n) for j in range(n) for hop in hops}  # j sends to j + hop


def test_a_circulant_takes_the_weights_it_is_given() -> None:
    given = DirectedCirculant(4, 1, hops=[1, 2], weights=[0.25, 0.5]).matrix(1).dense()
    uniform = DirectedCirculant(4, 1, hops=[1], weights="uniform").matrix(1).dense()

    assert given[0].tolist() == [0.25, 0.0, 0.5, 0.25]
    assert uniform[0].tolist() == [0.75, 0.0, 0.0, 0.25]


@given(st.integers(1, 25), st.integers(1, 4), st.integers(1, 99))
@settings(deadline=None)
def test_a_round_of_permutations_is_their_mean_with_the_identity(n: int, count: int, t: int) -> None:
    count = min(count, n)
    dense = DirectedPermutations(n, 4, count=count).matrix(t).dense() * (count + 1) - np.eye(n)

    assert dense == pytest.approx(np.round(dense), abs=1e-12)
    assert np.round(dense).min() >= 0  # a sum of permutations: count ones in each row and column, some together
    assert np.round(dense).sum(axis=0).tolist() == np.round(dense).sum(axis=1).tolist() == [count] * n


def test_every_agent_is_heard_equally_often_by_every_other() -> None:
    n, rounds = 6, 3000
    heard = DirectedPermutations(n, 2, count=1).matrices(1, rounds).dense().reshape(rounds, n, n) > 0.0
    counts = heard.sum(axis=0)[~np.eye(n, dtype=bool)]

    assert np.abs(counts - rounds / n).max() < 4 * np.sqrt(rounds / n)


GRAPHS = st.sampled_from(
    [
        lambda n, seed: DirectedPermutations(n, seed, count=min(n, 2)),
        lambda n, seed: DirectedCirculant(n, seed, hops=[1]) if n > 1 else DirectedPermutations(n, seed),
        lambda n, seed: Exponential(n, seed, one_peer=True),
    ]
)


@st.composite
def seatings(draw: st.DrawFn) -> list[Agents]:
    n = draw(st.integers(1, 12))
    hosts = draw(st.integers(1, min(n, 5)))
    owner = np.array([*range(hosts), *(draw(st.integers(0, hosts - 1)) for _ in range(n - hosts))])
    order = np.array(draw(st.permutations(range(n))), dtype=np.intp)
    return [np.sort(order[owner == host]) for host in range(hosts)]


def mixed(graph: Graph, seats: list[Agents], z: Array, first: int, rounds: int) -> Array:
    """Play rounds of x = W z over hosts that send each other exactly what their topologies say; (rounds, n, p)."""
    n, hosts = len(z), range(len(seats))
    topologies = cut(first, graph.matrices(first, rounds), seats, low_water=0)
    turns = zip(*(round_plans(topologies[h], seats[h], n, len(hosts) - 1) for h in hosts), strict=True)
    x = np.full((rounds, *z.shape), np.nan)
    for offset, plan in enumerate(turns):
        boards = [RowTable(n, z.shape[1]) for _ in hosts]
        for host in hosts:
            boards[host].put(seats[host], z[seats[host]])
            peers = [other for other in hosts if other != host]
            for peer, agents in plan[host].debts:
                boards[peers[peer]].put(agents, z[agents])
        for host in hosts:
            assert boards[host].known[plan[host].needed].all()
            assert np.count_nonzero(boards[host].known) == len(seats[host]) + len(plan[host].needed)  # and no more
            x[offset, seats[host]] = Mixer(len(seats[host]), n).gossip(plan[host], boards[host]).mixed
    return x


@given(GRAPHS, seatings(), st.integers(0, 99), st.integers(1, 99))
@settings(max_examples=80, deadline=None)
def test_hosts_of_a_directed_graph_get_the_rows_they_mix_and_x_is_w_z(
    make: type[Graph], seats: list[Agents], seed: int, first: int
) -> None:
    n = sum(map(len, seats))
    graph = make(n, seed)  # type: ignore[call-arg]
    z = np.random.default_rng(seed).standard_normal((n, 3))

    apart, alone = (mixed(graph, each, z, first, 4) for each in (seats, [np.arange(n)]))

    assert apart.tobytes() == alone.tobytes()
    for offset in range(4):
        assert apart[offset] == pytest.approx(graph.matrix(first + offset).dense() @ z, abs=1e-12)
        assert apart[offset].mean(axis=0) == pytest.approx(z.mean(axis=0), abs=1e-12)  # column sums are 1


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ({"name": "directed-circulant"}, "graph.hops is missing; DirectedCirculant needs it"),
        ({"hops": []}, "graph.hops must be a list of one or more whole numbers, not []"),
        ({"hops": 3}, "graph.hops must be a list of one or more whole numbers, not 3"),
        ({"hops": [1, "2"]}, "graph.hops[1] must be a whole number, not '2'"),
        ({"hops": [1, 12]}, "graph.hops holds 12, which leads all 6 agents back to themselves; remove it"),
        ({"hops": [1, -5]}, "graph.hops = [1, -5] leads twice to the same agent of 6; name each hop once modulo n"),
        (
            {"hops": [1, 2], "weights": [0.5]},
            "graph.weights holds 1 numbers for 2 hops; give one for each of graph.hops",
        ),
        (
            {"hops": [1, 2], "weights": [0.5, 0.5]},
            "graph.weights sum to 1; keep the sum below 1, the rest is an agent's own weight",
        ),
        ({"hops": [1], "weights": [-0.5]}, "graph.weights[0] must be above 0, not -0.5"),
        ({"hops": [1], "weights": "equal"}, 'graph.weights must be "metropolis" or "uniform" or a list, not \'equal\''),
        ({"name": "directed-permutations", "count": 0}, "graph.count must be above 0, not 0"),
        ({"name": "directed-permutations", "count": 7}, "graph.count must be at most 6, the number of agents, not 7"),
    ],
)
def test_a_directed_graph_that_cannot_be_built_says_what_to_change(section: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadSpec) as error:
        build(GraphSection.model_validate({"name": "directed-circulant", **section}), 6, seed=1)

    assert str(error.value) == sentence
