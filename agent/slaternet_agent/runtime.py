"""A host in a game: hears the coordinator, and takes its place anew with every seating."""

import asyncio
from collections.abc import Awaitable, Iterator

import structlog

from slaternet.checkpoints import Checkpoints
from slaternet.errors import Malformed, NotSeated, SlaternetError
from slaternet.link import Link
from slaternet.membership import Membership
from slaternet.metrics import Reading
from slaternet.model import ControlDown, Hold, Over, Seating, Spare, StopAt, Topology
from slaternet_agent.engine import Host
from slaternet_agent.keeper import Keeper
from slaternet_agent.metrics import ROUNDS, SEATS, readings
from slaternet_agent.place import Place
from slaternet_agent.tally import Tally

log = structlog.get_logger()


class Player:
    """A host in a game it has joined, or come back to; with checkpoints it can come back."""

    def __init__(self, membership: Membership, checkpoints: Checkpoints | None = None) -> None:
        self._membership = membership
        membership.listen(self._hear, opened=self._wait_aloud, have=self._have)
        self._keeper: Keeper | None = None
        if checkpoints is not None:
            self._keeper = Keeper(checkpoints, kept=membership.keep, failed=membership.abandon)
        self._tasks: asyncio.TaskGroup | None = None
        self._place: Place | None = None
        self._epoch = 0
        self._stands_by = False
        streams = map(membership.meter.of, ("control", "gossip", "reveal"))
        self.tally = Tally(streams, membership.environment.clock)

    @property
    def run(self) -> str:
        """The id of the game."""
        return self._membership.run

    @property
    def _host(self) -> Host | None:
        return self._place.host if self._place is not None else None

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
        """How many agents sit here; 0 before the seating, and of a spare."""
        return self._host.seats if self._host else 0

    def readings(self) -> Iterator[Reading]:
        """Read what this host counts, from whatever thread."""
        yield ROUNDS.reads(max(self.round - 1, 0))
        yield SEATS.reads(self.seats)
        place = self._place
        peers, reveal = (place.peers, place.reveal.line) if place is not None else (None, None)
        yield from readings(self._membership, self.tally, peers, reveal)

    async def play(self) -> None:
        """Play until the game is over."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._membership.attend()
        except* SlaternetError as failed:
            raise failed.exceptions[0] from None
        finally:
            if self._place is not None:
                self._place.hang_up()
            if self._keeper is not None:
                await self._keeper.close()

    def accept(self, link: Link) -> Awaitable[None]:
        """Serve a gossip stream that a peer opens."""
        if self._place is None:
            raise NotSeated("this host has no seats yet")
        return self._place.accept(link)

    def _hear(self, body: ControlDown) -> None:
        if self._membership.failed and not isinstance(body, Over):
            return
        match body:
            case Seating():
                self._take_seating(body)
            case Topology() | Hold() | StopAt():
                if self._place is None:
                    raise NotSeated("this host has no seats yet")
                self._place.obey(body)
            case Spare():
                self._stand_by()
            case Over():
                if self._place is not None:
                    self._place.hang_up()
            case _:
                raise Malformed("the coordinator says to a host what is not meant for hosts")

    def _have(self) -> int:
        """Return up to which round the topology is known, or of no use."""
        return self._place.have if self._place is not None else self._membership.low_water

    def _take_seating(self, seating: Seating) -> None:
        """Sit down, or hear who has come back since."""
        if self._tasks is None:
            raise NotSeated("this host does not play yet")
        if self._place is not None and self._epoch == self._membership.epoch:
            self._place.update(seating)
            return
        if self._place is not None:
            log.info("there is a new seating", after=seating.low_water)
            self._place.leave()
        self._epoch = self._membership.epoch
        self._place = Place(self._membership, seating, keeper=self._keeper, tally=self.tally, tasks=self._tasks)

    def _stand_by(self) -> None:
        if not self._stands_by:
            log.info("every seat is taken; staying as a spare until the game is over")
        self._stands_by = True

    def _wait_aloud(self) -> None:
        if self._place is not None:
            self._place.wait_aloud()
