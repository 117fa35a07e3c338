"""The clock, randomness, disk and limits of a process, so that a test can replace them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random, SystemRandom

from slaternet.limits import LIMITS, Limits
from slaternet.storage.disk import DISK, Disk


@dataclass(frozen=True, slots=True)
class Environment:
    """The clock, the random source, the disk and the limits of one process."""

    clock: Callable[[], float] = time.monotonic
    """Seconds, monotonic."""
    random: Random = SystemRandom()  # noqa: RUF009 - it has no state
    """For secrets, names and pauses; the game itself does not use it."""
    disk: Disk = DISK
    """For everything that must survive the process."""
    limits: Limits = LIMITS
    """A test may change how far a game runs ahead, and how much is done in one step."""
    now: Callable[[], float] = time.time
    """Seconds since 1970, for records; nothing is decided by it."""


REAL = Environment()
"""The environment of every process outside tests."""
