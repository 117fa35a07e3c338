"""A coordinator that dies in the middle of a game and is started again: nobody else notices more than a pause."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.services import DEADLINE, LOOPBACK, Game, digest, reference, small_spec

from slaternet import codec
from slaternet.errors import BadSpec, RunFailed, Unreachable
from slaternet.model import ControlDown, Description, GameOver, Head, Progress, Role, Status
from slaternet.network.certificates import LOOPBACK as LOOPBACK_ONLY
from slaternet.service.config import ProcessConfig
from slaternet.service.main import DEGRADED
from slaternet.service.membership import Applicant, Membership, call_until_answered
from slaternet.spec import Spec
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService
from slaternet_coordinator.shell.register_db import REGISTER, RegisterDb
from slaternet_coordinator.shell.service import CoordinatorService


class Mortal:
    """A coordinator of many lives, all at one address."""

    def __init__(self, spec: Spec, states: Path, hosts: int) -> None:
        self._spec = spec
        self._states = states
        self._hosts = hosts
        self.address = LOOPBACK
        self.file = states / "coordinator" / REGISTER

    async def live(self, spec: Spec | None = None, *, fresh: bool = False) -> None:
        """Begin a life."""
        self._stopping, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        config = ProcessConfig("coordinator", listen=self.address, state=self._states, fresh=fresh)
        service = CoordinatorService(spec or self._spec, config, hosts=self._hosts, ready=ready.set_result)
        self.life = asyncio.create_task(service.run(self._stopping))
        await asyncio.wait((ready, self.life), timeout=DEADLINE, return_when=asyncio.FIRST_COMPLETED)
        if self.life.done():
            await self.life
        self.address = ready.result()
        # connections of one process are shared, and remember for a while that nobody was there
        async with asyncio.timeout(DEADLINE):
            asked = codec.encode_status_request(Head("", 0, 0, "operator"))
            await call_until_answered(self.address, "/slaternet.v1.Coordinator/Status", asked, LOOPBACK_ONLY)

    async def die(self) -> None:
        """End this life."""
        self._stopping.set()
        await self.life

    def kept(self, what: str) -> object:
        """Return what the register says of the game."""
        with closing(sqlite3.connect(self.file)) as connection:
            document = json.loads(connection.execute("SELECT json FROM register").fetchone()[0])
        return {**document, **document["game"]}[what]


@asynccontextmanager
async def mortal(spec: Spec, states: Path, hosts: int = 2) -> AsyncIterator[Mortal]:
    coordinator = Mortal(spec, states, hosts)
    await coordinator.live()
    try:
        yield coordinator
    finally:
        await coordinator.die()


@asynccontextmanager
async def company(coordinator: Mortal, folder: Path, hosts: int = 2) -> AsyncIterator[Game]:
    """Start the others; whatever is left of them ends with the block."""
    address, ending = coordinator.address, asyncio.Event()
    services = [HostService(ProcessConfig(f"agent-{number}", address, LOOPBACK)) for number in range(1, hosts + 1)]
    services.append(AdversaryService(ProcessConfig("adversary", address, LOOPBACK), folder))  # type: ignore[arg-type]
    tasks = [asyncio.create_task(each.run(ending)) for each in services]
    try:
        yield Game(address, folder, tasks, "")
    finally:
        ending.set()
        await asyncio.gather(*tasks, return_exceptions=True)


def everyone(status: Status) -> bool:
    return len(status.hosts) == 3 and all(each.connected for each in status.hosts)


async def test_a_game_outlives_its_coordinator(tmp_path: Path) -> None:
    spec = small_spec(rounds=100)
    async with mortal(spec, tmp_path / "state") as coordinator, company(coordinator, tmp_path / "game") as game:
        await game.until(lambda status: status.round >= 20)
        run, secret = coordinator.kept("run"), coordinator.kept("secret")
        await coordinator.die()
        await coordinator.live()
        assert (coordinator.kept("run"), coordinator.kept("secret")) == (run, secret)
        played = await game.over()
        async with asyncio.timeout(DEADLINE):
            assert await coordinator.life == 0
        assert coordinator.kept("phase") == "over"
        assert json.loads((coordinator.file.parent / "state.json").read_text())["over"]

    assert digest(played) == reference(spec, tmp_path / "simulated")


async def test_that_a_game_is_disturbed_outlives_the_coordinator(tmp_path: Path) -> None:
    async with (
        mortal(small_spec(rounds=None), tmp_path / "state") as coordinator,
        company(coordinator, tmp_path / "game") as game,
    ):
        await game.until(lambda status: status.round >= 20)
        await coordinator.die()
        with RegisterDb.open(coordinator.file) as register:
            register.save(replace(register.read(), disturbed=True))
        await coordinator.live()
        await game.until(lambda status: status.disturbed and everyone(status))
        await game.stop()
        played = await game.over()
        async with asyncio.timeout(DEADLINE):
            assert await coordinator.life == DEGRADED

    assert played.summary["disturbed"] is True


def hard_of_hearing(body: ControlDown) -> None:
    if isinstance(body, GameOver):
        raise Unreachable("what is this about?")


async def test_a_game_is_closed_only_when_everyone_knows_that_it_is_over(tmp_path: Path) -> None:
    async with mortal(small_spec(rounds=5), tmp_path, hosts=1) as coordinator:
        host = await Membership.join(coordinator.address, Applicant("agent-1", Role.HOST, "127.0.0.1:1"))
        host.listen(hard_of_hearing)
        eve = await Membership.join(coordinator.address, Applicant("adversary", Role.ADVERSARY, "127.0.0.1:2"))
        eve.listen(lambda body: None, opened=lambda: eve.send(Description(1)))
        game, state = Game(coordinator.address, tmp_path, [], eve.run), tmp_path / "coordinator" / "state.json"
        attending = [asyncio.create_task(each.attend()) for each in (host, eve)]
        await game.until(lambda status: status.phase == "playing" and host.epoch == eve.epoch == 1)
        for each in (host, eve):
            each.finish(Progress(5))
        await game.until(lambda status: status.phase == "over")

        await coordinator.die()
        await coordinator.live()
        assert (await game.status()).phase == "over"
        assert not json.loads(state.read_text())["over"]

        host.listen(lambda body: None)
        async with asyncio.timeout(DEADLINE):
            await asyncio.gather(*attending)
            assert await coordinator.life == 0
        assert json.loads(state.read_text())["over"]


async def test_members_of_a_gathering_are_still_known_to_the_next_life(tmp_path: Path) -> None:
    spec = small_spec(rounds=5)
    async with (
        mortal(spec, tmp_path / "state", hosts=3) as coordinator,
        company(coordinator, tmp_path / "game") as game,
    ):
        await game.until(everyone)
        await coordinator.die()
        await coordinator.live()
        status = await game.until(everyone)
        assert (status.phase, status.waiting_for) == ("gathering", "1 of 3 agent hosts")

        third = asyncio.create_task(HostService(ProcessConfig("agent-3", game.address, LOOPBACK)).run(asyncio.Event()))
        played = await game.over()
        assert await third == 0

    assert digest(played) == reference(spec, tmp_path / "simulated")


async def test_a_stop_outlives_the_coordinator(tmp_path: Path) -> None:
    spec = small_spec(rounds=None)
    async with mortal(spec, tmp_path / "state") as coordinator, company(coordinator, tmp_path / "game") as game:
        await game.until(lambda status: status.round >= 5)
        await game.stop()
        await coordinator.die()
        await coordinator.live()
        played = await game.over()

    assert digest(played) == reference(played.spec, tmp_path / "simulated")


async def test_a_state_of_another_spec_or_of_no_game_is_refused_until_it_is_forgotten(tmp_path: Path) -> None:
    async with mortal(small_spec(rounds=5), tmp_path) as coordinator:
        run = coordinator.kept("run")
        await coordinator.die()
        with pytest.raises(BadSpec, match=r"holds a game of spec .* --fresh"):
            await coordinator.live(small_spec(rounds=6))
        coordinator.file.write_bytes(b"scribble" * 1000)
        with pytest.raises(BadSpec, match=r"register.sqlite is damaged; .* --fresh"):
            await coordinator.live()

        await coordinator.live(small_spec(rounds=6), fresh=True)
        assert coordinator.kept("run") != run


async def test_a_coordinator_that_cannot_remember_leaves_and_announces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = small_spec(rounds=None)
    async with mortal(spec, tmp_path / "state") as coordinator, company(coordinator, tmp_path / "game") as game:
        await game.until(lambda status: status.round >= 5)
        with monkeypatch.context() as full:

            def refuse(*_: object) -> None:
                raise RunFailed("there is no room")

            full.setattr("slaternet_coordinator.shell.register_db.RegisterDb.save", refuse)
            published = coordinator.kept("published")
            with pytest.raises(RunFailed, match="there is no room"):
                async with asyncio.timeout(DEADLINE):
                    await coordinator.life
            assert coordinator.kept("published") == published
        await coordinator.live()
        await game.goes_on()
        await game.stop()
        played = await game.over()

    assert digest(played) == reference(played.spec, tmp_path / "simulated")
