"""The state of a game, which only the coordinator's engine changes, and the frozen view that others get of it.

gathering   processes join; the adversary describes its plugin; when all have joined, hosts get their seats
playing     W_t is published up to min(slowest host, last scored round, M + 2C) + L
stopping    nothing more is published; hosts report how far they are; the last round S is fixed and sent
over        every host has played the last round and the summary is written; all acknowledge and leave
failed      a process has reported that it cannot go on
"""

from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from slaternet.attendance import Attendance
from slaternet.limits import Limits
from slaternet.model import Progress, Role, Seating, Standby
from slaternet_coordinator.engine.publication import Publication
from slaternet_coordinator.engine.roster import Member, Roster
from slaternet_coordinator.engine.rules import Policy, Rules
from slaternet_coordinator.engine.saved import SavedGame
from slaternet_coordinator.graphs import Graph


class Phase(StrEnum):
    """The phase of a game."""

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
        """Whether no more rounds are played, after success or failure."""
        return self in (Phase.OVER, Phase.FAILED)


class GameView(NamedTuple):
    """The game at one moment; made after every event."""

    phase: Phase
    scored: int  # the last round scored
    published: int  # the last round whose topology is published
    low_water: int  # M, as it was last announced: no host asks again for what came before it
    last: int | None  # the last round of the game; None while a game without end goes on
    settled: int | None  # the last round, once it cannot change; None while the game may still be stopped
    epoch: int  # how many seatings there have been
    departed: bool  # whether agents have departed that the spec does not let depart
    disturbed: bool  # whether some decisions do not follow from the rules
    failure: str
    missing: str  # what must still arrive before the game can begin; empty once it has begun


class GameState:
    """Everything that changes in a game."""

    def __init__(self, graph: Graph, rules: Rules, secret: bytes, limits: Limits) -> None:
        self.rules = rules
        self.roster = Roster(rules, secret, limits)
        self.publication = Publication(graph, rules.agents, limits, remembers=rules.remembers)
        self.publication.depart(rules.departures)
        self.phase = Phase.GATHERING
        self.failure = ""
        self.score = Progress(0)
        self.last = rules.rounds
        self.stopped = False  # a stop has fixed the last round
        self.epoch = 0
        self.departures = rules.departures
        self.disturbed = False
        self.departed = False

    @property
    def settled(self) -> int | None:
        """The last round, once it cannot change."""
        return self.last if self.stopped or self.phase is Phase.OVER else None

    def seating(self, member: Member) -> Seating | Standby:
        """Return what a process must know of the others and of the game, or that there is no seat for it."""
        if not member.plays:
            return Standby()
        peers = tuple(self.roster.peer(host, member) for host in self.roster.players if host is not member)
        adversary, description = None, None
        if member.role is Role.HOST and self.roster.adversary is not None:
            adversary = self.roster.peer(self.roster.adversary, member)
            if self.roster.description is not None:
                description = replace(self.roster.description, code="")  # its hash would tell a host which code it is
        recall, low_water = self.rules.policy is not Policy.WAIT, self.publication.low_water
        return Seating(member.seats, peers, adversary, description, self.departures, low_water, recall)

    def saved(self) -> SavedGame:
        """Return what must survive a restart of the coordinator."""
        return SavedGame(
            phase=self.phase,
            published=self.publication.last,
            low_water=self.publication.low_water,
            settled=self.last if self.stopped else None,
            failure=self.failure,
            description=None if self.phase is Phase.GATHERING else self.roster.description,
            epoch=self.epoch,
            departures=self.departures,
            disturbed=self.disturbed,
            members=tuple(member.entry for member in self.roster),
        )

    def restore(self, saved: SavedGame, secret: bytes) -> None:
        """Restore the state that an older incarnation of the coordinator has stored."""
        self.phase = Phase(saved.phase)
        self.publication.last, self.publication.low_water = saved.published, saved.low_water
        if saved.settled is not None:
            self.last, self.stopped = saved.settled, True
        self.failure = saved.failure
        self.disturbed = saved.disturbed
        self.roster.description = saved.description
        if saved.epoch:
            self.epoch, self.departures = saved.epoch, saved.departures
            self.publication.depart(saved.departures)
            planned, actual = (
                Attendance(self.rules.agents, each) for each in (self.rules.departures, saved.departures)
            )
            self.departed = not np.array_equal(planned.ends, actual.ends)
        self.roster.restore(secret, saved.members, begun=saved.epoch > 0)

    def view(self) -> GameView:
        """Return the game as it is now."""
        return GameView(
            phase=self.phase,
            scored=self.score.round,
            published=self.publication.last,
            low_water=self.publication.low_water,
            last=self.last,
            settled=self.settled,
            epoch=self.epoch,
            departed=self.departed,
            disturbed=self.disturbed,
            failure=self.failure,
            missing=self.roster.missing() if self.phase is Phase.GATHERING else "",
        )
