"""The gRPC face of an agent host, and its life: find the coordinator, serve, join, play, leave."""

import asyncio

import structlog

from slaternet.errors import NotSeated
from slaternet.limits import LIMITS
from slaternet.link import Link
from slaternet.membership import Applicant, Membership, find, reachable
from slaternet.model import Role
from slaternet.process import interruptible
from slaternet.transport import serve
from slaternet_agent.runtime import Player

log = structlog.get_logger()


class HostService:
    """One agent host."""

    def __init__(self, coordinator: str, name: str, *, listen: str, advertise: str = "", seats: int = 0) -> None:
        self._coordinator = coordinator
        self._name = name
        self._listen = listen
        self._advertise = advertise
        self._seats = seats
        self._player: Player | None = None

    async def run(self, stop: asyncio.Event) -> int:
        """Live until the game is over or `stop` is set; return the exit code."""
        return await interruptible(self._live(), stop, lambda: f"{self._name} leaves in round {self._round}")

    @property
    def _round(self) -> int:
        return self._player.round if self._player else 0

    async def _live(self) -> None:
        status = await find(self._coordinator, self._name)
        server = await serve(
            self._listen,
            service="slaternet.v1.Agent",
            unary={},
            streams={"Gossip": self._gossip},
            hosts=min(status.agents, LIMITS.hosts),
        )
        try:
            address = self._advertise or reachable(server.address, self._coordinator)
            log.info("listening", address=server.address)
            applicant = Applicant(self._name, Role.HOST, address, self._seats)
            self._player = Player(await Membership.join(self._coordinator, applicant, server.breaches))
            await self._player.play()
            log.info("the game is over")
        finally:
            await server.stop()

    async def _gossip(self, link: Link) -> None:
        if self._player is None:
            raise NotSeated("this host has not joined yet")
        await self._player.accept(link)
