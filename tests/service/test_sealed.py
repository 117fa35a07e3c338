"""What the coordinator tells whom of the spec, and the seed that it draws: the same one after a restart."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.services import DEADLINE, LOOPBACK, digest, playing, reference, small_spec

from slaternet.model import Role
from slaternet.service.config import ProcessConfig
from slaternet.service.membership import Applicant, Membership
from slaternet.spec import PublicSpec, Spec
from slaternet_coordinator.shell.service import CoordinatorService

DRAWN = {"adversary.seed": "random"}


@asynccontextmanager
async def coordinating(spec: Spec, state: Path | None) -> AsyncIterator[str]:
    """Give the address of a coordinator, which is ended with the block as a kill would end it."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    config = ProcessConfig("coordinator", listen=LOOPBACK, state=state)
    ending = asyncio.Event()
    task = asyncio.create_task(CoordinatorService(spec, config, hosts=1, ready=ready.set_result).run(ending))
    try:
        yield await asyncio.wait_for(ready, DEADLINE)
    finally:
        ending.set()
        await task


async def told(address: str, role: Role) -> Membership:
    return await Membership.join(address, Applicant(str(role), role, "127.0.0.1:1"))


async def whole(address: str) -> Spec:
    """Return the spec that the adversary is told."""
    spec = (await told(address, Role.ADVERSARY)).spec
    assert isinstance(spec, Spec)
    return spec


async def test_a_host_is_told_the_public_part_and_the_adversary_everything(tmp_path: Path) -> None:
    spec = small_spec("adversary.seed=123456789123", "adversary.options.b=0.125", rounds=5)
    async with coordinating(spec, None) as address:
        host, adversary = await told(address, Role.HOST), await told(address, Role.ADVERSARY)

        assert type(host.spec) is PublicSpec
        assert host.spec == spec.public
        assert adversary.spec == spec
        assert host.spec_tag == adversary.spec_tag
        assert spec.digest() not in (host.spec_tag, host.spec.to_toml())
    async with coordinating(spec, None) as address:  # another run, another secret: the tag cannot be compared
        assert (await told(address, Role.HOST)).spec_tag != host.spec_tag


async def test_a_seed_that_is_to_be_drawn_is_drawn_once_for_a_run(tmp_path: Path) -> None:
    spec = small_spec(rounds=5).replace(**DRAWN)
    seeds = []
    for state in (tmp_path / "one", tmp_path / "one", tmp_path / "other"):
        async with coordinating(spec, state) as address:
            seeds.append((await whole(address)).adversary.seed)

    assert all(isinstance(seed, int) and 0 <= seed < 1 << 63 for seed in seeds)
    assert seeds[0] == seeds[1] != seeds[2]


async def test_a_game_whose_seed_the_coordinator_draws_can_be_simulated_from_its_folder(tmp_path: Path) -> None:
    spec = small_spec(rounds=20)
    async with playing(spec.replace(**DRAWN), tmp_path / "game", hosts=2) as game:
        assert (await game.status()).sealed
        run = await game.over()

    assert isinstance(run.spec.adversary.seed, int)
    assert run.spec.sealed
    assert run.summary["sealed"] is True
    assert digest(run) == reference(run.spec, tmp_path / "simulation")
    assert digest(run) != reference(spec, tmp_path / "open")


@pytest.mark.parametrize(("seed", "sealed"), [(None, False), (1, False), (2, True)])
async def test_a_game_whose_functions_are_drawn_by_the_seed_that_hosts_know_is_open(
    seed: int | None, sealed: bool
) -> None:
    spec = small_spec(rounds=5).replace(**{"run.seed": 1, "adversary.seed": seed})
    async with coordinating(spec, None) as address:
        assert (await whole(address)).sealed is sealed
