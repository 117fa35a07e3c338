"""Games on directed graphs: what an agent mixes comes from others than those it sends to."""

from pathlib import Path

import numpy as np
import pytest
from tests.unit.lab.test_simulation import SPEC, N, T, World, recorded, simulated, summary

from slaternet.spec import Spec
from slaternet_coordinator.registry import build as build_graph

GRAPHS: list[dict[str, object]] = [
    {"name": "exponential", "one_peer": True},
    {"name": "directed-circulant", "hops": [1, 5], "weights": [0.25, 0.5]},
    {"name": "directed-permutations", "count": 2},
    {"name": "matching"},
]


def played_on(graph: dict[str, object]) -> Spec:
    return SPEC.replace(graph=graph)


@pytest.mark.parametrize(
    ("graph", "hosts"), [*zip(GRAPHS, (3, 5, N, 2), strict=True)], ids=[str(graph["name"]) for graph in GRAPHS]
)
def test_a_directed_game_has_the_same_digest_on_any_number_of_hosts(
    graph: dict[str, object], hosts: int, tmp_path: Path
) -> None:
    alone = simulated(played_on(graph), tmp_path / "alone")
    world = World(played_on(graph), tmp_path / "world", hosts, seed=hosts)

    world.play()

    assert summary(tmp_path / "world")["digest"] == alone["digest"]
    assert recorded(tmp_path / "world").tobytes() == recorded(tmp_path / "alone").tobytes()


def test_directed_weights_are_not_read_the_wrong_way_round(tmp_path: Path) -> None:
    forth = {"name": "directed-circulant", "hops": [1], "weights": [0.75]}
    back = {"name": "directed-circulant", "hops": [-1], "weights": [0.75]}
    runs = []
    for index, graph in enumerate((forth, back)):
        simulated(played_on(graph), tmp_path / str(index))
        runs.append(recorded(tmp_path / str(index)))

    # all start in one place, so x_1 and z_2 are the same in both games, and x_2 = W z_2
    one, other = (build_graph(played_on(graph).graph, N, 1).matrix(2).dense() for graph in (forth, back))
    assert runs[0].shape == (T, N, SPEC.run.dimension)
    z = np.linalg.solve(one, runs[0][1])
    assert runs[1][1] == pytest.approx(other @ z, abs=1e-9)
    assert np.abs(runs[0][1] - runs[1][1]).max() > 1e-3
