"""What a process tells of itself to Prometheus, and where.

Nothing here is called in a round: numbers are counted as plain integers and floats where things happen, and read when
somebody asks. Whoever asks is answered in a thread, so also while the event loop is busy with somebody's plugin, and
the Prometheus client, 40 ms of imports, waits for the first who does.
"""

import select
import selectors
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version

import structlog

from slaternet.breaches import Breaches
from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.meter import Histogram, Meter
from slaternet.spec import Spec

log = structlog.get_logger()

_PAUSE = 0.1


class Kind(StrEnum):
    """What may be asked of a number."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


_SUFFIXES = {Kind.COUNTER: "_total", Kind.INFO: "_info"}

Number = float | Histogram
Numbers = dict[tuple[str, ...], Number]


@dataclass(frozen=True, slots=True)
class Reading:
    """The numbers of a metric at one moment, by the values of its labels."""

    metric: "Metric"
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that is told, or one for each combination of labels; their values are bounded by the game."""

    stem: str
    kind: Kind
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


Source = Callable[[], Iterable[Reading]]
"""Reads the numbers of a process, in a thread of its own."""


# What every process tells

PROCESS = Metric("process", Kind.INFO, "which process of a game this is", ("role", "name", "version"))
GAME = Metric("game", Kind.INFO, "the game it plays", ("run", "game", "algorithm", "adversary", "graph"))
SENT_BYTES = Metric(
    "sent_bytes", Kind.COUNTER, "bytes of messages put on streams, with gRPC's prefix of 5 bytes each", ("stream",)
)
SENT_MESSAGES = Metric("sent_messages", Kind.COUNTER, "messages put on streams", ("stream",))
RECEIVED_BYTES = Metric("received_bytes", Kind.COUNTER, "bytes of messages taken from streams, likewise", ("stream",))
RECEIVED_MESSAGES = Metric("received_messages", Kind.COUNTER, "messages taken from streams", ("stream",))
STREAMS = Metric("open_streams", Kind.GAUGE, "streams that are open and on which the peer was heard", ("stream",))
RECONNECTIONS = Metric(
    "reconnections", Kind.COUNTER, "streams with a peer that were opened again after the first", ("stream", "peer")
)
REFUSALS = Metric(
    "refusals", Kind.COUNTER, "messages refused, by kind of error and by host, empty: unproven", ("kind", "host")
)

SHARED = (
    PROCESS,
    GAME,
    SENT_BYTES,
    SENT_MESSAGES,
    RECEIVED_BYTES,
    RECEIVED_MESSAGES,
    STREAMS,
    RECONNECTIONS,
    REFUSALS,
)


def of_process(role: str, name: str) -> Reading:
    """Say which process this is."""
    return PROCESS.reads(1.0, role, name, version("slaternet"))


def of_game(run: str, spec: Spec) -> Reading:
    """Say which game it plays."""
    return GAME.reads(1.0, run, spec.run.name, spec.algorithm.name, spec.adversary.plugin, spec.graph.name)


def of_traffic(meter: Meter, breaches: Breaches) -> Iterator[Reading]:
    """Read what every process counts of its streams."""
    streams = meter.streams
    yield SENT_BYTES.by((kind, traffic.sent_bytes) for kind, traffic in streams)
    yield SENT_MESSAGES.by((kind, traffic.sent_messages) for kind, traffic in streams)
    yield RECEIVED_BYTES.by((kind, traffic.received_bytes) for kind, traffic in streams)
    yield RECEIVED_MESSAGES.by((kind, traffic.received_messages) for kind, traffic in streams)
    yield Reading(REFUSALS, {(breach.kind, breach.host): breach.count for breach in breaches.all})


# Where it is told


@contextmanager
def serve(listen: str, source: Source) -> Iterator[str]:
    """Tell what `source` reads at http://HOST:PORT/metrics, the block's value, as long as the block lasts.

    Port 0 takes a free one; nothing at all is served where `listen` is empty.
    """
    if not listen:
        yield ""
        return
    endpoint = _Endpoint(_listener(listen), source)
    try:
        log.info("metrics", url=endpoint.url)
        yield endpoint.url
    finally:
        endpoint.close()


def _listener(listen: str) -> socket.socket:
    host, colon, port = listen.rpartition(":")
    try:
        if not colon or not 0 <= int(port) <= 65535:
            raise ValueError
        found = socket.getaddrinfo(
            host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, *_, address = found[0]
        listener = socket.create_server(address[:2], family=family)
    except (OSError, ValueError) as error:
        reason = error.strerror.partition(" (")[0] if isinstance(error, OSError) and error.strerror else "no HOST:PORT"
        raise BadSpec(
            f"cannot serve metrics on {listen} ({reason}); "
            "choose a free port and an address of this machine for --metrics"
        ) from None
    listener.setblocking(False)
    return listener


class _Endpoint:
    """A listening socket and the thread that waits at it; neither keeps a process alive or delays its end."""

    def __init__(self, listener: socket.socket, source: Source) -> None:
        host, port, *_ = listener.getsockname()
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
        self._listener = listener
        self._source = source
        self._places = threading.BoundedSemaphore(LIMITS.scrapes)
        self._end, self._ended = socket.socketpair()
        self._thread = threading.Thread(target=self._wait, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more; an answer under way may still be given."""
        self._end.close()
        self._thread.join()

    def _wait(self) -> None:
        with self._listener, self._ended, selectors.DefaultSelector() as selector:
            for each in (self._listener, self._ended):
                selector.register(each, selectors.EVENT_READ)
            while all(key.fileobj is self._listener for key, _ in selector.select()):
                try:
                    self._accept(*self._listener.accept())
                except OSError:  # whoever called is gone again, or there is no file left for a connection
                    select.select([self._ended], [], [], _PAUSE)  # not at once again, unless this is the end

    def _accept(self, caller: socket.socket, address: object) -> None:
        if not self._places.acquire(blocking=False):
            caller.close()
            return
        threading.Thread(target=self._answer, args=(caller, address), name="scrape", daemon=True).start()

    def _answer(self, caller: socket.socket, address: object) -> None:
        from slaternet.exposition import answer

        try:
            answer(caller, address, self._source)
        finally:
            self._places.release()
