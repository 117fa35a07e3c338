"""The process of an agent host: find the coordinator, serve, join, play one seating after another, leave."""

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import replace

import structlog

from slaternet.errors import BadSpec, Malformed, NotSeated, SlaternetError
from slaternet.model import (
    ControlDown,
    DisputedRows,
    GameOver,
    Hold,
    Role,
    RowRequest,
    Seating,
    Standby,
    StopAt,
    Topology,
)
from slaternet.network.certificates import RESERVED
from slaternet.network.stream import Stream
from slaternet.network.traffic import Meter
from slaternet.service import metrics
from slaternet.service.config import ProcessConfig
from slaternet.service.join import join_game
from slaternet.service.logs import annotate
from slaternet.service.main import interruptible
from slaternet.service.membership import Membership
from slaternet.service.metrics import Reading
from slaternet.spec.seat_request import EVEN, SeatRequest
from slaternet.storage.checkpoints import Checkpoints
from slaternet.storage.state_dir import StateDir
from slaternet_agent.engine.host import Host
from slaternet_agent.shell.checkpoint_writer import CheckpointWriter
from slaternet_agent.shell.metering import ROUNDS, SEATS, HostMeter, readings
from slaternet_agent.shell.session import HostSession

log = structlog.get_logger()


class AgentHost:
    """A host in a game it has joined, or joined again; with checkpoints it can be restarted."""

    def __init__(self, membership: Membership, checkpoints: Checkpoints | None = None) -> None:
        self._membership = membership
        membership.listen(self._on_control, opened=self._repeat_reports, have=self._have)
        self._writer: CheckpointWriter | None = None
        if checkpoints is not None:
            self._writer = CheckpointWriter(
                checkpoints, kept=membership.report_checkpoint, failed=membership.leave_for_restart
            )
        self._tasks: asyncio.TaskGroup | None = None
        self._session: HostSession | None = None
        self._epoch = 0
        self._stands_by = False
        streams = map(membership.meter.of, ("control", "gossip", "reveal"))
        self.tally = HostMeter(streams, membership.environment.clock)

    @property
    def run(self) -> str:
        """The id of the game."""
        return self._membership.run

    @property
    def _host(self) -> Host | None:
        return self._session.host if self._session is not None else None

    @property
    def round(self) -> int:
        """The round being played; 0 before the seating."""
        return self._host.round if self._host else 0

    @property
    def finished(self) -> bool:
        """Whether the last round has been played."""
        return self._host is not None and self._host.finished

    @property
    def seats(self) -> int:
        """The number of agents seated here; 0 before the seating, and of a spare."""
        return self._host.seats if self._host else 0

    def readings(self) -> Iterator[Reading]:
        """Return the metrics of this host, in any thread."""
        yield ROUNDS.reads(max(self.round - 1, 0))
        yield SEATS.reads(self.seats)
        session = self._session
        peers, reveal = (session.peers, session.reveal.line) if session is not None else (None, None)
        yield from readings(self._membership, self.tally, peers, reveal)

    async def play(self) -> None:
        """Play until the game is over."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._membership.attend()
        except* SlaternetError as failed:
            raise failed.exceptions[0] from None
        finally:
            if self._session is not None:
                self._session.close_streams()
            if self._writer is not None:
                await self._writer.close()

    def accept(self, link: Stream) -> Awaitable[None]:
        """Serve a gossip stream that a peer opens."""
        if self._session is None:
            raise NotSeated("this host has no seats yet")
        return self._session.accept(link)

    def _on_control(self, body: ControlDown) -> None:
        if self._membership.failed and not isinstance(body, GameOver):
            return
        match body:
            case Seating():
                self._take_seating(body)
            case Topology() | Hold() | StopAt() | RowRequest() | DisputedRows():
                if self._session is None:
                    raise NotSeated("this host has no seats yet")
                self._session.on_control(body)
            case Standby():
                if not self._stands_by:
                    log.info("every seat is taken; staying as a spare until the game is over")
                self._stands_by = True
            case GameOver():
                if self._session is not None:
                    self._session.close_streams()
            case _:
                raise Malformed("the coordinator has sent a host a message that is not for hosts")

    def _have(self) -> int:
        """Return the last round whose topology is known, or not needed."""
        return self._session.have if self._session is not None else self._membership.low_water

    def _take_seating(self, seating: Seating) -> None:
        """Begin a session; within an epoch, update the one there is."""
        if self._tasks is None:
            raise NotSeated("this host does not play yet")
        if self._session is not None and self._epoch == self._membership.epoch:
            self._session.update(seating)
            return
        if self._session is not None:
            log.info("there is a new seating", after=seating.low_water)
            self._session.leave()
        self._epoch = self._membership.epoch
        self._session = HostSession(self._membership, seating, writer=self._writer, tally=self.tally, tasks=self._tasks)

    def _repeat_reports(self) -> None:
        if self._session is not None:
            self._session.repeat_reports()


class HostService:
    """One agent host."""

    def __init__(self, config: ProcessConfig, *, seats: SeatRequest = EVEN) -> None:
        if config.name in RESERVED:
            raise BadSpec(f"--name {config.name} belongs to another role; choose another, such as agent-1")
        self._config = config
        self._seats = seats
        self._player: AgentHost | None = None
        self._meter = Meter()

    async def run(self, stop: asyncio.Event) -> int:
        """Run until the game is over or `stop` is set; return the exit code."""
        with self._config.claim(Role.HOST) as state:
            if state.finished_notice:
                log.warning(state.finished_notice)
                return 0
            self._config = replace(self._config, name=state.name)
            annotate(
                host=lambda: self._config.name,
                run=lambda: self._player.run if self._player else "",
                round=lambda: self._round,
            )
            return await interruptible(self._play(state), stop, self._parting)

    @property
    def _round(self) -> int:
        return self._player.round - self._player.finished if self._player else 0

    def _parting(self) -> str:
        name = self._config.name
        if self._player is None or not self._player.seats:
            return f"{name} leaves without having had a seat"
        if self._player.finished:
            return f"{name} leaves after its last round"
        return f"{name} leaves in round {self._round}; others will wait for it"

    def _readings(self) -> Iterator[Reading]:
        yield metrics.process_info(Role.HOST, self._config.name)
        if self._player is not None:
            yield from self._player.readings()

    async def _play(self, state: StateDir) -> None:
        coming = join_game(
            self._config,
            Role.HOST,
            service="slaternet.v1.Agent",
            streams={"Gossip": self._gossip},
            meter=self._meter,
            state=state,
            seats=self._seats,
        )
        with metrics.serve(self._config.metrics, self._readings):
            async with coming as membership:
                self._player = AgentHost(membership, _checkpoints(membership, state))
                await self._player.play()
                log.info("the game is over")

    def _gossip(self, link: Stream) -> Awaitable[None]:
        if self._player is None:
            raise NotSeated("this host has not joined yet")
        return self._player.accept(link)


def _checkpoints(membership: Membership, state: StateDir) -> Checkpoints | None:
    """Return the checkpoints of the host; None where it keeps no state."""
    if state.checkpoints is None:
        return None
    return Checkpoints(state.checkpoints, state.name, membership.run, membership.spec_tag, membership.environment.disk)
