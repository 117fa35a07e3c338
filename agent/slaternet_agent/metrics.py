"""What an agent host tells to Prometheus beyond what every process does."""

from collections.abc import Iterator

from slaternet import metrics
from slaternet.lines import Line
from slaternet.membership import Membership
from slaternet.metrics import Metric, Numbers, Reading
from slaternet_agent.peers import Peers
from slaternet_agent.tally import Tally

ROUNDS = Metric("rounds_finished", "counter", "rounds that the host has finished")
FRAMES_SENT = Metric("frames_sent", "counter", "gossip frames put on streams; sent again, they count again")
FRAMES_RECEIVED = Metric("frames_received", "counter", "gossip frames taken from streams, twice where sent again")
WAITED = Metric(
    "waited_seconds",
    "counter",
    "time in which the host could not go on, charged to whoever sent the last thing it lacked",
    ("peer",),
)
REVEAL = Metric("reveal_seconds", "histogram", "time from a question to its answer")
SEATS = Metric("seats", "gauge", "agents seated here; 0 before the seating and of a spare")

METRICS = (ROUNDS, FRAMES_SENT, FRAMES_RECEIVED, WAITED, REVEAL, SEATS)


def readings(membership: Membership, tally: Tally, peers: Peers | None, reveal: Line | None) -> Iterator[Reading]:
    """Read what a host counts of its streams, frames and waits."""
    yield metrics.of_game(membership.run, membership.spec)
    yield from metrics.of_traffic(membership.meter, membership.breaches)
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
    yield WAITED.by(tuple(tally.waited.items()))
    yield REVEAL.reads(tally.reveals)
