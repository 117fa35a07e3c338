"""What a host counts while it plays, and what it reports to Prometheus."""

import time
from collections.abc import Callable, Iterable, Iterator

from slaternet.model import Usage
from slaternet.network.reconnecting import ReconnectingStream
from slaternet.network.traffic import Traffic
from slaternet.service import metrics
from slaternet.service.membership import Membership
from slaternet.service.metrics import Histogram, Metric, Numbers, Reading
from slaternet_agent.shell.gossip import GossipStreams


class HostMeter:
    """Frames and their rows, bytes, and the time spent waiting, charged to the process waited for last."""

    def __init__(self, streams: Iterable[Traffic], clock: Callable[[], float] = time.perf_counter) -> None:
        self.frames_sent = 0
        self.rows_sent = 0  # in those frames
        self.gossip_bytes = 0  # of the messages that carried them
        self.waited: dict[str, float] = {}  # seconds, by process
        self.reveals = Histogram()
        self._streams = tuple(streams)
        self._clock = clock
        self._since = clock()  # when the present wait began
        self._stood = 0.0  # seconds in which it could not ask

    def count_frame(self, rows: int, size: int) -> None:
        """Count a gossip frame that is put on a stream, the rows in it, and the bytes of its messages."""
        self.frames_sent += 1
        self.rows_sent += rows
        self.gossip_bytes += size

    def ask(self, round: int, awaited: str) -> None:
        """Begin to wait for the answer of a round.

        `awaited` has sent what was missing last; empty: nothing was. The wait before round 1 is start-up: not counted.
        """
        now = self._clock()
        if awaited and round > 1:
            seconds = now - self._since
            self._stood += seconds
            self.waited[awaited] = self.waited.get(awaited, 0.0) + seconds
        self._since = now

    def answered(self, adversary: str) -> None:
        """Count the wait for an answer that has arrived."""
        seconds = self._clock() - self._since
        self.reveals.observe(seconds)
        self.waited[adversary] = self.waited.get(adversary, 0.0) + seconds

    def idle(self) -> None:
        """Begin to wait for what the next round needs."""
        self._since = self._clock()

    def usage(self, round: int) -> Usage:
        """Return what the host has spent when it has finished a round."""
        sent = sum(traffic.sent_bytes for traffic in self._streams)
        received = sum(traffic.received_bytes for traffic in self._streams)
        return Usage(round, self.frames_sent, sent, received, self._stood, self.rows_sent, self.gossip_bytes)


ROUNDS = Metric("rounds_finished", "counter", "rounds that the host has finished")

FRAMES_SENT = Metric("frames_sent", "counter", "gossip frames put on streams; sent again, they count again")

ROWS_SENT = Metric("rows_sent", "counter", "agents' rows in those frames")

GOSSIP_BYTES = Metric("gossip_bytes", "counter", "bytes of the messages that carried those frames")

FRAMES_RECEIVED = Metric("frames_received", "counter", "gossip frames taken from streams, twice where sent again")

WAITED = Metric(
    "waited_seconds",
    "counter",
    "time in which the host could not go on, charged to the process that sent the last missing message",
    ("peer",),
)

REVEAL = Metric("reveal_seconds", "histogram", "time from a question to its answer")

SEATS = Metric("seats", "gauge", "agents seated here; 0 before the seating and of a spare")

METRICS = (ROUNDS, FRAMES_SENT, ROWS_SENT, GOSSIP_BYTES, FRAMES_RECEIVED, WAITED, REVEAL, SEATS)


def readings(
    membership: Membership, tally: HostMeter, peers: GossipStreams | None, reveal: ReconnectingStream | None
) -> Iterator[Reading]:
    """Read what a host counts of its streams, frames and waits."""
    yield metrics.game_info(membership.run, membership.spec)
    yield from metrics.traffic_readings(membership.meter, membership.breaches)
    lines = [("control", membership.line)] + ([("reveal", reveal)] if reveal else [])
    streams: Numbers = {(kind,): int(line.up) for kind, line in lines}
    again: Numbers = {(kind, line.server): line.reconnections for kind, line in lines}
    if peers is not None:
        streams["gossip",] = peers.open
        again |= {("gossip", name): times for name, times in peers.reconnections.items()}
        yield FRAMES_RECEIVED.reads(peers.frames_received)
    yield Reading(metrics.STREAMS, streams)
    yield Reading(metrics.RECONNECTIONS, again)
    yield FRAMES_SENT.reads(tally.frames_sent)
    yield ROWS_SENT.reads(tally.rows_sent)
    yield GOSSIP_BYTES.reads(tally.gossip_bytes)
    yield WAITED.by(tuple(tally.waited.items()))
    yield REVEAL.reads(tally.reveals)
