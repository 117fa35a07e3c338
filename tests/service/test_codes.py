"""Games in a gossip code over real gRPC: the digest of the simulation, on every graph, and whose streams break."""

from pathlib import Path

import pytest
from tests.support.gossip_settings import GAMES, GRAPHS
from tests.support.services import digest, playing, reference, small_spec

from slaternet_lab import Run


def sent(run: Run, name: str) -> int:
    """Return what all hosts have sent."""
    assert run.summary is not None
    return int(run.summary["network"][name])


@pytest.mark.parametrize("name", GAMES)
async def test_a_coded_game_ends_in_the_digest_of_its_simulation(name: str, tmp_path: Path) -> None:
    spec = small_spec(*GAMES[name], "run.dimension=10", "graph.name=erdos-renyi", "graph.degree=2.0", rounds=40)
    async with playing(spec, tmp_path / "game", hosts=3) as game:
        run = await game.over()

    assert digest(run) == reference(spec, tmp_path / "simulation")
    assert sent(run, "rows_sent") > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("hosts", [1, 2, 5])
async def test_every_code_gives_one_digest_on_any_number_of_hosts(hosts: int, graph: str, tmp_path: Path) -> None:
    for name, settings in GAMES.items():
        spec = small_spec(*settings, *GRAPHS[graph], "run.agents=10", rounds=30)
        async with playing(spec, tmp_path / name, hosts=hosts) as game:
            run = await game.over()
        assert digest(run) == reference(spec, tmp_path / f"{name}-simulated"), name


async def test_games_in_different_codes_are_different_games(tmp_path: Path) -> None:
    specs = {name: small_spec(*settings, "run.dimension=10", rounds=10) for name, settings in GAMES.items()}
    digests = {name: reference(spec, tmp_path / name) for name, spec in specs.items()}
    digests["exact"] = reference(small_spec("run.dimension=10", rounds=10), tmp_path / "exact")

    assert len(set(digests.values())) == len(digests)
