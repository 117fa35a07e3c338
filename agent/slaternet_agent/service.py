"""The gRPC face of an agent host, and its life: find the coordinator, serve, join, play, leave."""

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import replace

import structlog

from slaternet import metrics
from slaternet.checkpoints import Checkpoints
from slaternet.errors import BadSpec, NotSeated
from slaternet.joining import joined
from slaternet.link import Link
from slaternet.logs import annotate
from slaternet.membership import Membership
from slaternet.meter import Meter
from slaternet.metrics import Reading
from slaternet.model import Role
from slaternet.process import interruptible
from slaternet.seats import EVEN, Wish
from slaternet.state import State
from slaternet.station import Station
from slaternet.tls import RESERVED
from slaternet_agent.runtime import Player

log = structlog.get_logger()


class HostService:
    """One agent host."""

    def __init__(self, station: Station, *, seats: Wish = EVEN) -> None:
        if station.name in RESERVED:
            raise BadSpec(f"--name {station.name} belongs to another role; choose another, such as agent-1")
        self._station = station
        self._seats = seats
        self._player: Player | None = None
        self._meter = Meter()

    async def run(self, stop: asyncio.Event) -> int:
        """Live until the game is over or `stop` is set; return the exit code."""
        with self._station.claim(Role.HOST) as state:
            if state.epitaph:
                log.warning(state.epitaph)
                return 0
            self._station = replace(self._station, name=state.name)
            annotate(host=lambda: self._station.name, run=lambda: self._run, round=lambda: self._round)
            return await interruptible(self._live(state), stop, self._parting)

    @property
    def _run(self) -> str:
        return self._player.run if self._player else ""

    @property
    def _round(self) -> int:
        return self._player.round - self._player.finished if self._player else 0

    def _parting(self) -> str:
        name = self._station.name
        if self._player is None or not self._player.seats:
            return f"{name} leaves without having had a seat"
        if self._player.finished:
            return f"{name} leaves after its last round"
        return f"{name} leaves in round {self._round}; others will wait for it"

    def _readings(self) -> Iterator[Reading]:
        yield metrics.of_process(Role.HOST, self._station.name)
        if self._player is not None:
            yield from self._player.readings()

    async def _live(self, state: State) -> None:
        coming = joined(
            self._station,
            Role.HOST,
            service="slaternet.v1.Agent",
            streams={"Gossip": self._gossip},
            meter=self._meter,
            state=state,
            seats=self._seats,
        )
        with metrics.serve(self._station.metrics, self._readings):
            async with coming as membership:
                self._player = Player(membership, _checkpoints(membership, state))
                await self._player.play()
                log.info("the game is over")

    def _gossip(self, link: Link) -> Awaitable[None]:
        if self._player is None:
            raise NotSeated("this host has not joined yet")
        return self._player.accept(link)


def _checkpoints(membership: Membership, state: State) -> Checkpoints | None:
    """Return where the host keeps what it needs to come back; None where nothing outlives it."""
    if state.checkpoints is None:
        return None
    return Checkpoints(
        state.checkpoints, state.name, membership.run, membership.spec.digest(), membership.environment.disk
    )
