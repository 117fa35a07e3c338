"""What a coordinator must remember to go on after its death: how the game stands, and who plays it.

All else is said again by the processes themselves once they are back on their streams.
"""

from dataclasses import dataclass, field

import numpy as np

from slaternet.model import Agents, Departure, Description, Role
from slaternet.spec.seat_request import EVEN, SeatRequest


@dataclass(frozen=True, slots=True, eq=False)
class SavedMember:
    """One process of the game."""

    name: str
    role: Role
    address: str
    incarnation: int
    durable: bool = False
    wish: SeatRequest = EVEN
    seats: Agents = field(default_factory=lambda: np.empty(0, np.intp))
    mark: int = 0
    """The round of its newest checkpoint that counts."""
    reached: int = 0
    """Nobody in its seats has entered a round beyond this one before."""
    acknowledged: bool = False
    """It knows that the game is over, and has left."""
    lost: bool = False
    """It was given up, and is never let in again."""


@dataclass(frozen=True, slots=True)
class SavedGame:
    """How the game stands."""

    phase: str = "gathering"
    published: int = 0
    """The last round whose topology is published."""
    low_water: int = 0
    """M, which only grows."""
    settled: int | None = None
    """The last round, where a stop has settled it."""
    failure: str = ""
    description: Description | None = None
    """What the adversary's plugin is; None before the game has begun."""
    epoch: int = 0
    """How many seatings there have been."""
    departures: tuple[Departure, ...] = ()
    """Which agents leave before the end, in ascending rounds."""
    members: tuple[SavedMember, ...] = ()
    """The processes that have joined, in the order of joining."""
