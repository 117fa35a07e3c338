"""Hosts that are ended in the middle of a game and started again with the same state go on to the same digest."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.services import DEADLINE, LOOPBACK, Game, Gathering, gathering, small_spec

from slaternet import codec
from slaternet.limits import LIMITS
from slaternet.model import COORDINATOR, PROTOCOL, Challenge, Head, Join, Role, Welcome
from slaternet.network.client import call, open_channel
from slaternet.numerics import fingerprint as identity
from slaternet.service.config import ProcessConfig
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService
from slaternet_lab import Run

C, L = LIMITS.checkpoint_every, LIMITS.window
NAMES = ("agent-1", "agent-2")


class Hosts:
    """The hosts of a game, each of which lives again and again."""

    def __init__(self, gathered: Gathering, states: Path) -> None:
        self._address, self._states = gathered.address, states
        self._lives: dict[str, tuple[asyncio.Event, asyncio.Task[int]]] = {}

    def start(self, name: str) -> None:
        stop = asyncio.Event()
        service = HostService(ProcessConfig(name, self._address, LOOPBACK, state=self._states))
        self._lives[name] = stop, asyncio.create_task(service.run(stop))

    async def end(self, name: str) -> None:
        stop, life = self._lives[name]
        stop.set()
        async with asyncio.timeout(DEADLINE):
            assert await life == 130

    @property
    def last_lives(self) -> "list[asyncio.Task[int]]":
        return [life for _, life in self._lives.values()]

    def checkpoints(self, name: str) -> list[int]:
        return sorted(int(each.name) for each in (self._states / name / "checkpoints").iterdir())


@asynccontextmanager
async def playing(folder: Path) -> AsyncIterator[tuple[Game, Hosts]]:
    """Begin a game without end, whose processes can come back."""
    async with gathering(small_spec(rounds=None), hosts=len(NAMES)) as gathered:
        hosts = Hosts(gathered, folder / "state")
        for name in NAMES:
            hosts.start(name)
        eve = ProcessConfig("adversary", gathered.address, LOOPBACK, state=folder / "state")
        gathered.start(AdversaryService(eve, folder / "game"))
        game = Game(gathered.address, folder / "game", gathered.tasks, "")
        try:
            yield game, hosts
            gathered.tasks += hosts.last_lives
            await game.ends_as_its_simulation(folder / "simulation")
        finally:
            for life in hosts.last_lives:
                life.cancel()
            await asyncio.gather(*hosts.last_lives, return_exceptions=True)


async def test_a_host_that_is_started_again_in_the_middle_of_a_game_plays_it_on(tmp_path: Path) -> None:
    async with playing(tmp_path) as (game, hosts):
        await game.until(lambda status: status.published > 2 * C + L)  # the low-water mark is past 0
        await hosts.end("agent-1")
        hosts.start("agent-1")

    last = Run.open(game.folder).spec.run.rounds
    assert [hosts.checkpoints(name)[-1] for name in NAMES] == [last] * len(NAMES)


async def asked(game: Game, ticket: bytes = b"") -> Challenge | Welcome:
    """Ask to join as agent-1, and return the answer."""
    join = Join(Role.HOST, "127.0.0.1:1", 0, PROTOCOL, identity.fingerprint(), durable=True, ticket=ticket)
    async with open_channel(game.address, COORDINATOR) as channel:
        request = codec.encode_join(Head("", 0, 0, "agent-1"), join)
        return codec.decode_welcome(await call(channel, "/slaternet.v1.Coordinator/Join", request))[1]


async def test_what_a_dead_life_has_asked_for_takes_no_name_from_its_successor(tmp_path: Path) -> None:
    async with playing(tmp_path) as (game, hosts):
        await game.until(lambda status: status.published > 0)
        early = await asked(game)
        await hosts.end("agent-1")
        hosts.start("agent-1")
        await game.outlives_its_window()
        # what was sent before comes now: nobody is there any more to answer the challenge
        assert isinstance(early, Challenge)
        assert isinstance(await asked(game, early.ticket), Challenge)
        assert isinstance(await asked(game), Challenge)


async def test_whoever_asks_for_a_taken_name_again_and_again_does_not_keep_its_holder_from_coming_back(
    tmp_path: Path,
) -> None:
    async with playing(tmp_path) as (game, hosts):
        await game.until(lambda status: status.published > 0)
        await hosts.end("agent-1")
        challenge = await asked(game)
        assert isinstance(challenge, Challenge)
        for _ in range(50):
            assert isinstance(await asked(game), Challenge)
            assert isinstance(await asked(game, bytes(32)), Challenge)
        assert isinstance(await asked(game, challenge.ticket), Welcome)
        assert isinstance(await asked(game, challenge.ticket), Challenge)  # it is good for one
        hosts.start("agent-1")


@pytest.mark.slow
async def test_hosts_that_are_started_again_and_again_also_together_play_the_game_on(tmp_path: Path) -> None:
    async with playing(tmp_path) as (game, hosts):
        for names in (("agent-2",), ("agent-1",), NAMES, ("agent-1",), NAMES):
            await game.outlives_its_window()
            for name in names:
                await hosts.end(name)
            for name in reversed(names):
                hosts.start(name)
