"""The seats that a host asks for when it joins: a number of agents, certain agents, or an even share.

12              twelve agents, any that are left
0-11    3,7,9   these agents, by their ids; 3-3 is agent 3 alone
(nothing)       an even share of the rest
"""

import itertools
import re
from dataclasses import dataclass, field

import numpy as np

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.model import Agents

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True, eq=False)
class SeatRequest:
    """The seats that a host asks for."""

    count: int = 0
    """How many agents; 0: an even share."""
    agents: Agents = field(default_factory=lambda: np.empty(0, np.intp))
    """Their ids, `count` of them, ascending; none: any agents."""


EVEN = SeatRequest()
"""An even share."""


def parse(text: str) -> SeatRequest:
    """Return the request in the text of --seats; BadSpec where it is none."""
    text = text.strip()
    if not text:
        return EVEN
    if text.isdecimal():
        return SeatRequest(_count(text))
    agents = sorted(agent for piece in text.split(",") for agent in _ids(piece.strip(), text))
    for one, other in itertools.pairwise(agents):
        if one == other:
            raise BadSpec(f"--seats {text[:60]} names agent {one} twice; name every agent once")
    return SeatRequest(len(agents), np.array(agents, dtype=np.intp))


def _count(text: str) -> int:
    # int() takes thousands of digits, and refuses more
    count = int(text) if len(text) <= len(str(LIMITS.agents)) else LIMITS.agents + 1
    if not count:
        raise BadSpec("--seats 0 seats nobody; leave it out for an even share, or say 0-0 for agent 0 alone")
    if count > LIMITS.agents:
        raise BadSpec(f"--seats {text[:20]} is more than the {LIMITS.agents} agents that a game may have; lower it")
    return count


def _ids(piece: str, text: str) -> range:
    match = _RANGE.fullmatch(piece)
    if match is None:
        raise BadSpec(
            f"--seats {text[:60]} is neither a number of agents (12) nor agents by their ids (0-11 or 3,7,9); "
            "correct it, or leave it out for an even share"
        )
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise BadSpec(f"--seats {text[:60]} holds {piece}, which runs backwards; write {last}-{first}")
    if last >= LIMITS.agents:
        raise BadSpec(f"--seats {text[:60]} names agent {last}, but a game has at most {LIMITS.agents}; lower it")
    return range(first, last + 1)
