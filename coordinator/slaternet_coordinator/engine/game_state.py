"""The state of a game, which the coordinator's engine alone changes, and the frozen views that others get of it.

gathering   processes join; the adversary describes its plugin; hosts are seated when all are there
playing     W_t is published up to min(slowest host, last scored round, M + 2C) + L
stopping    nothing more is published; hosts say how far they are; the last round S is settled and told
over        every host has played the last round and the summary is written; all acknowledge and leave
failed      a process said that it cannot go on
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from slaternet.attendance import Attendance
from slaternet.limits import Limits
from slaternet.model import Departure, Progress
from slaternet_coordinator.engine.publication import Publication
from slaternet_coordinator.engine.roster import Roster
from slaternet_coordinator.engine.rules import Rules
from slaternet_coordinator.engine.saved import SavedGame
from slaternet_coordinator.graphs import Graph


class Phase(StrEnum):
    """Where the game stands."""

    GATHERING = "gathering"
    PLAYING = "playing"
    STOPPING = "stopping"
    OVER = "over"
    FAILED = "failed"

    @property
    def under_way(self) -> bool:
        """Whether rounds are played."""
        return self in (Phase.PLAYING, Phase.STOPPING)

    @property
    def ended(self) -> bool:
        """Whether nothing is played any more, however it went."""
        return self in (Phase.OVER, Phase.FAILED)


@dataclass(frozen=True, slots=True)
class GameView:
    """The game at one moment."""

    phase: Phase
    scored: int
    """The last round scored."""
    published: int
    """The last round whose topology is published."""
    low_water: int
    """M, as it was last announced: nobody asks again for what came before it."""
    last: int | None
    """The last round of the game; None while a game without end goes on."""
    settled: int | None
    """The last round, once it can no longer change; None while the game may still be stopped."""
    epoch: int
    """How many seatings there have been."""
    departures: tuple[Departure, ...]
    """Which agents leave before the end, in ascending rounds."""
    departed: bool
    """Whether agents have left that were to play on."""
    failure: str
    missing: str
    """Who must still come before the game can begin; empty once it has begun."""


class GameState:
    """All that changes in a game."""

    def __init__(self, graph: Graph, rules: Rules, secret: bytes, limits: Limits) -> None:
        self.rules = rules
        self.register = Roster(rules, secret, limits)
        self.publication = Publication(graph, rules.agents, limits)
        self.publication.depart(rules.departures)
        self.phase = Phase.GATHERING
        self.failure = ""
        self.score = Progress(0)
        self.last = rules.rounds
        self.stopped = False  # the last round was settled by a stop
        self.epoch = 0
        self.departures = rules.departures
        self.departed = False

    @property
    def settled(self) -> int | None:
        """The last round, once it can no longer change."""
        return self.last if self.stopped or self.phase is Phase.OVER else None

    def memory(self) -> SavedGame:
        """Return what must survive the coordinator."""
        return SavedGame(
            phase=self.phase,
            published=self.publication.last,
            low_water=self.publication.low_water,
            settled=self.last if self.stopped else None,
            failure=self.failure,
            description=None if self.phase is Phase.GATHERING else self.register.description,
            epoch=self.epoch,
            departures=self.departures,
            members=tuple(member.entry for member in self.register),
        )

    def restore(self, memory: SavedGame, secret: bytes) -> None:
        """Restore the state that an older incarnation of the coordinator has stored."""
        self.phase = Phase(memory.phase)
        self.publication.last, self.publication.low_water = memory.published, memory.low_water
        if memory.settled is not None:
            self.last, self.stopped = memory.settled, True
        self.failure = memory.failure
        self.register.description = memory.description
        if memory.epoch:
            self.epoch, self.departures = memory.epoch, memory.departures
            self.publication.depart(memory.departures)
            planned, settled = (
                Attendance(self.rules.agents, each) for each in (self.rules.departures, memory.departures)
            )
            self.departed = not np.array_equal(planned.ends, settled.ends)
        self.register.restore(secret, memory.members, begun=memory.epoch > 0)

    def view(self) -> GameView:
        """Return how the game stands now."""
        return GameView(
            phase=self.phase,
            scored=self.score.round,
            published=self.publication.last,
            low_water=self.publication.low_water,
            last=self.last,
            settled=self.settled,
            epoch=self.epoch,
            departures=self.departures,
            departed=self.departed,
            failure=self.failure,
            missing=self.register.missing() if self.phase is Phase.GATHERING else "",
        )
