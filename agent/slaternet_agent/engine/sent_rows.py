"""What a host has sent, from the low-water mark on, so that every frame that a peer lacks can be sent again."""

import numpy as np

from slaternet.model import Agents, Array, CodedFrame, Frame
from slaternet_agent.engine.public_copies import PublicCopies, part


class SentRows:
    """By round the rows that were sent or, in a game with a code, the messages and the public copies made of them."""

    def __init__(self, rule: PublicCopies | None, since: int, copies: Array, place: Agents) -> None:
        self._rule = rule
        self._rows = {since: (copies, place)}  # rows, and where each agent's stands
        self._messages: dict[int, CodedFrame] = {}

    def add(self, round: int, rows: Array, agents: Agents, place: Agents) -> Array:
        """Send the rows of all agents of the host in a round; return what everybody mixes for them."""
        if self._rule is not None:
            before, places = self._rows[round - 1]
            self._messages[round], rows = self._rule.offer(rows, before[places[agents]], agents, round)
        self._rows[round] = rows, place
        return rows

    def frame(self, round: int, agents: Agents) -> Frame | CodedFrame:
        """Return what was sent of some agents in a round."""
        rows, place = self._rows[round]
        if self._rule is not None:
            return part(self._messages[round], place[agents])
        return Frame(round, agents, rows if len(agents) == len(rows) else rows.take(place[agents], axis=0))

    def rows(self, round: int, agents: Agents) -> Array:
        """Return the rows of some agents in a round, or their public copies; without numbers where none were sent."""
        rows, place = self._rows.get(round, (np.empty((0, 0)), None))
        return np.empty((len(agents), 0)) if place is None else rows[place[agents]]

    def remembered(self, round: int, agents: Agents) -> Array:
        """Return of the public copies in a round what the next round's messages depend on."""
        return self.rows(round, agents)[:, : self._rule.width if self._rule is not None else 0]

    def begin(self, wanted: int) -> int:
        """Return the round whose copies a stream begins with, for a peer that wants the rounds after it."""
        return max(wanted, min(self._rows, default=0))

    def forget(self, round: int) -> None:
        """Forget a round that nobody asks for again."""
        self._rows.pop(round, None)
        self._messages.pop(round, None)
