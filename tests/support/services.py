"""A whole game as services in one process over real gRPC, and insiders who know its tickets and abuse them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Protocol

import grpc
import grpc.aio
import numpy as np

from slaternet import codec
from slaternet import tickets as identity
from slaternet.environment import Environment
from slaternet.limits import LIMITS, Limits
from slaternet.model import Agents, ControlUp, Gossip, Head, HostStatus, Opening, RevealUp, Role, Status
from slaternet.network.certificates import LOOPBACK as LOOPBACK_ONLY
from slaternet.network.certificates import Security, read
from slaternet.network.client import call, open_channel
from slaternet.service.config import ProcessConfig
from slaternet.service.membership import Applicant, Membership
from slaternet.spec import Spec
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService
from slaternet_coordinator.engine.rules import LOST_AFTER, Policy
from slaternet_coordinator.shell.service import CoordinatorService
from slaternet_lab import Run
from slaternet_lab.games.simulation import Simulation
from slaternet_lab.specs.resolve import load

LOOPBACK = "127.0.0.1:0"
SECRET = bytes(range(32))
"""What the coordinator draws its tickets from here, so that a test can make any of them."""
DEADLINE = 60.0

_ASKER = Head("", 0, 0, "operator")


def small_spec(*settings: str, rounds: int | None) -> Spec:
    """Return a resolved spec of 6 agents; without rounds, a game that goes on until it is stopped."""
    small = ("run.agents=6", "run.dimension=3", "record.decisions=false", *settings)
    spec = load("paper-short", small)
    return spec.replace(**{"run.rounds": rounds})


def reference(spec: Spec, folder: Path) -> str:
    """Return the digest that the spec has in a simulation."""
    folder.mkdir()
    simulation = Simulation(spec, folder)
    simulation.play()
    simulation.close()
    return digest(Run.open(folder))


def digest(run: Run) -> str:
    """Return the digest of a run that is complete."""
    assert run.summary is not None
    return str(run.summary["digest"])


@dataclass(frozen=True)
class Verdict:
    """How a server ended a call: its status, and the class of the error it names."""

    code: grpc.StatusCode
    error: str
    details: str


async def converse(
    address: str, method: str, messages: Sequence[bytes], channel: grpc.aio.Channel | None = None
) -> Verdict:
    """Open a stream, send these bytes whatever they are, and read until the server ends it."""
    async with asyncio.timeout(DEADLINE), channel or grpc.aio.insecure_channel(address) as channel:
        stream: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(method)()
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            for message in messages:
                await stream.write(message)
            while await stream.read() is not grpc.aio.EOF:
                pass
        metadata = dict(await stream.trailing_metadata() or ())
        error = metadata.get("slaternet-error", "")
        return Verdict(await stream.code(), str(error), await stream.details() or "")


class Game:
    """A game under way."""

    def __init__(
        self, address: str, folder: Path, tasks: list[asyncio.Task[int]], run: str, security: Security = LOOPBACK_ONLY
    ) -> None:
        self._security = security
        self.address = address
        self.folder = folder
        self.run = run
        self.tasks = tasks

    async def status(self) -> Status:
        """Ask the coordinator how the game stands."""
        async with open_channel(self.address, "coordinator", security=self._security) as channel:
            reply = await call(channel, "/slaternet.v1.Coordinator/Status", codec.encode_status_request(_ASKER))
        return codec.decode_status_reply(reply)[1]

    async def until(self, condition: Callable[[Status], bool]) -> Status:
        """Wait until the game stands as the condition says."""
        async with asyncio.timeout(DEADLINE):
            while not condition(status := await self.status()):
                assert not status.failure, status.failure
                await asyncio.sleep(0.01)  # the next look; nothing depends on its length
        return status

    async def goes_on(self) -> None:
        """Wait until every host has finished, and the adversary scored, a round that none had reached."""
        furthest = max(each.round for each in (await self.status()).hosts)
        await self.until(lambda status: all(each.round > furthest for each in status.hosts))

    async def outlives_its_window(self) -> None:
        """Wait until every host has finished, and the adversary scored, a round that was not even published."""
        published = (await self.status()).published
        await self.until(lambda status: all(each.round > published for each in status.hosts))

    async def stop(self) -> None:
        """Ask the coordinator to end the game."""
        async with open_channel(self.address, "coordinator", security=self._security) as channel:
            await call(channel, "/slaternet.v1.Coordinator/Stop", codec.encode_stop_request(_ASKER))

    async def over(self, within: float = DEADLINE) -> Run:
        """Wait until every service has left in order; return what was recorded."""
        async with asyncio.timeout(within):
            assert set(await asyncio.gather(*self.tasks)) == {0}
        return Run.open(self.folder)

    async def ends_as_its_simulation(self, folder: Path) -> None:
        """Stop the game; require that it was played to the bits of its simulation, which goes to `folder`."""
        await self.goes_on()
        await self.stop()
        run = await self.over()
        assert digest(run) == reference(run.spec, folder)

    async def hosts(self) -> list[HostStatus]:
        """Return the hosts in the order of their seats: each opens gossip streams to those after it."""
        status = await self.until(lambda status: status.phase != "gathering")
        return [each for each in status.hosts if each.seats]

    async def insider(self, holder: str, server: str, *, incarnation: int = 1) -> "Insider":
        """Return what one process of the game knows that talks to another."""
        status = await self.until(lambda status: status.phase != "gathering")
        addresses = {each.name: each.address for each in status.hosts} | {"coordinator": self.address}
        seats, first = np.empty(0, np.intp), 0
        for each in status.hosts:
            if each.name == holder:
                seats = np.arange(first, first + each.seats)
            first += each.seats
        return Insider(self.run, holder, server, addresses[server], incarnation, seats)


@dataclass(frozen=True)
class Insider:
    """A process of the game on its way to a server, with all that it needs to be believed."""

    run: str
    holder: str
    server: str
    address: str
    incarnation: int
    seats: Agents

    def head(self, round: int = 0, *, run: str = "", epoch: int = 1, sender: str = "") -> Head:
        """Return the head of a message; what is given stands in place of the truth."""
        return Head(run or self.run, epoch, round, sender or self.holder)

    def opening(self, *, incarnation: int = 0, ticket: bytes = b"", server: str = "") -> Opening:
        """Return an opening; what is given stands in place of the truth."""
        number = incarnation or self.incarnation
        true = identity.ticket(SECRET, self.holder, number, server or self.server)
        return Opening(number, ticket or true)


Body = ControlUp | Gossip | RevealUp


@dataclass(frozen=True)
class Door:
    """Where a host's stream enters a server."""

    method: str
    encode: Callable[[Head, Body], bytes]
    find: Callable[[Game], Awaitable[Insider]]


