"""What is fixed about a game before any process joins it."""

from dataclasses import dataclass
from enum import StrEnum

from slaternet.model import Departure


class Policy(StrEnum):
    """What becomes of the agents of a host that never comes back."""

    WAIT = "wait"
    REPLACE = "replace"
    LEAVE = "leave"


LOST_AFTER = 60.0
"""For how many seconds a host may be away before it is lost, unless it is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is fixed about a game before any process joins it."""

    agents: int
    hosts: int | None
    """How many agent hosts get seats; None: those that have joined when no further one joins."""
    rounds: int | None
    """The last round; None: the game goes on until it is stopped."""
    fingerprint: str = ""
    """Of the coordinator's numerics; compared at joining where the game is `reproducible`."""
    reproducible: bool = True
    spec: str = ""
    """SHA-256 of the spec."""
    policy: Policy = Policy.WAIT
    departures: tuple[Departure, ...] = ()
    """The departures that the spec plans."""
    together: bool = False
    """All agents are one learner, which each host has a replica of."""
