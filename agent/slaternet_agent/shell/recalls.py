"""What a host reads from the adversary's journal, one request after the other.

States of agents that it has no checkpoint of, rows that it is asked to judge, and what its own agents have asked.
"""

from collections import deque
from collections.abc import Callable

import numpy as np

from slaternet.errors import Malformed
from slaternet.model import Agents, Answer, HistoryRequest, Question
from slaternet_agent.shell.reveal import Recall, RevealStream


class PastQuestion:
    """What agents of this host have asked in a round."""

    def __init__(self, round: int, agents: Agents) -> None:
        self.request = HistoryRequest(round, round, agents)
        self.complete = False
        self.question = Question(round, agents, np.empty((0, 0)), np.empty((0, 0, 0)))

    def apply(self, message: Question | Answer) -> None:
        """Take the question; the answer comes again when it is asked."""
        if message.round != self.request.round:
            raise Malformed("what is recalled must be of the round wished for")
        if isinstance(message, Question):
            self.question = message
        self.complete = isinstance(message, Answer)


class Recalls:
    """The requests to the journal, in order; `done` is called when one is complete, `failed` where it is refused."""

    def __init__(self, reveal: RevealStream) -> None:
        self._reveal = reveal
        self._queue: deque[tuple[Recall, Callable[[], None], Callable[[], None] | None]] = deque()

    def add(self, recall: Recall, done: Callable[[], None], failed: Callable[[], None] | None = None) -> None:
        """Read from the journal, after what was asked for before; without `failed` a refusal is final."""
        self._queue.append((recall, done, failed))
        if len(self._queue) == 1:
            self.advance()

    def apply(self, message: Question | Answer) -> None:
        """Give a message to the recall it belongs to."""
        if not self._queue:
            raise Malformed("nothing was recalled")
        self._queue[0][0].apply(message)

    def advance(self) -> None:
        """End recalls that are complete, and ask for the next."""
        while self._queue and self._queue[0][0].complete:
            _, done, _ = self._queue.popleft()
            self._request()  # first: if `done` raises, a new stream must not ask for what is complete
            done()
        self._request()

    def _request(self) -> None:
        self._reveal.recall(self._queue[0][0] if self._queue else None)

    def refuse(self) -> bool:
        """Drop the recall that the adversary refuses; return whether that is of no further consequence."""
        if not self._queue or self._queue[0][2] is None:
            return False
        _, _, failed = self._queue.popleft()
        self.advance()
        if failed is not None:
            failed()
        return True
