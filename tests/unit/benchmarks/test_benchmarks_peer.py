"""The reference peer (benchmarks/peer.py) plays the game that it is compared in."""

from pathlib import Path

import numpy as np
from benchmarks import bare, peer

from slaternet_coordinator.graphs.erdos_renyi import Paper
from slaternet_lab.games.simulation import simulate
from slaternet_lab.specs.resolve import load


async def test_the_reference_peer_decides_what_simulate_decides(tmp_path: Path) -> None:
    spec = load("paper", ["run.agents=4", "run.rounds=70", "record.decisions=true"])

    played = await peer.play(agents=4, rounds=70)

    decisions = simulate(spec, out=tmp_path / "run", figures=False).decisions
    assert decisions is not None
    assert np.abs(played.x - decisions[-1]).max() < 1e-9


def test_hosts_of_the_bare_game_exchange_frames_where_the_graph_has_an_edge() -> None:
    rounds = bare.neighbours(agents=16, hosts=16)

    for t, hosts in enumerate(rounds, start=1):
        edges = Paper(16, seed=1).matrix(t).dense() > 0
        np.fill_diagonal(edges, False)
        assert hosts == [np.flatnonzero(row).tolist() for row in edges]


def test_two_hosts_with_fifty_agents_each_exchange_frames_in_every_round() -> None:
    assert bare.neighbours(agents=100, hosts=2) == [[[1], [0]]] * bare.CYCLE


async def test_a_bare_game_measures_every_process() -> None:
    played = await bare.play(hosts=2, agents=4, rounds=20)

    assert played.ms > 0
    assert set(played.cpu) == {"coordinator", "adversary", "agent-1", "agent-2"}
    assert all(ms >= 0 for ms in played.cpu.values())
