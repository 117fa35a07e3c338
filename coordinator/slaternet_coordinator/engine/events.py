"""The events that a coordinator's engine handles, and the effects that it asks its shell for."""

from dataclasses import dataclass

from slaternet.model import (
    Accusation,
    Acknowledged,
    Checkpointed,
    ControlDown,
    Description,
    Dispute,
    DisputedRows,
    Disturbed,
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


_Played = Progress | Checkpointed | Waiting | Holding | Finished
_Complaint = Accusation | Dispute | DisputedRows | Disturbed
MemberMessage = Description | _Played | _Complaint | Failed | Acknowledged | Refusals


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


@dataclass(frozen=True, slots=True)
class JudgeExpired:
    """The time to rebuild disputed rows is over."""

    dispute: int
    judge: str


Event = Joined | Opened | StreamClosed | Said | Lost | StopAsked | HoldExpired | Quiet | JudgeExpired


@dataclass(frozen=True, slots=True)
class Admit:
    """Answer a join, and end the control stream of an older incarnation."""

    incarnation: int
    ticket: bytes
    spec_tag: str
    description: Description | None = None  # to an adversary that comes back: of its plugin


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
    """Report an incident to the operator."""

    process: str  # whom it is about
    kind: str
    sentence: str
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Dismiss:
    """End the control stream of a process that is shut out, after what was told to it."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Handle an event after a delay."""

    seconds: float
    event: HoldExpired | Quiet | JudgeExpired


@dataclass(frozen=True, slots=True)
class Leave:
    """End the coordinator: every process has acknowledged the end of the game."""


Effect = Admit | Keep | Tell | Announce | Dismiss | SetTimer | Leave
