"""Whom a row is sent to in a game whose gossip code remembers, against plain loops over rounds, agents and hosts."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.support.coordinator_games import Play

from slaternet import codec
from slaternet.attendance import Attendance
from slaternet.errors import BadSpec, Malformed
from slaternet.limits import LIMITS
from slaternet.model import Agents, Departure, Head, Topology
from slaternet.spec import GraphSection
from slaternet_agent.engine.round_plan import round_plans
from slaternet_coordinator.engine.topology import Cutter
from slaternet_coordinator.graphs import Graph, Matrix
from slaternet_coordinator.graphs.base import union
from slaternet_coordinator.graphs.survivors import Departing
from slaternet_coordinator.graphs.weights import metropolis
from slaternet_coordinator.registry import build

N, T = 9, 24
FIXED = ["ring", "torus", "exponential", "one-peer", "circulant", "geometric", "none", "file", "edges"]
RANDOM = ["erdos-renyi", "paper", "matching", "fresh", "permutations"]
DIRECTED = {"one-peer", "circulant", "permutations"}  # which nobody may leave
DEPARTURES = (Departure(5, np.array([2])), Departure(9, np.array([0, 7])), Departure(17, np.array([3, 4, 5])))
SEATINGS: list[list[list[int]]] = [
    [[0, 1, 2], [3, 4, 5], [6, 7, 8]],
    [[8], [0, 2, 4, 6], [1, 3, 5, 7]],
    [[each] for each in range(N)],
    [list(range(N))],
]


def graph_of(kind: str, folder: Path, agents: int = N) -> Graph:
    numbers: dict[str, object] = {"name": kind}
    match kind:
        case "one-peer":
            numbers = {"name": "exponential", "one_peer": True}
        case "circulant":
            numbers = {"name": "directed-circulant", "hops": [1, 3]}
        case "permutations":
            numbers = {"name": "directed-permutations", "count": 2}
        case "erdos-renyi":
            numbers["rho"] = 0.3
        case "geometric" | "fresh":
            numbers = {"name": "geometric", "radius": 0.5, "fresh": kind == "fresh"}
        case "file":
            rng = np.random.default_rng(4)
            pairs = [rng.choice(agents, 2, replace=False) for _ in range(3)]
            matrices = [metropolis(agents, np.sort(pair)[None]).dense() for pair in pairs]
            np.savez(folder / "W.npz", W=np.stack(matrices))
            numbers = {"name": "file", "path": str(folder / "W.npz")}
        case "edges":
            (folder / "edges.txt").write_text("1 0 1\n1 4 5\n2 7 8\n4 1 8\n")
            numbers = {"name": "file", "path": str(folder / "edges.txt")}
    return build(GraphSection.model_validate(numbers), agents, 3)


def mixed(graph: Graph, departures: Sequence[Departure], far: int = 60) -> set[tuple[int, int]]:
    """Pairs (i, j) such that i mixes j's row in some round, whichever agents have left by then."""
    found = set()
    for known in range(len(departures) + 1):
        w = Departing(graph, Attendance(N, departures[:known]))
        for t in range(1, far):
            found |= set(zip(*np.nonzero(w.matrix(t).dense()), strict=True))
    return {(int(i), int(j)) for i, j in found}


def expected(audience: set[tuple[int, int]], seats: list[Agents], gone: set[int], by: int) -> list[list[int]]:
    """[round offset, index of a peer, own agent] of all that a host owes while these agents are gone."""
    peers = [others for host, others in enumerate(seats) if host != by]
    return [
        [0, index, int(j)]
        for index, others in enumerate(peers)
        for j in seats[by]
        if j not in gone and any((int(i), int(j)) in audience for i in others if i not in gone)
    ]


