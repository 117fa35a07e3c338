"""Readings in the words of Prometheus, over HTTP; imported when somebody first asks for them."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from slaternet.limits import LIMITS
from slaternet.meter import BOUNDS, Histogram
from slaternet.metrics import Kind, Reading, Source

_Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily | InfoMetricFamily

_FAMILIES: dict[Kind, type[_Family]] = {
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
    Kind.HISTOGRAM: HistogramMetricFamily,
    Kind.INFO: InfoMetricFamily,
}
_BOUNDS = (*map(str, BOUNDS), "+Inf")


def family(reading: Reading) -> Metric:
    """Return a reading as the family of samples that Prometheus calls a metric."""
    metric = reading.metric
    made = _FAMILIES[metric.kind](f"slaternet_{metric.stem}", metric.meaning, labels=metric.labels)
    for values, number in reading.numbers.items():
        match made:
            case InfoMetricFamily():
                made.add_metric(values, {})
            case HistogramMetricFamily() if isinstance(number, Histogram):
                buckets = zip(_BOUNDS, accumulate(number.counts), strict=True)
                made.add_metric(values, list(buckets), number.sum)
            case CounterMetricFamily() | GaugeMetricFamily() if not isinstance(number, Histogram):
                made.add_metric(values, number)
    return made


class _Readings(Collector):
    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterator[Metric]:
        return map(family, self._source())


def registry(source: Source) -> CollectorRegistry:
    """Return what a process tells: its own numbers, and those that every process has, such as memory and time used."""
    register = CollectorRegistry()
    register.register(_Readings(source))
    ProcessCollector(registry=register)
    PlatformCollector(registry=register)
    return register


class _Site:
    """What a handler of requests wants to know of a server, which there is none of: connections are handed over."""

    def __init__(self, source: Source) -> None:
        self.base_environ: dict[str, str] = {"SCRIPT_NAME": ""}
        self._source = source

    def get_app(self) -> Any:  # noqa: ANN401 - as untyped as wsgiref
        return make_wsgi_app(registry(self._source))


class _Handler(WSGIRequestHandler):
    timeout = LIMITS.unary_seconds

    def log_message(self, *_: object) -> None:
        """Say nothing: that somebody asks is no event of the game."""


def answer(caller: socket.socket, address: Any, source: Source) -> None:  # noqa: ANN401
    """Answer one request."""
    with caller, suppress(OSError):  # whoever called is gone again, or too slow
        _Handler(caller, address, _Site(source))  # type: ignore[arg-type]
