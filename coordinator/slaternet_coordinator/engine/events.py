"""What happens to a coordinator, and what it has done: the events it takes in and the effects it gives out."""

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
    """A process asks for a place."""

    name: str
    join: Join


@dataclass(frozen=True, slots=True)
class Opened:
    """A process opens its control stream."""

    name: str
    opening: Opening
    stale: bool = False
    """It has not heard of the newest seating."""


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """The control stream of a process has ended."""

    name: str


MemberMessage = Description | Progress | Checkpointed | Waiting | Holding | Finished | Failed | Acknowledged | Refusals


@dataclass(frozen=True, slots=True)
class Said:
    """A process says something on its control stream."""

    name: str
    body: MemberMessage
    stale: bool = False
    """It was said before the newest seating was heard."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A process has been away for longer than anyone is waited for."""

    name: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The operator ends the game."""


@dataclass(frozen=True, slots=True)
class HoldExpired:
    """Hosts had their time to answer Hold."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """No host has joined for `gathering_seconds` since the one with this number."""

    arrivals: int


Event = Joined | Opened | StreamClosed | Said | Lost | StopAsked | HoldExpired | Quiet


@dataclass(frozen=True, slots=True)
class Admit:
    """Answer to a join; a control stream of an older incarnation ends."""

    incarnation: int
    ticket: bytes


@dataclass(frozen=True, slots=True)
class Keep:
    """Store how the game stands; nobody may see an effect after it before that is done."""

    memory: SavedGame


@dataclass(frozen=True, slots=True)
class Tell:
    """A message on a process's control stream; lost if there is none, and said again when one opens."""

    name: str
    body: ControlDown


@dataclass(frozen=True, slots=True)
class Announce:
    """Something that the operator must hear of."""

    what: str


@dataclass(frozen=True, slots=True)
class AwaitHolding:
    """Give hosts their time to answer Hold, then say HoldExpired."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Everyone has acknowledged: the coordinator may go."""


@dataclass(frozen=True, slots=True)
class AwaitQuiet:
    """Give further hosts their time to come, then say Quiet with the same number."""

    arrivals: int


Effect = Admit | Keep | Tell | Announce | AwaitHolding | AwaitQuiet | Leave