@pytest.mark.parametrize(
    ("kind", "leaving"),
    [(kind, leaving) for kind in (*FIXED, *RANDOM) for leaving in (0, 3) if not (leaving and kind in DIRECTED)],
)
def test_debts_go_to_all_that_may_ever_mix_a_row_and_hold_for_every_round_of_a_message(
    kind: str, leaving: int, tmp_path: Path
) -> None:
    graph, departures = graph_of(kind, tmp_path), DEPARTURES[:leaving]
    attendance = Attendance(N, departures)
    everyone = set(itertools.product(range(N), range(N)))
    audience = mixed(graph, departures) if kind in FIXED else everyone
    for seating in SEATINGS:
        seats = [np.array(each, dtype=np.intp) for each in seating]
        cutter = Cutter(graph, LIMITS, attendance, remembers=True)
        plain = Cutter(graph, LIMITS, attendance).cut(1, T, seats, 0)
        covered = 0
        for topologies, usual in zip(cutter.cut(1, T, seats, 0), plain, strict=True):
            first = covered + 1
            covered += topologies[0].rounds
            gone = {int(agent) for each in departures if each.round <= first for agent in each.agents}
            for host, (topology, other) in enumerate(zip(topologies, usual, strict=True)):
                assert topology.debts.tolist() == expected(audience, seats, gone, host)
                assert topology.debts.dtype == np.intp
                assert (topology.round, topology.rounds) == (first, other.rounds)
                assert topology.weights.tobytes() == other.weights.tobytes()
                assert set(map(tuple, other.debts[:, 1:].tolist())) <= set(map(tuple, topology.debts[:, 1:].tolist()))
                (message,) = codec.encode_control_down(Head("run", 1, first, "coordinator"), topology)
                decoded = codec.ControlDownDecoder(agents=N).decode(message)
                assert decoded is not None
                assert isinstance(decoded[1], Topology)
                np.testing.assert_array_equal(decoded[1].debts, topology.debts)
        assert covered == T


@given(departing=st.permutations(range(N)), kind=st.sampled_from(["ring", "torus", "erdos-renyi", "exponential"]))
@settings(max_examples=40, deadline=None)
def test_nobody_comes_new_into_an_audience_before_the_next_departure_is_known(departing: list[int], kind: str) -> None:
    graph = graph_of(kind, Path())
    departures = [Departure(3 + 2 * at, np.array([agent])) for at, agent in enumerate(departing[: N - 1])]
    w = Departing(graph, Attendance(N, departures))
    before: set[tuple[int, int]] | None = None
    for t in range(1, 3 + 2 * N):
        found = w.audience_in(t)
        players = Attendance(N, departures).players(t).tolist()
        if found is None:
            now = set(itertools.product(players, players))
        else:
            now = set(zip(found.rows().tolist(), found.columns.tolist(), strict=True)) - {
                (i, i) for i in range(N) if i not in players
            }
        matrix = w.matrix(t)
        mixing = {(i, j) for i, j in zip(matrix.rows().tolist(), matrix.columns.tolist(), strict=True) if i != j}
        assert mixing <= now
        assert before is None or now <= before
        before = now


def test_the_union_of_matrices_is_their_mean() -> None:
    rng = np.random.default_rng(1)
    pairs = [np.sort(rng.choice(N, 2, replace=False))[None] for _ in range(5)]
    matrices = [metropolis(N, pair) for pair in pairs]

    found = union(matrices)

    assert found.dense() == pytest.approx(np.mean([each.dense() for each in matrices], axis=0))
    assert len(found.columns) == np.count_nonzero(found.dense())
    assert all(np.diff(found.columns[low:high]).min(initial=1) > 0 for low, high in itertools.pairwise(found.starts))


class Misled(Graph):
    """Says that only the first two agents may mix each other's rows, and has others do it in round 3."""

    audience = metropolis(N, np.array([[0, 1]]))

    def matrix(self, t: int) -> Matrix:
        return metropolis(N, np.array([[4, 6] if t == 3 else [0, 1]]))


def test_a_round_beyond_the_audience_is_refused_before_anyone_waits_for_it() -> None:
    seats = [np.arange(4), np.arange(4, N)]
    cutter = Cutter(Misled(), replace(LIMITS, window=16), Attendance(N), remembers=True)

    with pytest.raises(BadSpec, match="in round 3 agent 4 mixes the row of agent 6, and the graph's audience has no"):
        list(cutter.cut(1, 8, seats, 0))


