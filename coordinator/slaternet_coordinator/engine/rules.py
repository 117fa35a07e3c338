"""What is fixed about a game before any process joins it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # commands import this, and no numpy
    from slaternet.model import Departure


class Policy(StrEnum):
    """What happens to the agents of a host that does not return."""

    WAIT = "wait"
    REPLACE = "replace"
    LEAVE = "leave"


LOST_AFTER = 60.0
"""Seconds that a host may be away before it is lost, unless the policy is to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is fixed about a game before any process joins it."""

    agents: int
    hosts: int | None  # how many agent hosts get seats; None: those that have joined when no further one joins
    rounds: int | None  # the last round; None: the game goes on until it is stopped
    fingerprint: str = ""  # of the coordinator's numerics; compared at joining where the game is `reproducible`
    reproducible: bool = True
    spec: str = ""  # SHA-256 of the spec
    sealed: bool = False  # hosts do not know the seed of the functions
    policy: Policy = Policy.WAIT
    departures: "tuple[Departure, ...]" = ()  # the departures that the spec plans
    remembers: bool = False  # the gossip code does: a row goes in every round to all hosts that may ever mix it
    together: bool = False  # all agents are one learner, and each host has a replica of it
