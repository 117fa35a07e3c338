"""A host that never comes back: under another policy than to wait, the game goes on with its agents or without them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.support.services import (
    DEADLINE,
    LOOPBACK,
    REVEAL,
    Game,
    Gathering,
    Insider,
    Verdict,
    converse,
    digest,
    gathering,
    reference,
    small_spec,
)

from slaternet.errors import BadSpec, Mismatch
from slaternet.limits import LIMITS
from slaternet.model import Agents, Question, Refusal, Status
from slaternet.network.client import open_channel
from slaternet.service.config import ProcessConfig
from slaternet.service.main import DEGRADED
from slaternet.spec import Spec
from slaternet_adversary.journal.entries import Purchase
from slaternet_adversary.journal.journal import read
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService
from slaternet_coordinator.engine.rules import Policy
from slaternet_coordinator.shell.service import CoordinatorService
from slaternet_lab import Run
from slaternet_lab.status.operator import ask_status

C, L = LIMITS.checkpoint_every, LIMITS.window


class Hosts:
    """The hosts of a game, each of which may end."""

    def __init__(self, gathered: Gathering, states: Path) -> None:
        self._address, self._states = gathered.address, states
        self._lives: dict[str, tuple[asyncio.Event, asyncio.Task[int]]] = {}

    def start(self, name: str) -> "asyncio.Task[int]":
        """Start a host."""
        stop = asyncio.Event()
        life = asyncio.create_task(
            HostService(ProcessConfig(name, self._address, LOOPBACK, state=self._states)).run(stop)
        )
        self._lives[name] = stop, life
        return life

    async def end(self, name: str) -> None:
        """End a host as a signal does."""
        stop, life = self._lives.pop(name)
        stop.set()
        async with asyncio.timeout(DEADLINE):
            assert await life == 130

    @property
    def lives(self) -> "list[asyncio.Task[int]]":
        """All that were not ended."""
        return [life for _, life in self._lives.values()]


class Lossy(Game):
    """A game that may lose hosts."""

    async def comes_to(self, round: int) -> Status:
        """Wait until everyone who plays has come to a round."""
        return await self.until(
            lambda status: (
                status.round >= round
                and all(each.round >= round for each in status.hosts if each.seats)
                and not status.waiting_for
            )
        )

    async def named(self) -> str:
        """Return the id of the run."""
        async with open_channel(self.address) as channel:
            return (await ask_status(channel)).run

    async def ends(self, tasks: "list[asyncio.Task[int]]", folder: Path) -> tuple[Run, int]:
        """Stop the game; require the bits of its simulation and a clean audit; return the coordinator's exit code."""
        await self.stop()
        async with asyncio.timeout(DEADLINE):
            coordinator, *others = await asyncio.gather(*tasks)
        assert set(others) == {0}
        run = Run.open(self.folder)
        assert digest(run) == reference(run.spec, folder)
        report = run.audit()
        assert report.verdict == "ok", report.sentences()
        return run, coordinator


@asynccontextmanager
async def playing(
    folder: Path, policy: Policy, *settings: str, spares: tuple[str, ...] = (), lost_after: float = 1.0
) -> AsyncIterator[tuple[Lossy, Hosts, Gathering]]:
    """Begin a game of three hosts and spares that goes on until it is stopped; who is away for a second is lost."""
    spec = small_spec(*settings, rounds=None)
    async with gathering(spec, hosts=3, policy=policy, lost_after=lost_after) as gathered:
        hosts = Hosts(gathered, folder / "state")
        game = Lossy(gathered.address, folder / "game", gathered.tasks, "")
        for name in ("agent-1", "agent-2", "agent-3", *spares):
            hosts.start(name)
            await game.until(lambda status, name=name: any(each.name == name for each in status.hosts))  # type: ignore[misc]
        eve = ProcessConfig("adversary", gathered.address, LOOPBACK, state=folder / "state")
        gathered.start(AdversaryService(eve, folder / "game"))
        try:
            yield game, hosts, gathered
        finally:
            for life in hosts.lives:
                life.cancel()
            await asyncio.gather(*hosts.lives, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zhang2024", "tracking"])
async def test_a_spare_takes_the_place_of_a_host_that_never_comes_back(name: str, tmp_path: Path) -> None:
    setting = f"algorithm.name={name}"
    async with playing(tmp_path, Policy.REPLACE, setting, spares=("agent-9",)) as (game, hosts, gathered):
        await game.comes_to(C + 10)
        await hosts.end("agent-2")
        status = await game.until(lambda status: any(each.lost for each in status.hosts))
        await game.until(lambda status: any(each.name == "agent-9" and each.seats for each in status.hosts))
        await game.comes_to(status.published + 1)
        troubles = [each.what for each in (await game.status()).troubles]

        run, code = await game.ends([*gathered.tasks, *hosts.lives], tmp_path / "simulation")

    assert "agent-2 has gone; it has 1 s to come back" in troubles
    assert "agent-2 is lost: agent-9 plays its agents from now on" in troubles
    assert code == 0
    assert run.spec.departures == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [(), ("algorithm.name=yi2023",), ("algorithm.name=tracking",)],
    ids=["zhang2024", "yi2023", "tracking"],
)
async def test_agents_leave_with_their_host_and_it_is_refused_when_it_comes_back(
    settings: tuple[str, ...], tmp_path: Path
) -> None:
    async with playing(tmp_path, Policy.LEAVE, *settings) as (game, hosts, gathered):
        await game.comes_to(C + 10)
        await hosts.end("agent-2")
        status = await game.until(lambda status: any(each.lost and not each.seats for each in status.hosts))
        life = hosts.start("agent-2")
        with pytest.raises(Mismatch, match="agent-2 was away for too long and is given up"):
            await asyncio.wait_for(life, DEADLINE)
        await game.comes_to(status.published + 1)

        staying = [each for each in hosts.lives if each is not life]
        run, code = await game.ends([*gathered.tasks, *staying], tmp_path / "simulation")

    assert code == DEGRADED
    [departure] = run.spec.departures
    assert departure.agents == [2, 3]
    assert C + 10 < departure.round <= status.published + 1


