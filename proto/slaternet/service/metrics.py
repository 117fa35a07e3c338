"""The metrics of a process for Prometheus, and the HTTP endpoint that serves them.

No round calls this module: numbers are counted as plain integers and floats where things happen, and read when a
request arrives. A thread of its own answers it, also while the event loop is busy with a plugin. The first request
imports the Prometheus client, which takes 40 ms.
"""

import errno
import socket
import socketserver
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

import structlog

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.network.traffic import Meter
from slaternet.refusals import RefusalCounter
from slaternet.spec import PublicSpec

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

log = structlog.get_logger()

BOUNDS = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Upper bounds of a histogram's buckets, in seconds."""

_PAUSE = 0.1
_SUFFIXES = {"counter": "_total", "info": "_info"}


class Histogram:
    """How often something took how long."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)  # one for each bound, and one beyond the last
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one more."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds


Number = float | Histogram
Numbers = dict[tuple[str, ...], Number]


@dataclass(frozen=True, slots=True)
class Reading:
    """The numbers of a metric at one moment, by the values of its labels."""

    metric: "Metric"
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class Metric:
    """A number, or one for each combination of label values; the game bounds how many there are."""

    stem: str
    kind: Literal["counter", "gauge", "histogram", "info"]
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in Prometheus."""
        return f"slaternet_{self.stem}{_SUFFIXES.get(self.kind, '')}"

    def reads(self, number: Number, *labels: str) -> Reading:
        """Return a reading of one number."""
        return Reading(self, {labels: number})

    def by(self, numbers: Iterable[tuple[str, Number]]) -> Reading:
        """Return a reading by the values of its only label."""
        return Reading(self, {(label,): number for label, number in numbers})


def family(reading: Reading) -> "Family":
    """Return a reading in the types of the Prometheus client."""
    from prometheus_client.core import Metric as Family

    metric = reading.metric
    made = Family(f"slaternet_{metric.stem}", metric.meaning, metric.kind)
    for values, number in reading.numbers.items():
        labels = dict(zip(metric.labels, values, strict=True))
        if isinstance(number, Histogram):
            counts = list(accumulate(number.counts))
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), counts, strict=True):
                made.add_sample(f"{metric.name}_bucket", labels | {"le": bound}, count)
            made.add_sample(f"{metric.name}_count", labels, counts[-1])
            made.add_sample(f"{metric.name}_sum", labels, number.sum)
        else:
            made.add_sample(metric.name, labels, number)
    return made


Source = Callable[[], Iterable[Reading]]
"""Reads the numbers of a process, in a thread of its own."""


# The metrics of every process

PROCESS = Metric("process", "info", "which process of a game this is", ("role", "name", "version"))
GAME = Metric("game", "info", "the game it plays", ("run", "game", "algorithm", "graph"))
SENT_BYTES = Metric(
    "sent_bytes", "counter", "bytes of messages put on streams, with gRPC's prefix of 5 bytes each", ("stream",)
)
SENT_MESSAGES = Metric("sent_messages", "counter", "messages put on streams", ("stream",))
RECEIVED_BYTES = Metric("received_bytes", "counter", "bytes of messages taken from streams, likewise", ("stream",))
RECEIVED_MESSAGES = Metric("received_messages", "counter", "messages taken from streams", ("stream",))
STREAMS = Metric("open_streams", "gauge", "streams that are open and on which the peer was heard", ("stream",))
RECONNECTIONS = Metric(
    "reconnections", "counter", "streams with a peer that were opened again after the first", ("stream", "peer")
)
REFUSALS = Metric(
    "refusals", "counter", "messages refused, by kind of error and by host, empty: unproven", ("kind", "host")
)
SHARED = (PROCESS, GAME, SENT_BYTES, SENT_MESSAGES, RECEIVED_BYTES, RECEIVED_MESSAGES, STREAMS, RECONNECTIONS, REFUSALS)


def process_info(role: str, name: str) -> Reading:
    """Return role, name and version of this process."""
    return PROCESS.reads(1.0, role, name, version("slaternet"))


def game_info(run: str, spec: PublicSpec) -> Reading:
    """Return the game that this process plays."""
    return GAME.reads(1.0, run, spec.run.name, spec.algorithm.name, spec.graph.name)


def traffic_readings(meter: Meter, breaches: RefusalCounter) -> Iterator[Reading]:
    """Yield the traffic and the refusals that every process counts."""
    streams = meter.streams
    yield SENT_BYTES.by((kind, traffic.sent_bytes) for kind, traffic in streams)
    yield SENT_MESSAGES.by((kind, traffic.sent_messages) for kind, traffic in streams)
    yield RECEIVED_BYTES.by((kind, traffic.received_bytes) for kind, traffic in streams)
    yield RECEIVED_MESSAGES.by((kind, traffic.received_messages) for kind, traffic in streams)
    yield Reading(REFUSALS, {(breach.kind, breach.host): breach.count for breach in breaches.all})


# The endpoint


@contextmanager
def serve(listen: str, source: Source) -> Iterator[str]:
    """Serve the readings of `source` within the block; yield the URL http://HOST:PORT/metrics.

    Port 0 takes a free one; nothing is served where `listen` is empty.
    """
    if not listen:
        yield ""
        return
    try:
        endpoint = _Endpoint(listen, source)
    except (OSError, ValueError) as error:
        reason = error.strerror.partition(" (")[0] if isinstance(error, OSError) and error.strerror else "no HOST:PORT"
        raise BadSpec(
            f"cannot serve metrics on {listen} ({reason}); "
            "choose a free port and an address of this machine for --metrics"
        ) from None
    threading.Thread(target=endpoint.serve_forever, name="metrics", daemon=True).start()
    try:
        log.info("metrics", url=endpoint.url)
        yield endpoint.url
    finally:
        with suppress(OSError):
            endpoint.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits at it
        endpoint.shutdown()
        endpoint.server_close()


class _Endpoint(socketserver.ThreadingTCPServer):
    """Answers at most `LIMITS.scrapes` requests at the same time; its threads do not keep a process alive."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, listen: str, source: Source) -> None:
        host, colon, port = listen.rpartition(":")
        if not colon or not 0 <= int(port) <= 65535:
            raise ValueError
        found = socket.getaddrinfo(
            host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family, *_, address = found[0]
        self._source = source
        self._places = threading.BoundedSemaphore(LIMITS.scrapes)
        super().__init__((str(address[0]), int(address[1])), socketserver.BaseRequestHandler)

    @property
    def url(self) -> str:
        host, port, *_ = self.socket.getsockname()
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"

    @cached_property
    def _handler(self) -> Any:  # noqa: ANN401 - as untyped as socketserver
        from prometheus_client import CollectorRegistry, MetricsHandler, PlatformCollector, ProcessCollector
        from prometheus_client.registry import Collector

        source = self._source

        class Readings(Collector):
            def collect(self) -> "Iterator[Family]":
                return map(family, source())

        registry = CollectorRegistry()
        registry.register(Readings())
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        handler: Any = MetricsHandler.factory(registry)
        handler.timeout = LIMITS.unary_seconds
        return handler

    def get_request(self) -> Any:  # noqa: ANN401
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(_PAUSE)  # the caller stays in the queue: do not retry at once
            raise

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        self._handler(request, client_address, self)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        if not isinstance(sys.exception(), OSError):  # an OSError means that the caller has gone or is too slow
            super().handle_error(request, client_address)
