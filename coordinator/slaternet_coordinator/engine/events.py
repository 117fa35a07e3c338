"""The events that a coordinator's engine handles, and the effects that it asks its shell for."""

from dataclasses import dataclass

from slaternet.model import (
    Acknowledged,
    Checkpointed,
    ControlDown,
    Description,
    Failed,
    Finished,
    Holding,
    Join,
    Opening,
    Progress,
    Refusals,
    Waiting,
)
from slaternet_coordinator.engine.saved import SavedGame


@dataclass(frozen=True, slots=True)
class Joined:
    """A process asks to join."""

    name: str
    join: Join


@dataclass(frozen=True, slots=True)
class Opened:
    """A process opens its control stream."""

    name: str
    opening: Opening
    stale: bool = False  # it has not received the newest seating


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """The control stream of a process has ended."""

    name: str


MemberMessage = Description | Progress | Checkpointed | Waiting | Holding | Finished | Failed | Acknowledged | Refusals


@dataclass(frozen=True, slots=True)
class Said:
    """A message has arrived on the control stream of a process."""

    name: str
    body: MemberMessage
    stale: bool = False  # it was sent before the newest seating was received


@dataclass(frozen=True, slots=True)
class Lost:
    """A process has been away for longer than the operator allows."""

    name: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The operator ends the game."""


@dataclass(frozen=True, slots=True)
class HoldExpired:
    """The time to answer Hold is over."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """The gathering period has ended without a new host after arrival number `arrivals`."""

    arrivals: int


Event = Joined | Opened | StreamClosed | Said | Lost | StopAsked | HoldExpired | Quiet


@dataclass(frozen=True, slots=True)
class Admit:
    """Answer a join, and end the control stream of an older incarnation."""

    incarnation: int
    ticket: bytes


@dataclass(frozen=True, slots=True)
class Keep:
    """Store the game; the effects that follow must not be seen before that is done."""

    saved: SavedGame


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message on a process's control stream; without one it is dropped, and sent again when one opens."""

    name: str
    body: ControlDown


@dataclass(frozen=True, slots=True)
class Announce:
    """Report something to the operator."""

    what: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Handle an event after a delay."""

    seconds: float
    event: HoldExpired | Quiet


@dataclass(frozen=True, slots=True)
class Leave:
    """End the coordinator: every process has acknowledged the end of the game."""


Effect = Admit | Keep | Tell | Announce | SetTimer | Leave
