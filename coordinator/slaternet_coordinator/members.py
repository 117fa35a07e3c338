"""A process of a game, as the coordinator knows it."""

from dataclasses import dataclass, field

import numpy as np

from slaternet.model import Agents, Breach, Role
from slaternet.seats import Wish
from slaternet_coordinator.memory import Entry


def no_seats() -> Agents:
    """Return the seats of one who has none."""
    return np.empty(0, dtype=np.intp)


@dataclass(slots=True, eq=False)
class Member:
    """A process of the game, as the coordinator knows it."""

    name: str
    role: Role
    address: str
    wish: Wish
    incarnation: int
    durable: bool = False  # it can come back after its death
    connected: bool = False
    gone: bool = False  # it was connected, and is no more
    lost: bool = False  # given up: it is never let in again
    seats: Agents = field(default_factory=no_seats)
    round: int = 0  # finished; of the adversary: scored
    mark: int = 0  # the round of its newest checkpoint
    reached: int = 0  # nobody in its seats has entered a round beyond this one before
    waits_in: int = 0  # the round that it cannot play yet
    waits_for: tuple[str, ...] = ()
    holding: int | None = None  # its answer to Hold
    finished: bool = False
    acknowledged: bool = False
    refused: tuple[Breach, ...] = ()  # at its own server

    @property
    def plays(self) -> bool:
        """Whether the game needs it; once the seats are shared out, a host without one is a spare."""
        return self.role is Role.ADVERSARY or bool(self.seats.size)

    @property
    def entry(self) -> Entry:
        """What must be remembered of it."""
        return Entry(
            self.name,
            self.role,
            self.address,
            self.incarnation,
            self.durable,
            self.wish,
            self.seats,
            self.mark,
            self.reached,
            self.acknowledged,
            self.lost,
        )

    def go_back(self, mark: int, reached: int) -> None:
        """Take down that a host plays again from a mark, up to a round that was entered before."""
        self.round = self.mark = mark
        self.reached = max(self.reached, reached)
        self.waits_in, self.waits_for, self.holding, self.finished = 0, (), None, False
