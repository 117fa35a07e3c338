"""What a process takes from the machine it runs on, so that a test can hand it another machine."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random, SystemRandom

from slaternet.limits import LIMITS, Limits
from slaternet.storage.disk import DISK, Disk


@dataclass(frozen=True, slots=True)
class Environment:
    """The clock, the source of chance, the disk and the limits of one process."""

    clock: Callable[[], float] = time.monotonic
    """Seconds since some moment; it never goes back."""
    random: Random = SystemRandom()  # noqa: RUF009 - it has no state
    """For secrets, names and pauses; nothing of the game itself comes from it."""
    disk: Disk = DISK
    """For everything that must outlive the process."""
    limits: Limits = LIMITS
    """Those that a game may have otherwise: how far it runs ahead, and what is done in one go."""


REAL = Environment()
"""That of every process but those of a test."""
