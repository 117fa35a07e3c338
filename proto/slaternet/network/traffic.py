"""Messages and bytes, counted per stream as plain integers; any thread may read them."""

PREFIX = 5
"""Bytes that gRPC puts before every message: a compression flag and the length."""


class Traffic:
    """Messages and bytes on streams, with gRPC's prefix; a message that is sent again counts again."""

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
        """The traffic of each kind of stream, sorted by kind."""
        return sorted(self._streams.items())