def diagonal(columns: NDArray[np.generic], starts: Sequence[int] = range(N + 1)) -> Matrix:
    """Return a matrix of one entry in every row."""
    return Matrix(N, np.array(starts), columns, np.ones(len(columns)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        [(0, 1)],
        metropolis(N - 1, np.array([[0, 1]])),
        metropolis(N, np.array([[0, 1]]), 2),
        diagonal(np.empty(0, np.intp), [0] * (N + 1)),
        diagonal(np.arange(N) + 5),
        diagonal(np.zeros(N, np.intp)),
        diagonal(np.arange(N) * 1.0),
        diagonal(np.array([1, 0, *range(1, N)]), [0, *range(2, N + 2)]),
    ],
)
def test_an_audience_that_is_no_matrix_of_all_agents_is_refused(wrong: object) -> None:
    class Wrong(Misled):
        audience = wrong  # type: ignore[assignment]

    cutter = Cutter(Wrong(), LIMITS, Attendance(N), remembers=True)

    with pytest.raises(BadSpec, match="the graph's audience must be one matrix of all 9 agents"):
        list(cutter.cut(1, 2, [np.arange(4), np.arange(4, N)], 0))


def test_a_graph_of_ones_own_may_say_who_mixes_whom(tmp_path: Path) -> None:
    (tmp_path / "pair.py").write_text(
        "import numpy as np\n"
        "from slaternet_coordinator.graphs.weights import metropolis\n\n\n"
        "class Pair:\n"
        "    def __init__(self, agents, seed):\n"
        "        self.audience = metropolis(agents, np.array([[0, 5]]))\n\n"
        "    def matrix(self, t):\n"
        "        return self.audience\n"
    )
    graph = build(GraphSection(name=f"{tmp_path}/pair.py:Pair"), N, 1)

    ((one, other), *_) = Cutter(graph, LIMITS, Attendance(N), remembers=True).cut(
        1, 4, [np.arange(4), np.arange(4, N)], 0
    )

    assert one.debts.tolist() == [[0, 0, 0]]
    assert other.debts.tolist() == [[0, 0, 5]]


def test_a_host_repeats_the_debts_of_the_first_round_in_all_rounds_of_a_message(tmp_path: Path) -> None:
    seats = [np.array([0, 2, 4, 6]), np.array([8]), np.array([1, 3, 5, 7])]
    graph = graph_of("ring", tmp_path)
    cutter = Cutter(graph, LIMITS, Attendance(N), remembers=True)
    *_, topologies = cutter.cut(1, T, seats, 0)

    plans = round_plans(topologies[0], seats[0], N, 2, remembers=True)

    assert len(plans) == topologies[0].rounds > 1
    for plan in plans:
        assert [(peer, agents.tolist()) for peer, agents in plan.debts] == [(0, [0]), (1, [0, 2, 4, 6])]
    once = round_plans(topologies[0], seats[0], N, 2)
    assert [(peer, agents.tolist()) for peer, agents in once[0].debts] == [(0, [0]), (1, [0, 2, 4, 6])]
    assert not any(plan.debts for plan in once[1:])
    later = replace(topologies[0], debts=topologies[0].debts + np.array([1, 0, 0]))
    with pytest.raises(Malformed, match="stated for the first round"):
        round_plans(later, seats[0], N, 2, remembers=True)


@pytest.mark.parametrize("remembers", [True, False])
def test_a_host_may_dispute_the_rows_that_it_is_owed(remembers: bool, tmp_path: Path) -> None:
    cutter = Cutter(graph_of("file", tmp_path), LIMITS, Attendance(N, DEPARTURES), remembers=remembers)
    w = Departing(graph_of("file", tmp_path), Attendance(N, DEPARTURES))
    own = np.array([1, 2, 6])
    for t in (1, 2, 3, 6, 12, 20):
        rounds = range(1, 61) if remembers else (t,)
        gone = [int(agent) for each in DEPARTURES if each.round <= t for agent in each.agents]
        stays = [agent for agent in own.tolist() if agent not in gone]
        of = Departing(graph_of("file", tmp_path), Attendance(N)) if remembers else w
        rows = sum(of.matrix(each).dense() for each in rounds)
        found = {int(j) for i in stays for j in np.flatnonzero(np.asarray(rows)[i]) if j not in gone}
        assert set(cutter.owed_to(own, t).tolist()) == found


def test_rules_say_whether_debts_stand() -> None:
    for remembers in (True, False):
        play = Play(40, remembers=remembers).begin()
        topologies = [body for body in play.told["a"] if isinstance(body, Topology)]
        offsets = {int(each) for topology in topologies for each in topology.debts[:, 0]}
        assert (offsets == {0}) == remembers
        assert max(topology.rounds for topology in topologies) > 1
