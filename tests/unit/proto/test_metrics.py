"""Numbers that are counted, and the endpoint that tells them."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from slaternet.errors import BadSpec, NotYours
from slaternet.limits import LIMITS
from slaternet.network.traffic import PREFIX, Meter, Traffic
from slaternet.refusals import RefusalCounter
from slaternet.service import metrics
from slaternet.service.metrics import BOUNDS, Histogram, Metric, Reading

ANYWHERE = "127.0.0.1:0"
Scrape = dict[tuple[str, frozenset[tuple[str, str]]], float]


def sent(traffic: Traffic, data: bytes) -> None:
    """Count a message as a link does that sends it."""
    traffic.sent_messages += 1
    traffic.sent_bytes += len(data) + PREFIX


def received(traffic: Traffic, data: bytes) -> None:
    """Count a message as a link does that has received it."""
    traffic.received_messages += 1
    traffic.received_bytes += len(data) + PREFIX


def scrape(url: str) -> Scrape:
    with urlopen(url) as reply:
        families = text_string_to_metric_families(reply.read().decode())
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


def labels(**values: str) -> frozenset[tuple[str, str]]:
    return frozenset(values.items())


def nothing() -> Iterator[Reading]:
    return iter(())


def test_a_message_counts_with_the_prefix_that_grpc_gives_it() -> None:
    meter = Meter()

    sent(meter.of("Gossip"), b"12345")
    sent(meter.of("/slaternet.v1.Agent/Gossip"), b"")
    received(meter.of("Reveal"), b"123")

    (gossip, out), (reveal, back) = meter.streams
    assert (gossip, out.sent_messages, out.sent_bytes, out.received_bytes) == ("gossip", 2, 15, 0)
    assert (reveal, back.received_messages, back.received_bytes) == ("reveal", 1, 8)


def test_a_time_falls_into_the_first_bucket_that_is_not_below_it() -> None:
    histogram = Histogram()

    for seconds in (0.0, BOUNDS[0], BOUNDS[1], 1.5 * BOUNDS[-1]):
        histogram.observe(seconds)

    assert histogram.counts == [2, 1, *[0] * (len(BOUNDS) - 2), 1]
    assert histogram.sum == BOUNDS[0] + BOUNDS[1] + 1.5 * BOUNDS[-1]


def test_every_kind_of_number_is_told_as_it_was_counted() -> None:
    counted, measured, timed = (
        Metric("things", "counter", "things", ("kind", "of")),
        Metric("size", "gauge", "size"),
        Metric("call_seconds", "histogram", "calls"),
    )
    histogram, breaches = Histogram(), RefusalCounter()
    for seconds in (0.0004, 0.003, 99.0):
        histogram.observe(seconds)
    breaches.count(NotYours("no"), "agent-1")

    def source() -> Iterator[Reading]:
        yield metrics.process_info("host", "agent-1")
        yield from metrics.traffic_readings(Meter(), breaches)
        yield Reading(counted, {("a", "x"): 3, ("b", "x"): 2**53})
        yield measured.reads(-0.125)
        yield timed.reads(histogram)

    with metrics.serve(ANYWHERE, source) as url:
        told = scrape(url)

    assert url.startswith("http://127.0.0.1:")
    assert url.endswith("/metrics")
    assert told["slaternet_things_total", labels(kind="a", of="x")] == 3
    assert told["slaternet_things_total", labels(kind="b", of="x")] == 2**53
    assert told["slaternet_size", labels()] == -0.125
    assert told["slaternet_refusals_total", labels(kind="NotYours", host="agent-1")] == 1
    assert told["slaternet_call_seconds_count", labels()] == 3
    assert told["slaternet_call_seconds_sum", labels()] == histogram.sum
    buckets = {
        dict(each)["le"]: count for (name, each), count in told.items() if name == "slaternet_call_seconds_bucket"
    }
    assert len(buckets) == len(BOUNDS) + 1
    assert [buckets[bound] for bound in ("0.0002", "0.0005", "0.002", "0.005", "10.0", "+Inf")] == [0, 1, 1, 2, 2, 3]
    (process,) = [dict(each) for name, each in told if name == "slaternet_process_info"]
    assert (process["role"], process["name"]) == ("host", "agent-1")
    assert told["process_cpu_seconds_total", labels()] > 0


def test_nothing_is_told_where_nobody_has_said_where() -> None:
    with metrics.serve("", nothing) as url:
        assert url == ""


def test_an_endpoint_is_gone_with_its_block_and_its_port_can_be_had_again() -> None:
    with metrics.serve(ANYWHERE, nothing) as url:
        scrape(url)
    address = url.removeprefix("http://").removesuffix("/metrics")

    with pytest.raises(OSError, match="refused"):
        scrape(url)
    with metrics.serve(address, nothing) as again:
        scrape(again)
    assert again == url


def test_a_port_that_is_taken_is_refused_in_a_sentence() -> None:
    with metrics.serve(ANYWHERE, nothing) as url:
        address = url.removeprefix("http://").removesuffix("/metrics")
        sentence = rf"cannot serve metrics on {address} \(Address already in use\); choose a free port .* for --metrics"
        with pytest.raises(BadSpec, match=sentence), metrics.serve(address, nothing):
            pass


@pytest.mark.parametrize("listen", ["9100", "127.0.0.1:metrics", "127.0.0.1:65536", "127.0.0.1:-1", "192.0.2.1:0"])
def test_what_is_no_address_of_this_machine_is_refused(listen: str) -> None:
    with pytest.raises(BadSpec, match=f"cannot serve metrics on {listen} "), metrics.serve(listen, nothing):
        pass


def test_no_more_are_answered_at_once_than_the_limit_and_none_is_forgotten() -> None:
    with metrics.serve(ANYWHERE, nothing) as url, ExitStack() as held:
        host, _, port = url.removeprefix("http://").removesuffix("/metrics").rpartition(":")
        silent = [held.enter_context(socket.create_connection((host, int(port)))) for _ in range(LIMITS.scrapes)]

        with held.enter_context(socket.create_connection((host, int(port)))) as one_more:
            assert one_more.recv(1) == b""  # hung up on
        for each in silent:
            each.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert each.makefile("rb").read().startswith(b"HTTP/1.0 200 OK")

        scrape(url)


def test_a_number_is_read_when_somebody_asks_and_in_another_thread() -> None:
    threads: list[threading.Thread] = []

    def source() -> Iterator[Reading]:
        threads.append(threading.current_thread())
        return nothing()

    with metrics.serve(ANYWHERE, source) as url:
        assert threads == []
        scrape(url)
        scrape(url)
    assert len(threads) == 2
    assert threading.current_thread() not in threads


def test_an_endpoint_costs_no_import_and_keeps_no_process_alive() -> None:
    program = f"""
import sys
from slaternet.service import metrics

endpoint = metrics.serve("{ANYWHERE}", lambda: ())
endpoint.__enter__()
print("prometheus_client" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert ended.stdout.splitlines()[-1] == "False"
