"""The adversary's Prometheus metrics, beyond those of every process."""

from collections.abc import Iterator, Mapping

from slaternet.service import metrics
from slaternet.service.membership import Membership
from slaternet.service.metrics import Metric, Numbers, Reading
from slaternet_adversary.engine.host_costs import NetworkTotals

ROUNDS = Metric("rounds_recorded", "counter", "rounds that are complete: revealed, scored, and in metrics.csv")
LOSS = Metric("cumulative_loss", "gauge", "as in metrics.csv; only with --metrics-values")
VIOLATION = Metric("cumulative_violation", "gauge", "as in metrics.csv; only with --metrics-values")
SKEW = Metric("skew_seconds", "counter", "sum over the rounds recorded of the time between first and last question")
LAG = Metric("lag_seconds", "counter", "sum likewise of the time from the first question to this host's", ("host",))

METRICS = (ROUNDS, LOSS, VIOLATION, SKEW, LAG)


def readings(
    membership: Membership,
    network: NetworkTotals,
    totals: tuple[float, ...] | None,
    streams: int,
    accepts: Mapping[str, int],
) -> Iterator[Reading]:
    """Yield the adversary's metrics; `accepts` counts the streams that each host has opened.

    `totals` is None unless the operator shows them: their differences tell what other agents were told.
    """
    yield metrics.game_info(membership.run, membership.spec)
    yield from metrics.traffic_readings(membership.meter, membership.breaches)
    line = membership.line
    yield metrics.STREAMS.by((("control", int(line.up)), ("reveal", streams)))
    again: Numbers = {("control", line.server): line.reconnections}
    again |= {("reveal", host): times - 1 for host, times in tuple(accepts.items())}
    yield Reading(metrics.RECONNECTIONS, again)
    yield ROUNDS.reads(network.rounds)
    if totals is not None:
        yield LOSS.reads(totals[0])
        yield VIOLATION.reads(totals[1])
    yield SKEW.reads(network.skew)
    yield LAG.by((host, total.lag) for host, total in tuple(network.hosts.items()))
