"""The graph of those who stay, cut for their hosts."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.coordinator_games import EVE, Play

from slaternet import codec
from slaternet.attendance import Attendance
from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array, Departure, Head, Topology
from slaternet.spec import GraphSection, Spec
from slaternet_coordinator.engine.topology import Cutter
from slaternet_coordinator.graphs import Graph, check_departures
from slaternet_coordinator.graphs.survivors import Departing
from slaternet_coordinator.registry import build

UNDIRECTED: dict[str, dict[str, object]] = {
    "paper": {"rho": 0.3},
    "ring": {},
    "complete": {"weights": "uniform"},
    "erdos-renyi": {"degree": 4},
    "hypercube": {},
    "torus": {},
    "geometric": {"radius": 0.5, "fresh": True},
    "matching": {},
    "none": {},
}
N = 8
GONE = (Departure(4, np.array([2, 5])), Departure(6, np.array([0])))
ATTENDANCE = Attendance(N, GONE)
SEATS = [np.array([0, 1, 3]), np.array([2, 5]), np.array([4, 6, 7])]


def section(name: str) -> GraphSection:
    return GraphSection.model_validate({"name": name, **UNDIRECTED[name]})


@pytest.mark.parametrize("name", UNDIRECTED)
@given(seed=st.integers(0, 99), ends=st.lists(st.sampled_from([3, 5, 6, 99]), min_size=N - 1, max_size=N - 1))
@settings(max_examples=5, deadline=None)
def test_who_has_left_hears_nobody_and_those_who_stay_average(name: str, seed: int, ends: list[int]) -> None:
    departures = [Departure(end, np.array([i + 1])) for i, end in enumerate(ends)]
    attendance, graph = Attendance(N, departures), build(section(name), N, seed)
    together = Departing(graph, attendance).matrices(1, 8).dense().reshape(8, N, N)

    for t, w in enumerate(together, 1):
        players = attendance.players(t)
        gone = np.setdiff1d(np.arange(N), players)
        assert np.abs(w.sum(axis=0) - 1.0).max() < 1e-12
        assert np.abs(w.sum(axis=1) - 1.0).max() < 1e-12
        assert (w[gone][:, gone] == np.eye(len(gone))).all()
        assert not w[gone][:, players].any()
        assert (np.diag(w) > 0.0).all()
        assert w.tobytes() == Departing(graph, attendance).matrix(t).dense().tobytes()
        if not len(gone):
            assert w.tobytes() == graph.matrix(t).dense().tobytes()


def test_those_who_stay_have_the_graph_of_a_game_of_their_number() -> None:
    smaller = build(section("paper"), N - 3, 7)
    w = Departing(build(section("paper"), N, 7), ATTENDANCE).matrix(9).dense()
    stay = ATTENDANCE.players(9)

    assert stay.tolist() == [1, 3, 4, 6, 7]
    assert w[np.ix_(stay, stay)].tobytes() == smaller.matrix(9).dense().tobytes()


def without(w: Array, gone: Agents) -> Array:
    """Move what anyone gives to those who have left to the diagonal."""
    result = w.copy()
    for i in set(range(N)) - set(gone.tolist()):
        result[i, i] += w[i, gone].sum()
    result[:, gone] = result[gone] = 0.0
    result[gone, gone] = 1.0
    return result


def written(tmp_path: Path, rounds: int = 5) -> GraphSection:
    """Return a file of random graphs."""
    chance, matrices = np.random.default_rng(3), []
    for _ in range(rounds):
        w = np.eye(N)
        for i, j in chance.integers(0, N, (30, 2)):
            if i != j:
                step = np.eye(N)
                step[np.ix_([i, j], [i, j])] = [[0.75, 0.25], [0.25, 0.75]]
                w = step @ w @ step
        matrices.append((w + w.T) / 2)
    np.savez(tmp_path / "w.npz", W=np.array(matrices))
    return GraphSection.model_validate({"name": "file", "path": str(tmp_path / "w.npz")})


@pytest.mark.parametrize("kind", ["file", "hypercube", "erdos-renyi"])
def test_where_no_graph_of_their_number_is_known_the_weight_of_those_who_left_goes_to_the_diagonal(
    kind: str, tmp_path: Path
) -> None:
    found = written(tmp_path) if kind == "file" else section(kind)
    if kind == "erdos-renyi":
        found = GraphSection.model_validate({"name": kind, "degree": N - 1})  # of five agents none has seven others
    graph = build(found, N, 3)
    w = Departing(graph, ATTENDANCE)

    for t, gone in ((3, []), (4, [2, 5]), (5, [2, 5]), (6, [0, 2, 5]), (12, [0, 2, 5])):
        expected = without(graph.matrix(t).dense(), np.array(gone, dtype=np.intp))
        assert w.matrix(t).dense() == pytest.approx(expected, abs=1e-15)


def spec(graph: str, mode: str | None = None) -> Spec:
    return Spec.load(
        {
            "run": {"agents": N, "dimension": 2},
            "set": {"kind": "box", "lower": -1.0, "upper": 1.0},
            "algorithm": {"name": "yi2023"} | ({"mode": mode} if mode else {}),
            "graph": {"name": graph, **({"hops": [1]} if "circulant" in graph else {})},
            "adversary": {"plugin": "linear-regression"},
        },
        source="test",
    )


def test_nobody_leaves_a_directed_graph_or_one_learner_for_all() -> None:
    def check(game: Spec) -> None:
        check_departures(game, build(game.graph, N, 1))

    check(spec("ring"))
    with pytest.raises(BadSpec, match=r"graph\.name = directed-circulant is directed, and agents cannot leave"):
        check(spec("directed-circulant"))
    with pytest.raises(BadSpec, match=r"algorithm\.mode = central makes one learner of all agents"):
        check(spec("complete", "central"))


@pytest.mark.parametrize("name", ["paper", "complete", "matching"])
def test_topologies_are_cut_for_those_who_play_and_none_has_a_departure_in_its_midst(name: str) -> None:
    graph = build(section(name), N, 5)
    w = Departing(graph, ATTENDANCE)
    firsts: list[int] = []
    for topologies in Cutter(graph, LIMITS, ATTENDANCE).cut(1, 20, SEATS, 0):
        first, rounds = topologies[0].round, topologies[0].rounds
        firsts.append(first)
        for host, (seats, topology) in enumerate(zip(SEATS, topologies, strict=True)):
            playing = ATTENDANCE.of(seats, first)
            assert ATTENDANCE.of(seats, first + rounds - 1).tolist() == playing.tolist()
            assert rows_of(topology) == expected_rows(w, playing if len(playing) else seats, first, rounds)
            assert debts_of(topology, host) == expected_debts(w, host, first, rounds)
            (message,) = codec.encode_control_down(Head("run", 1, first, "coordinator"), topology)
            assert codec.ControlDownDecoder().decode(message) is not None
    assert {1, 4, 6} <= set(firsts)


def rows_of(topology: Topology) -> list[list[tuple[int, float]]]:
    entries = list(zip(topology.columns.tolist(), topology.weights.tolist(), strict=True))
    ends = topology.starts.tolist()
    return [entries[low:high] for low, high in itertools.pairwise(ends)]


def expected_rows(w: Graph, agents: Agents, first: int, rounds: int) -> list[list[tuple[int, float]]]:
    dense = [w.matrix(t).dense() for t in range(first, first + rounds)]
    return [[(j, each[i, j]) for j in np.flatnonzero(each[i]).tolist()] for each in dense for i in agents]


def debts_of(topology: Topology, host: int) -> list[tuple[int, int, int]]:
    """Return round, host and agent of what a host owes."""
    return [(topology.round + at, to + (to >= host), agent) for at, to, agent in topology.debts.tolist()]


def expected_debts(w: Graph, host: int, first: int, rounds: int) -> list[tuple[int, int, int]]:
    found = []
    for t in range(first, first + rounds):
        dense = w.matrix(t).dense()
        for other, seats in enumerate(SEATS):
            if other != host:
                found += [(t, other, int(j)) for j in SEATS[host] if dense[seats, j].any()]
    return found


def test_nobody_waits_for_a_host_whose_agents_have_all_left() -> None:
    few = replace(LIMITS, window=8, checkpoint_every=4)
    gone = (Departure(3, np.arange(4)),)
    play = Play(40, few, departures=gone).begin()
    a, b = (play.register[name] for name in ("a", "b"))
    assert (a.seats.tolist(), b.seats.tolist()) == ([0, 1, 2, 3], [4, 5, 6, 7])

    play.advance(2, "a", "b", EVE)
    at_first = play.coordinator.view.published
    for t in range(3, 21):
        play.advance(t, "b", EVE)

    assert at_first == 10
    assert play.coordinator.view.published == 28
    assert play.coordinator.view.low_water > 2  # the other has gone on, and nothing of the first is wanted again
