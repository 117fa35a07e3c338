"""Every algorithm plays over real gRPC, on one host and on three, to the bits of its simulation."""

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.support.services import digest, playing, reference, small_spec

GUIDE = Path(__file__).parents[2] / "docs" / "writing-algorithms.md"

BUILT_IN = sorted(entry.name for entry in entry_points(group="slaternet.algorithms"))
CENTRAL = (
    "cao2019",
    "mahdavi2012",
    "mahdavi2012-bandit",
    "flaxman2005",
    "agarwal2010-multi",
    "zinkevich2003",
    "yi2023",
    "tracking",
)


async def ends_alike(hosts: int, folder: Path, *settings: str) -> None:
    spec = small_spec(*settings, rounds=40)
    async with playing(spec, folder / "game", hosts=hosts) as game:
        run = await game.over()
    assert digest(run) == reference(spec, folder / "simulation")


@pytest.mark.parametrize("hosts", [1, 3])
@pytest.mark.parametrize("name", BUILT_IN)
async def test_a_built_in_algorithm_ends_in_the_digest_of_its_simulation(name: str, hosts: int, tmp_path: Path) -> None:
    await ends_alike(hosts, tmp_path, f"algorithm.name={name}")


@pytest.mark.parametrize("graph", ["paper", "ring"])
@pytest.mark.parametrize("hosts", [1, 2, 5])
@pytest.mark.parametrize("name", ["tracking", "clipped"])
async def test_memos_and_neighbours_give_one_digest_on_any_hosts(
    name: str, hosts: int, graph: str, tmp_path: Path
) -> None:
    await ends_alike(hosts, tmp_path, f"algorithm.name={name}", f"graph.name={graph}")


@pytest.mark.parametrize("hosts", [1, 3])
@pytest.mark.parametrize("name", CENTRAL)
async def test_one_learner_for_all_ends_in_the_digest_of_its_simulation(name: str, hosts: int, tmp_path: Path) -> None:
    await ends_alike(hosts, tmp_path, f"algorithm.name={name}", "algorithm.mode=central")


@pytest.mark.parametrize("hosts", [1, 3])
async def test_an_algorithm_of_a_user_s_file_ends_in_the_digest_of_its_simulation(hosts: int, tmp_path: Path) -> None:
    file = tmp_path / "penalty.py"
    file.write_text(_from_the_guide("class Penalty"))

    await ends_alike(hosts, tmp_path, f"algorithm.name={file}:Penalty", "algorithm.price=20.0")


def _from_the_guide(line: str) -> str:
    """Return the Python of the guide that holds a line."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    [code] = [block for block in blocks if line in block]
    return str(code)


async def test_a_stopped_game_keeps_the_horizon_its_steps_were_made_for(tmp_path: Path) -> None:
    spec = small_spec("algorithm.name=cao2019", "run.rounds=100000", rounds=100_000)
    async with playing(spec, tmp_path / "game", hosts=2) as game:
        await game.ends_as_its_simulation(tmp_path / "simulation")

    assert spec.algorithm.horizon == 100_000