async def _at_the_coordinator(game: Game) -> Insider:
    return await game.insider((await game.hosts())[0].name, "coordinator", incarnation=2)


async def _at_the_adversary(game: Game) -> Insider:
    await game.until(lambda status: status.round > 0)  # then it knows its hosts
    return await game.insider((await game.hosts())[0].name, "adversary", incarnation=2)


async def _at_a_host(game: Game) -> Insider:
    await game.until(lambda status: status.round > 0)  # then it has its seats
    first, *_, last = await game.hosts()
    return await game.insider(first.name, last.name, incarnation=2)


CONTROL = Door("/slaternet.v1.Coordinator/Control", codec.encode_control_up, _at_the_coordinator)  # type: ignore[arg-type]
REVEAL = Door(
    "/slaternet.v1.Adversary/Reveal",
    lambda head, body: codec.encode_reveal_up(head, body)[0],  # type: ignore[arg-type]
    _at_the_adversary,
)
GOSSIP = Door(
    "/slaternet.v1.Agent/Gossip",
    lambda head, body: codec.encode_gossip(head, body)[0],  # type: ignore[arg-type]
    _at_a_host,
)


class _Service(Protocol):
    async def run(self, stop: asyncio.Event) -> int:
        """Live until the game is over or `stop` is set."""


class Gathering:
    """The services of a game that has not begun."""

    def __init__(self, ending: asyncio.Event) -> None:
        self.address = ""
        self.tasks: list[asyncio.Task[int]] = []
        self._ending = ending

    def start(self, service: _Service) -> None:
        """Start one more."""
        self.tasks.append(asyncio.create_task(service.run(self._ending)))


class _Known(SystemRandom):
    """Chance whose first secret is SECRET."""

    def __init__(self) -> None:
        self._known = [SECRET]

    def randbytes(self, n: int) -> bytes:
        return self._known.pop() if self._known else super().randbytes(n)


@asynccontextmanager
async def gathering(
    spec: Spec,
    *,
    hosts: int | None,
    tls: Path | None = None,
    limits: Limits = LIMITS,
    policy: Policy = Policy.WAIT,
    lost_after: float = LOST_AFTER,
) -> AsyncIterator[Gathering]:
    """Start a coordinator; whatever is left of its game ends with the block."""
    ending, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    gathered = Gathering(ending)
    environment = Environment(random=_Known(), limits=limits)
    config = ProcessConfig("coordinator", listen=LOOPBACK, tls=tls, environment=environment)
    service = CoordinatorService(
        spec, config, hosts=hosts, ready=ready.set_result, policy=policy, lost_after=lost_after
    )
    gathered.start(service)
    try:
        gathered.address = await asyncio.wait_for(ready, DEADLINE)
        yield gathered
    finally:
        ending.set()
        await asyncio.gather(*gathered.tasks, return_exceptions=True)


@asynccontextmanager
async def playing(spec: Spec, folder: Path, *, hosts: int, tls: Path | None = None) -> AsyncIterator[Game]:
    """Start every service of a game, with certificates where their folder is given.

    Each host has joined once before, in vain: those who play are incarnations 2, and tickets of the first are stale.
    """
    names = [f"agent-{number}" for number in range(1, hosts + 1)]
    async with gathering(spec, hosts=hosts, tls=tls) as gathered:
        address = gathered.address
        for name in names:
            applicant = Applicant(name, Role.HOST, "127.0.0.1:1")
            stale = await Membership.join(address, applicant, security=_secured(tls, name))
            gathered.start(HostService(ProcessConfig(name, address, LOOPBACK, tls=tls)))
        game = Game(address, folder, gathered.tasks, stale.run, _secured(tls, "operator"))
        # the game begins when the adversary is there: not before each host has its second incarnation
        await game.until(lambda status: all(each.connected for each in status.hosts))
        gathered.start(AdversaryService(ProcessConfig("adversary", address, LOOPBACK, tls=tls), folder))
        yield game


def _secured(tls: Path | None, name: str) -> Security:
    return LOOPBACK_ONLY if tls is None else read(tls, name)
