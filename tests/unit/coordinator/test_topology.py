import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet.model import Agents, Array
from slaternet_coordinator.engine.topology import cut
from slaternet_coordinator.graphs.base import Matrix, stack
from slaternet_coordinator.graphs.weights import metropolis


def random_matrix(rng: np.random.Generator, n: int) -> Matrix:
    i, j = np.triu_indices(n, 1)
    chosen = rng.random(len(i)) < rng.choice([0.0, 0.2, 0.7])
    return metropolis(n, np.stack((i[chosen], j[chosen]), axis=1))


@st.composite
def seatings(draw: st.DrawFn) -> list[Agents]:
    n = draw(st.integers(1, 12))
    hosts = draw(st.integers(1, min(n, 5)))
    owner = np.array([*range(hosts), *(draw(st.integers(0, hosts - 1)) for _ in range(n - hosts))])
    order = np.array(draw(st.permutations(range(n))), dtype=np.intp)
    return [np.sort(order[owner == host]) for host in range(hosts)]


def owed(dense: Array, seats: list[Agents], by: int) -> list[tuple[int, int]]:
    """Pairs (index of a peer, own agent) such that an agent of the peer mixes the own agent's row."""
    peers = [others for host, others in enumerate(seats) if host != by]
    return [
        (index, int(own))
        for index, others in enumerate(peers)
        for own in seats[by]
        if any(dense[other, own] != 0.0 for other in others)
    ]


@given(seats=seatings(), seed=st.integers(0, 9999), rounds=st.integers(1, 4), first=st.integers(1, 99))
@settings(max_examples=80, deadline=None)
def test_every_host_gets_its_rows_of_w_and_owes_exactly_what_crosses_hosts(
    seats: list[Agents], seed: int, rounds: int, first: int
) -> None:
    rng = np.random.default_rng(seed)
    n = sum(map(len, seats))
    matrices = [random_matrix(rng, n) for _ in range(rounds)]

    topologies = cut(first, stack(matrices), seats, low_water=first - 1)

    assert len(topologies) == len(seats)
    for host, (own, topology) in enumerate(zip(seats, topologies, strict=True)):
        assert (topology.round, topology.rounds, topology.low_water) == (first, rounds, first - 1)
        assert len(topology.starts) == rounds * len(own) + 1
        for offset, matrix in enumerate(matrices):
            dense = matrix.dense()
            for row, agent in enumerate(own):
                entries = slice(*topology.starts[offset * len(own) + row :][:2])
                expected = np.flatnonzero(dense[agent])
                assert topology.columns[entries].tolist() == expected.tolist()
                assert topology.weights[entries].tobytes() == dense[agent, expected].tobytes()
            debts = topology.debts[topology.debts[:, 0] == offset]
            assert [tuple(pair) for pair in debts[:, 1:].tolist()] == owed(dense, seats, host)
        assert topology.debts.tolist() == sorted(topology.debts.tolist())


def test_a_host_that_seats_everyone_owes_nothing() -> None:
    matrix = random_matrix(np.random.default_rng(0), 9)

    (topology,) = cut(1, stack([matrix, matrix]), [np.arange(9)], low_water=0)

    assert topology.debts.shape == (0, 3)
    assert topology.weights.tobytes() == matrix.weights.tobytes() * 2
