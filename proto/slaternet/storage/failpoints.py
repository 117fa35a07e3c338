"""Failpoints: places in the code where a test can kill the process, around every step that must survive a crash.

SLATERNET_FAILPOINT=agent_before_query:kill@3 kills the process when it reaches that place for the third time, as
`kill -9` would; without @3, the first time. The variable is read once, when this module is imported.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from slaternet.errors import BadSpec
from slaternet.suggestions import suggestion

VARIABLE = "SLATERNET_FAILPOINT"

Name = Literal[
    "agent_before_query",
    "agent_after_reply",  # and before it is used
    "agent_after_checkpoint_write",  # and before it has its final name
    "agent_after_checkpoint_sync",  # and before it is reported
    "agent_during_recovery",
    "adversary_before_play",
    "adversary_after_play",  # and before anything of the round is revealed
    "adversary_after_grant",  # journalled, and not yet answered
    "adversary_after_answer",
    "adversary_during_evaluation",  # in the plugin's worker
    "coordinator_before_round",
    "coordinator_after_round",  # journalled, and not yet announced
    "coordinator_after_last_report",  # and before the game is closed
    "coordinator_during_recovery",
    "coordinator_during_join",
]
NAMES: tuple[Name, ...] = get_args(Name)
"""All failpoints."""


@dataclass(slots=True)
class Failpoint:
    """One place, and how many times it must still be reached."""

    name: str
    left: int = 1

    def reach(self, name: str) -> None:
        """Kill this process at its place, when the count has run down."""
        if name != self.name:
            return
        self.left -= 1
        if self.left == 0:
            os.write(2, f"failpoint {name}: killed\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)
            os._exit(128 + signal.SIGKILL)  # process 1 of a container ignores its own signals


def parse(text: str) -> Failpoint | None:
    """Return the failpoint that a value of the variable names; None where it is empty, BadSpec where it is wrong."""
    if not text:
        return None
    name, _, action = text.partition(":")
    if name not in NAMES:
        raise BadSpec(f"{VARIABLE} names {name}, which is no failpoint; {suggestion(name, NAMES)}")
    verb, at, count = action.partition("@")
    if verb != "kill" or (at and not (count.isascii() and count.isdigit() and int(count) > 0)):
        raise BadSpec(f"{VARIABLE}={text} is not understood; write {name}:kill, or {name}:kill@3 for the third time")
    return Failpoint(name, int(count or 1))


def check() -> None:
    """Refuse a wrong value of the variable; every process calls this first."""
    parse(os.environ.get(VARIABLE, ""))


def _armed() -> Callable[[str], None] | None:
    try:
        failpoint = parse(os.environ.get(VARIABLE, ""))
    except BadSpec:  # an import must not raise: check() does
        return None
    return failpoint.reach if failpoint is not None else None


_reached = _armed()


def arm(reached: Callable[[str], None] | None) -> None:
    """Call `reached` with the name of each place reached, whatever the variable says; None disarms."""
    global _reached  # one per process, like the variable
    _reached = reached


def failpoint(name: Name) -> None:
    """Mark a place in the code that a test may kill the process at."""
    if _reached is not None:
        _reached(name)