def last_bought(folder: Path, agents: Agents) -> int:
    """Return the last round that these agents have bought together."""
    purchases = [entry.asked.question for entry in read(folder) if isinstance(entry, Purchase)]
    return max(each.round for each in purchases if np.array_equal(each.agents, agents))


class Vanishing:
    """What an admitted host says to the adversary before it vanishes: questions that are not the declared one."""

    def __init__(self, insider: Insider, round: int, dimension: int) -> None:
        self._insider, self._round, self._dimension = insider, round, dimension

    async def asks(self, agents: Agents, points: int) -> Verdict:
        """Ask about the round that comes next, in numbers that lie in the set."""
        x, at = np.zeros((len(agents), self._dimension)), np.zeros((len(agents), points, self._dimension))
        question = Question(self._round, agents, x, at)
        messages = [
            REVEAL.encode(self._insider.head(), self._insider.opening()),
            REVEAL.encode(self._insider.head(self._round), question),
        ]
        return await converse(self._insider.address, REVEAL.method, messages)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Policy.REPLACE, Policy.LEAVE])
async def test_a_host_that_asks_otherwise_than_declared_and_vanishes_leaves_nothing_that_cannot_be_replayed(
    policy: Policy, tmp_path: Path
) -> None:
    async with playing(tmp_path, policy, lost_after=3.0) as (game, hosts, gathered):
        await game.comes_to(C + 10)
        game.run = await game.named()
        insider = await game.insider("agent-2", "adversary")
        await hosts.end("agent-2")
        liar = Vanishing(insider, last_bought(game.folder, insider.seats) + 1, dimension=3)

        verdicts = [
            await liar.asks(insider.seats, points=1),  # fewer points
            await liar.asks(insider.seats, points=0),
            await liar.asks(insider.seats[:1], points=2),  # a part of its agents
            await liar.asks(insider.seats[1:], points=1),  # and the others with another number of points
        ]
        status = await game.until(lambda status: any(each.lost for each in status.hosts))
        await game.comes_to(status.published + 1)
        breaches = (await game.status()).breaches

        run, code = await game.ends([*gathered.tasks, *hosts.lives], tmp_path / "simulation")

    assert [each.error for each in verdicts] == ["Malformed"] * 4
    assert Refusal("Malformed", "agent-2", 4, "adversary") in breaches
    assert code == (0 if policy is Policy.REPLACE else DEGRADED)
    assert [each.agents for each in run.spec.departures] == ([] if policy is Policy.REPLACE else [[2, 3]])


async def test_a_host_without_state_is_refused_where_the_game_could_not_go_on_with_it(tmp_path: Path) -> None:
    async with gathering(small_spec(rounds=None), hosts=1, policy=Policy.LEAVE) as gathered:
        with pytest.raises(Mismatch, match="agent-1 keeps nothing, but under --policy leave"):
            await HostService(ProcessConfig("agent-1", gathered.address, LOOPBACK)).run(asyncio.Event())


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("graph.name=directed-permutations", "agents cannot leave a game on a directed graph"),
        ("algorithm.mode=central", "none of them can leave the game"),
    ],
)
def test_agents_cannot_leave_every_game(setting: str, sentence: str) -> None:
    spec = _spec(setting)

    with pytest.raises(BadSpec, match=sentence):
        CoordinatorService(spec, ProcessConfig("coordinator", listen=LOOPBACK), policy=Policy.LEAVE)
    assert CoordinatorService(spec, ProcessConfig("coordinator", listen=LOOPBACK), policy=Policy.REPLACE)


def _spec(setting: str) -> Spec:
    key, _, value = setting.partition("=")
    spec = small_spec(rounds=10)
    return spec.replace(graph={"name": value}) if key == "graph.name" else spec.replace(**{key: value})
