"""What a host counts while it plays: everything since it has joined, and what of that each round has cost."""

import time
from collections.abc import Callable, Iterable

from slaternet.meter import Histogram, Traffic
from slaternet.model import Effort


class Tally:
    """Frames, bytes, and the time spent waiting, charged to whoever was waited for last."""

    def __init__(self, streams: Iterable[Traffic], clock: Callable[[], float] = time.perf_counter) -> None:
        self.frames_sent = 0
        self.waited: dict[str, float] = {}  # seconds, by process
        self.reveals = Histogram()
        self._streams = tuple(streams)
        self._clock = clock
        self._since = clock()  # when the host began to wait for what it waits for
        self._charged = (0, 0, 0)  # frames and bytes that rounds before this one have cost

    def ask(self, round: int, awaited: str) -> Effort:
        """Begin to wait for the answer of a round; return what the round before has cost.

        `awaited` has sent what was still missing; empty: nothing was. Before round 1 all are starting: nobody waits.
        """
        now = self._clock()
        waited = 0.0
        if awaited and round > 1:
            waited = now - self._since
            self._charge(awaited, waited)
        self._since = now
        return self._spend(waited) if round > 1 else Effort()

    def answered(self, adversary: str) -> None:
        """Hear that the answer has come."""
        seconds = self._clock() - self._since
        self.reveals.observe(seconds)
        self._charge(adversary, seconds)

    def idle(self) -> None:
        """Begin to wait for what the next round needs."""
        self._since = self._clock()

    def close(self) -> Effort:
        """Return what the last round has cost."""
        return self._spend(0.0)

    def _charge(self, name: str, seconds: float) -> None:
        self.waited[name] = self.waited.get(name, 0.0) + seconds

    def _spend(self, waited: float) -> Effort:
        sent = received = 0
        for traffic in self._streams:
            sent += traffic.sent_bytes
            received += traffic.received_bytes
        before, self._charged = self._charged, (self.frames_sent, sent, received)
        return Effort(self.frames_sent - before[0], sent - before[1], waited, received - before[2])
