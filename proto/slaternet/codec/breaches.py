"""Breaches as they travel: in what a process has refused, and in how the game stands."""

from collections.abc import Collection

from slaternet.breaches import KINDS
from slaternet.codec.wire import below, counted, name
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import Breach
from slaternet.v1 import coordinator_pb2 as pb


def write_breaches(breaches: Collection[Breach]) -> list[pb.Breach]:
    """Return breaches as they travel."""
    return [pb.Breach(kind=each.kind, host=each.host, count=each.count, server=each.server) for each in breaches]


def read_breaches(messages: Collection[pb.Breach]) -> tuple[Breach, ...]:
    """Return breaches of kinds that are known, by hosts that may be."""
    below(len(messages), LIMITS.breaches)
    return tuple(_read(message) for message in messages)


def _read(message: pb.Breach) -> Breach:
    if message.kind not in KINDS:
        raise Malformed("a breach is of a kind that has an error of its own")
    return Breach(
        message.kind,
        message.host and name(message.host),
        counted(message.count),
        message.server and name(message.server),
    )
