"""What is known of a game from outside: its processes, what was refused, incidents, and how far it is."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a process is in the game."""

    HOST = "host"
    ADVERSARY = "adversary"


@dataclass(frozen=True, slots=True)
class Refusal:
    """How often a server has refused messages of one kind from one host."""

    kind: str  # the class of the error
    host: str  # empty: the caller was not identified
    count: int
    server: str = ""  # that refused them; empty in its own report


@dataclass(frozen=True, slots=True)
class Refusals:
    """Everything that the sender has refused so far."""

    breaches: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class HostStatus:
    """One process of the game."""

    name: str
    address: str
    seats: int
    round: int
    connected: bool
    role: Role = Role.HOST
    silent: float = 0.0  # seconds since its last message
    waits_for: tuple[str, ...] = ()
    spare: bool = False
    lost: bool = False  # given up
    shut_out: str = ""  # why its part has ended; empty: it plays


@dataclass(frozen=True, slots=True)
class Incident:
    """Something went wrong that the operator should know."""

    ago: float  # seconds
    what: str


@dataclass(frozen=True, slots=True)
class Status:
    """The status of the game."""

    round: int  # the last round scored
    phase: str
    agents: int
    rounds: int  # 0: until stopped
    published: int
    cumulative_loss: float | None  # None: scores are the operator's, and the caller is another
    cumulative_violation: float | None  # likewise
    hosts: tuple[HostStatus, ...]
    waiting_for: str = ""
    failure: str = ""
    breaches: tuple[Refusal, ...] = ()
    rounds_per_second: float = 0.0
    troubles: tuple[Incident, ...] = ()
    disturbed: bool = False  # some decisions do not follow from the rules
    sealed: bool = False  # hosts do not know the seed of the functions


DISTURBED = "disturbed"
"""The kind of an incident after which the digest need not be that of a simulation."""


@dataclass(frozen=True, slots=True)
class IncidentRecord:
    """One line of incidents.jsonl."""

    round: int  # the last round scored when it happened
    time: float  # seconds since 1970; no two incidents that one coordinator process records have the same
    process: str  # whom it is about
    kind: str
    sentence: str
    evidence: str = ""
