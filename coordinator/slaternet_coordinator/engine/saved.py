"""What a coordinator stores of a game, to continue it after a restart; the processes send the rest again."""

from dataclasses import dataclass, field

import numpy as np

from slaternet.model import Agents, Departure, Description, Role
from slaternet.spec.seat_request import EVEN, SeatRequest


@dataclass(slots=True, eq=False)
class SavedMember:
    """One process of the game."""

    name: str
    role: Role
    address: str
    incarnation: int
    durable: bool = False  # it can restart from its state
    wish: SeatRequest = EVEN
    seats: Agents = field(default_factory=lambda: np.empty(0, np.intp))
    mark: int = 0  # the round of its newest checkpoint that counts
    reached: int = 0  # no host has entered a later round in its seats
    acknowledged: bool = False  # it has received the end of the game, and has left
    lost: bool = False  # it was given up, and is never admitted again
    shut_out: str = ""  # why its part has ended; empty: it has not; the next incarnation begins without


@dataclass(frozen=True, slots=True)
class SavedGame:
    """The game and its processes."""

    phase: str = "gathering"
    published: int = 0  # the last round whose topology is published
    low_water: int = 0  # M, which only grows
    settled: int | None = None  # the last round, where a stop has fixed it
    failure: str = ""
    description: Description | None = None  # of the adversary's plugin; None before the game has begun
    epoch: int = 0  # how many seatings there have been
    departures: tuple[Departure, ...] = ()  # which agents leave before the end, in ascending rounds
    disturbed: bool = False  # some decisions do not follow from the rules
    members: tuple[SavedMember, ...] = ()  # the processes that have joined, in the order of joining
