"""What a host counts while it plays, since it has joined."""

import time
from collections.abc import Callable, Iterable

from slaternet.meter import Histogram, Traffic
from slaternet.model import Usage


class Tally:
    """Frames, bytes, and the time spent waiting, charged to whoever was waited for last."""

    def __init__(self, streams: Iterable[Traffic], clock: Callable[[], float] = time.perf_counter) -> None:
        self.frames_sent = 0
        self.waited: dict[str, float] = {}  # seconds, by process
        self.reveals = Histogram()
        self._streams = tuple(streams)
        self._clock = clock
        self._since = clock()  # when the host began to wait for what it waits for
        self._stood = 0.0  # seconds in which it could not ask, whoever was waited for

    def ask(self, round: int, awaited: str) -> None:
        """Begin to wait for the answer of a round.

        `awaited` has sent what was still missing; empty: nothing was. Before round 1 all are starting: nobody waits.
        """
        now = self._clock()
        if awaited and round > 1:
            seconds = now - self._since
            self._stood += seconds
            self.waited[awaited] = self.waited.get(awaited, 0.0) + seconds
        self._since = now

    def answered(self, adversary: str) -> None:
        """Hear that the answer has come."""
        seconds = self._clock() - self._since
        self.reveals.observe(seconds)
        self.waited[adversary] = self.waited.get(adversary, 0.0) + seconds

    def idle(self) -> None:
        """Begin to wait for what the next round needs."""
        self._since = self._clock()

    def usage(self, round: int) -> Usage:
        """Return what was spent so far, a round being finished."""
        sent = sum(traffic.sent_bytes for traffic in self._streams)
        received = sum(traffic.received_bytes for traffic in self._streams)
        return Usage(round, self.frames_sent, sent, received, self._stood)
