"""The common parts of messages: parsing within limits, heads, texts, tickets, agent ids and numbers.

Every refusal is `Malformed` with a constant sentence, which repeats nothing that the peer sent.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from slaternet.errors import Malformed, OverBudget
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array, Head, Heartbeat, Opening
from slaternet.texts import cleaned
from slaternet.v1 import common_pb2 as pb

_MOST_ROUNDS = 1 << 63  # rounds must fit the signed integers of journals and arrays
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_HASH = re.compile(r"[0-9a-f]{64}")

ID = np.dtype("<u4")
NUMBER = np.dtype("<f8")

HEARTBEAT = Heartbeat()


class _Headed(Protocol):
    """A message with a head."""

    @property
    def head(self) -> pb.Head:
        """The head."""

    @classmethod
    def FromString(cls, data: bytes, /) -> Self:  # noqa: N802 - protobuf's name
        """Parse a message."""


M = TypeVar("M", bound=_Headed)


def parse(kind: type[M], data: bytes, *, outside: bool = False) -> tuple[M, Head]:
    """Return the message in `data`, its fields still unchecked, and its head; one from `outside` may name no run."""
    if len(data) > LIMITS.message_bytes:
        raise Malformed("a message is longer than the protocol allows")
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise Malformed("the bytes are not a message of the kind expected here") from None
    head = message.head
    run, sender, round = head.run, head.sender, head.round
    if not run and not outside:
        raise Malformed("a head needs the run it belongs to")
    if not 0 < len(sender.encode()) <= LIMITS.name_bytes or len(run.encode()) > LIMITS.name_bytes:
        raise Malformed("a head needs a sender of 1 to 64 bytes and a run of at most 64")
    if round >= _MOST_ROUNDS:
        raise Malformed("a round is beyond every game")
    return message, Head(run, head.epoch, round, sender)


def pack(message: Message) -> bytes:
    """Return the bytes of `message`, refused here rather than at the receiver where they are too many."""
    data = message.SerializeToString()
    if len(data) > LIMITS.message_bytes:
        raise OverBudget(f"a message of {len(data)} bytes is above the {LIMITS.message_bytes} allowed; use more hosts")
    return data


def plain(record: Any, **otherwise: object) -> dict[str, Any]:  # noqa: ANN401 - any record of slaternet.model
    """Return the fields of a record by name, as a message with the same fields takes them; some written `otherwise`."""
    return {each.name: getattr(record, each.name) for each in fields(record)} | otherwise


def write_head(head: Head) -> pb.Head:
    """Return the head as it travels."""
    return pb.Head(run=head.run, epoch=head.epoch, round=head.round, sender=head.sender)


def from_round_one(head: Head) -> int:
    """Return the round of a message that must be about one."""
    if not head.round:
        raise Malformed("this message must name a round, from 1")
    return head.round


def write_opening(opening: Opening) -> pb.Opening:
    """Return the opening as it travels."""
    return pb.Opening(incarnation=opening.incarnation, ticket=opening.ticket, round=opening.round)


def read_opening(message: pb.Opening) -> Opening:
    """Return the opening of a stream."""
    if message.round >= _MOST_ROUNDS:
        raise Malformed("a round is beyond every game")
    return Opening(counted(message.incarnation), ticket(message.ticket), message.round)


def fits(text: str, limit: int) -> bool:
    """Return whether `text` has at most `limit` bytes."""
    return len(text) <= limit and (text.isascii() or len(text.encode()) <= limit)


def text(value: str, limit: int) -> str:
    """Return a text of at most `limit` bytes, possibly empty."""
    if not fits(value, limit):
        raise Malformed("a text is longer than the protocol allows")
    return value


def sentence(value: str) -> str:
    """Return what a peer has written for the operator, possibly empty, as one line of plain text."""
    return cleaned(text(value, LIMITS.text_bytes))


def name(value: str) -> str:
    """Return the name of a process."""
    if len(value) > LIMITS.name_bytes or not _NAME.fullmatch(value):
        raise Malformed("a name is made of a-z, 0-9 and -, of 1 to 64 bytes, and does not begin with -")
    return value


def names(values: Iterable[str]) -> tuple[str, ...]:
    """Return names of processes, each once, no more than a game may have."""
    found = tuple(values)
    if len(found) > LIMITS.hosts + 1 or len(set(found)) < len(found):
        raise Malformed("a list names each process once, and no more than a game may have")
    return tuple(map(name, found))


def address(value: str) -> str:
    """Return an address, which may or may not be served."""
    if not value or not fits(value, LIMITS.address_bytes) or not value.isprintable():
        raise Malformed("an address is HOST:PORT of at most 256 bytes")
    return value


def digest(value: str) -> str:
    """Return a SHA-256 in hexadecimal digits."""
    if not _HASH.fullmatch(value):
        raise Malformed("a hash is 64 lower-case hexadecimal digits")
    return value


def ticket(value: bytes) -> bytes:
    """Return a ticket."""
    if len(value) != LIMITS.ticket_bytes:
        raise Malformed("a ticket has 32 bytes")
    return value


def counted(value: int) -> int:
    """Return an incarnation."""
    if not 1 <= value < _MOST_ROUNDS:
        raise Malformed("incarnations count from 1")
    return value


def below(value: int, limit: int) -> int:
    """Return a count that is at most `limit`."""
    if value > limit:
        raise Malformed("a count is above its limit")
    return value


def finite(value: float) -> float:
    """Return a number that is neither infinite nor undefined."""
    if not math.isfinite(value):
        raise Malformed("numbers must be finite")
    return value


def write_ids(ids: Agents) -> bytes:
    """Return ids as little-endian uint32."""
    return ids.astype(ID).tobytes()


def read_ids(data: bytes) -> Agents:
    """Return ids from little-endian uint32, in any order."""
    if len(data) % 4:
        raise Malformed("ids are 4 bytes each")
    return np.frombuffer(data, ID).astype(np.intp)


def read_agents(data: bytes, agents: int = LIMITS.agents) -> Agents:
    """Return strictly ascending agent ids below `agents`, possibly none."""
    if len(data) > 4 * agents:
        raise Malformed("a message names more agents than the game has")
    ids = read_ids(data)
    if not ids.size:
        return ids
    if ids[-1] >= agents or not (ids[1:] > ids[:-1]).all():
        raise Malformed("agent ids must ascend and lie within the game")
    return ids


class SeatReader:
    """Reads the agents of a message that must name some; nearly always the same as in the message before."""

    def __init__(self, agents: int) -> None:
        self._limit = agents
        self._data = b""
        self._agents: Agents = np.empty(0, np.intp)

    def read(self, data: bytes) -> Agents:
        """Return strictly ascending agent ids of the game, at least one."""
        if data != self._data or not data:
            agents = read_agents(data, self._limit)
            if not agents.size:
                raise Malformed("a message must name its agents")
            agents.setflags(write=False)
            self._data, self._agents = data, agents
        return self._agents

    def again(self) -> Agents:
        """Return the agents of the message before, for one that may leave them out."""
        if not self._agents.size:
            raise Malformed("the first message of a stream must name its agents")
        return self._agents


def write_numbers(*arrays: Array) -> bytes:
    """Return arrays one after the other as little-endian float64, each in C order."""
    return b"".join([array.astype(NUMBER, copy=False).tobytes() for array in arrays])


def read_numbers(data: bytes) -> Array:
    """Return finite numbers from little-endian float64."""
    if len(data) % 8:
        raise Malformed("numbers are 8 bytes each")
    numbers = np.frombuffer(data, NUMBER)
    if not np.isfinite(numbers).all():
        raise Malformed("numbers must be finite")
    return numbers
