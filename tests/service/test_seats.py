"""Who gets which seats, who waits as a spare, whom the coordinator misses, and what a process remembers of its game."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.support.services import DEADLINE, LOOPBACK, Game, Gathering, digest, gathering, reference, small_spec

from slaternet.errors import BadSpec, Mismatch
from slaternet.limits import LIMITS
from slaternet.model import HostStatus, Role, Status
from slaternet.service.config import ProcessConfig
from slaternet.service.membership import Applicant, Membership
from slaternet.spec import Spec
from slaternet.spec.seat_request import parse
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService
from slaternet_coordinator.shell.service import CoordinatorService
from slaternet_lab.specs.resolve import load_for_all

SOON = replace(LIMITS, gathering_seconds=0.05)


class Table:
    """A game whose hosts come one by one."""

    def __init__(self, gathered: Gathering, folder: Path) -> None:
        self.gathered = gathered
        self.game = Game(gathered.address, folder, gathered.tasks, "")

    def config(self, name: str, states: Path | None = None) -> ProcessConfig:
        return ProcessConfig(name, self.gathered.address, LOOPBACK, state=states)

    async def come(self, name: str, seats: str = "", states: Path | None = None) -> HostStatus:
        """Start a host and wait until it is there."""
        self.gathered.start(HostService(self.config(name, states), seats=parse(seats)))
        status = await self.game.until(lambda status: name in self.there(status))
        return self.there(status)[name]

    def begin(self, states: Path | None = None) -> None:
        """Start the adversary: without it no game begins, however many are there."""
        self.gathered.start(AdversaryService(self.config("adversary", states), self.game.folder))

    @staticmethod
    def there(status: Status) -> dict[str, HostStatus]:
        return {each.name: each for each in status.hosts if each.connected}


@asynccontextmanager
async def table(spec: Spec, folder: Path, hosts: int | None) -> AsyncIterator[Table]:
    async with gathering(spec, hosts=hosts, limits=SOON) as gathered:
        yield Table(gathered, folder)


async def test_without_a_number_of_hosts_the_seats_are_shared_once_nobody_new_comes(tmp_path: Path) -> None:
    spec = small_spec(rounds=60)
    async with table(spec, tmp_path / "game", hosts=None) as at:
        for name, seats in (("agent-1", ""), ("agent-2", "1,4"), ("agent-3", "")):
            await at.come(name, seats)
        at.begin()
        run = await at.game.over()

    assert digest(run) == reference(spec, tmp_path / "simulation")
    assert run.summary is not None
    assert run.summary["hosts"] == 3


async def test_seats_by_number_and_by_name_are_given_as_asked(tmp_path: Path) -> None:
    async with table(small_spec(rounds=None), tmp_path / "game", hosts=None) as at:
        for name, seats in (("agent-1", "1"), ("agent-2", "0-1,5")):
            await at.come(name, seats)
        with pytest.raises(Mismatch, match="agent-3 asks for agent 5, but agent-2 has asked for it already"):
            await HostService(at.config("agent-3"), seats=parse("4-5")).run(asyncio.Event())
        await at.come("agent-3", "2")
        spare = await at.come("agent-4", "4-5")
        at.begin()
        status = await at.game.until(lambda status: status.phase == "playing")
        assert [(each.name, each.seats, each.spare) for each in status.hosts if each.name != "adversary"] == [
            ("agent-1", 1, False),
            ("agent-2", 3, False),
            ("agent-3", 2, False),
            ("agent-4", 0, True),
        ]
        assert spare.spare
        assert "agent-3 asks for agent 5, but agent-2" in status.troubles[0].what
        await at.game.stop()
        await at.game.over()


async def test_who_finds_every_seat_taken_waits_as_a_spare_and_leaves_in_order(tmp_path: Path) -> None:
    spec = small_spec(rounds=None)
    async with table(spec, tmp_path / "game", hosts=1) as at:
        await at.come("agent-1")
        assert (await at.come("agent-2")).spare
        at.begin()
        await at.game.until(lambda status: status.phase == "playing")
        late = await at.come("agent-3", "4")
        assert (late.spare, late.seats) == (True, 0)
        await at.game.until(lambda status: status.round > 0)
        await at.game.stop()
        run = await at.game.over()  # every service has left with exit code 0, spares too

    assert digest(run) == reference(run.spec, tmp_path / "simulation")


async def test_the_coordinator_says_whom_the_game_misses(tmp_path: Path) -> None:
    async with table(small_spec(rounds=None), tmp_path / "game", hosts=2) as at:
        await at.come("agent-1")
        leaving = asyncio.Event()
        going = asyncio.create_task(HostService(at.config("agent-2")).run(leaving))
        at.begin()
        await at.game.until(lambda status: status.round > 0 and status.rounds_per_second > 0)

        leaving.set()
        assert await going == 130
        status = await at.game.until(lambda status: bool(status.waiting_for))

        assert status.waiting_for.startswith("agent-2, gone for ")
        assert "agent-2 has gone; the game waits for it" in [each.what for each in status.troubles]


async def test_the_coordinator_says_who_has_gone_and_come_back_before_the_game_has_begun(tmp_path: Path) -> None:
    async with table(small_spec(rounds=None), tmp_path / "game", hosts=1) as at:
        membership = await Membership.join(at.gathered.address, Applicant("agent-1", Role.HOST, "127.0.0.1:1"))
        for _ in range(2):
            attending = asyncio.create_task(membership.attend())
            await at.game.until(lambda status: "agent-1" in at.there(status))
            attending.cancel()
            await asyncio.wait((attending,))
            status = await at.game.until(lambda status: "agent-1" not in at.there(status))

    assert [each.what.partition(" after")[0] for each in status.troubles] == [
        "agent-1 is back",
        "agent-1 has gone before the game has begun",
    ]
    assert status.waiting_for == "the adversary"


# What is remembered


def remembered(states: Path) -> dict[str, object]:
    return {folder.name: json.loads((folder / "state.json").read_text())["over"] for folder in states.iterdir()}


async def test_every_process_remembers_its_game_and_when_it_is_over(tmp_path: Path) -> None:
    states, spec = tmp_path / "states", small_spec(rounds=None)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    centre = ProcessConfig("coordinator", listen=LOOPBACK, state=states)
    gathered = Gathering(asyncio.Event())
    gathered.start(CoordinatorService(spec, centre, hosts=2, ready=ready.set_result))
    gathered.address = await asyncio.wait_for(ready, DEADLINE)
    at = Table(gathered, tmp_path / "game")
    await at.come("agent-1", states=states)
    gathered.start(HostService(at.config("auto", states)))
    at.begin(states)
    await at.game.until(lambda status: status.round > 0)
    assert remembered(states) == dict.fromkeys(("coordinator", "adversary", "agent-1", "agent-2"), False)
    with pytest.raises(BadSpec, match="agent-1 is held by another process"):
        await HostService(at.config("agent-1", states)).run(asyncio.Event())

    await at.game.stop()
    run = await at.game.over()

    assert remembered(states) == dict.fromkeys(("coordinator", "adversary", "agent-1", "agent-2"), True)
    rounds = {json.loads((each / "state.json").read_text())["rounds"] for each in states.iterdir()}
    assert rounds == {run.spec.run.rounds}
    for service in (
        CoordinatorService(spec, centre, hosts=2),
        HostService(at.config("agent-1", states)),
        AdversaryService(at.config("adversary", states), tmp_path / "other"),
    ):
        assert await service.run(asyncio.Event()) == 0
    assert not (tmp_path / "other").exists()


async def test_a_process_that_has_begun_a_game_of_another_spec_is_refused_until_it_forgets_that(tmp_path: Path) -> None:
    async with table(small_spec(rounds=7), tmp_path / "game", hosts=1) as at:
        begun = await at.come("agent-1", states=tmp_path / "states")
        assert begun.name == "agent-1"
    async with table(small_spec(rounds=8), tmp_path / "game", hosts=1) as at:
        config = at.config("agent-1", tmp_path / "states")
        with pytest.raises(Mismatch, match=r"agent-1 has begun a game of another spec .* --fresh"):
            await HostService(config).run(asyncio.Event())
        at.gathered.start(HostService(replace(config, fresh=True)))
        at.begin()
        await at.game.over()

    other = ProcessConfig("coordinator", listen=LOOPBACK, state=tmp_path / "states")
    stopped = asyncio.Event()
    stopped.set()
    assert await CoordinatorService(small_spec(rounds=7), other).run(stopped) == 130
    with pytest.raises(
        BadSpec, match=r"coordinator holds a game of spec [0-9a-f]{16}, not of spec .*; start with --fr"
    ):
        await CoordinatorService(small_spec(rounds=8), other).run(stopped)


# Where files are


async def test_a_coordinator_that_could_not_listen_has_begun_no_game(tmp_path: Path) -> None:
    async with gathering(small_spec(rounds=5), hosts=1) as gathered:
        config = ProcessConfig("coordinator", listen=gathered.address, state=tmp_path)
        with pytest.raises(BadSpec, match=f"cannot listen on {gathered.address}; choose a free port"):
            await CoordinatorService(small_spec(rounds=5), config).run(asyncio.Event())

    stopping, corrected = asyncio.Event(), ProcessConfig("coordinator", listen=LOOPBACK, state=tmp_path)
    ready = lambda address: stopping.set()  # noqa: E731
    assert await CoordinatorService(small_spec(rounds=6), corrected, ready=ready).run(stopping) == 130


async def test_each_process_looks_relative_paths_up_for_itself_and_the_run_folder_says_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from slaternet_adversary.builtin.linear_regression import LinearRegression\n\n\n"
        "class Mine(LinearRegression):\n    pass\n"
    )
    small = ("run.agents=6", "run.dimension=3", "run.rounds=20", "record.decisions=false")
    spec = load_for_all("paper-short", (*small, "adversary.plugin=mine.py:Mine", "adversary.isolation=none"))
    assert spec.adversary.plugin == "mine.py:Mine"

    async with table(spec, tmp_path / "game", hosts=1) as at:
        await at.come("agent-1")
        at.begin()
        run = await at.game.over()

    assert run.spec.adversary.plugin == f"{tmp_path}/mine.py:Mine"
    assert run.spec.replace(**{"adversary.plugin": "mine.py:Mine"}) == spec
    assert digest(run) == reference(run.spec, tmp_path / "simulation")


async def test_a_plugin_that_is_another_here_is_said_and_recorded(tmp_path: Path) -> None:
    spec = small_spec(rounds=3)
    elsewhere = spec.replace(**{"adversary.sha256": "a" * 64})
    with capture_logs() as logs:
        async with table(elsewhere, tmp_path / "game", hosts=1) as at:
            await at.come("agent-1")
            at.begin()
            run = await at.game.over()

    warnings = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert warnings == ["linear-regression is not the code the spec was resolved with; expect another digest"]
    assert run.spec.adversary.sha256 == spec.adversary.sha256


def test_names_and_numbers_that_cannot_be_are_refused_at_once() -> None:
    with pytest.raises(BadSpec, match=r"--name \.\./x cannot be a name; use a-z, 0-9 and -"):
        ProcessConfig("../x")
    with pytest.raises(BadSpec, match="--name adversary belongs to another role; choose another, such as agent-1"):
        HostService(ProcessConfig("adversary", "127.0.0.1:1"))
    with pytest.raises(BadSpec, match="--hosts 7 is more than the 6 agents of the game; every host needs an agent"):
        CoordinatorService(small_spec(rounds=3), ProcessConfig("coordinator", listen=LOOPBACK), hosts=7)
