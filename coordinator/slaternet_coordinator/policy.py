"""What becomes of the agents of a host that never comes back."""

from enum import StrEnum


class Policy(StrEnum):
    """What becomes of the agents of a host that never comes back."""

    WAIT = "wait"
    REPLACE = "replace"
    LEAVE = "leave"


LOST_AFTER = 60.0
"""For how many seconds a host may be away before it is lost, unless it is waited for."""
