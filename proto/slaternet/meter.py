"""Plain numbers, counted where things happen. Whoever wants to know reads them, from whatever thread."""

from bisect import bisect_left

PREFIX = 5
"""Bytes that gRPC puts before every message: whether it is compressed, and how long it is."""

BOUNDS = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Of the buckets of a histogram, in seconds."""


class Traffic:
    """Messages put on streams and taken from them, with gRPC's prefix, as links count them: resent means sent again."""

    __slots__ = ("received_bytes", "received_messages", "sent_bytes", "sent_messages")

    def __init__(self) -> None:
        self.sent_messages = self.sent_bytes = 0
        self.received_messages = self.received_bytes = 0


class Meter:
    """The traffic of one process, by kind of stream: control, gossip, reveal."""

    def __init__(self) -> None:
        self._streams: dict[str, Traffic] = {}

    def of(self, method: str) -> Traffic:
        """Return the traffic of a method, whether called "Gossip" or "/slaternet.v1.Agent/Gossip"."""
        return self._streams.setdefault(method.rpartition("/")[2].lower(), Traffic())

    @property
    def streams(self) -> list[tuple[str, Traffic]]:
        """Every kind of stream there was, and its traffic."""
        return sorted(self._streams.items())


class Histogram:
    """How often something took how long."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)  # up to each bound, and beyond the last
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one more."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds
