"""The entries of the journal: every event that the referee was given, one record each."""

import math
import struct
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from slaternet.errors import Diverged
from slaternet.model import Agents, Array, Departure, Question, StopAt, Usage, ValueAndGradient, Values
from slaternet.storage.files import refusing
from slaternet.storage.record_file import SealedRecord
from slaternet_adversary.engine.amendments import Amendment
from slaternet_adversary.engine.batches import answers, select_agents
from slaternet_adversary.engine.events import Asked, Batch, Commit, RefereeSnapshot, Rows, Used
from slaternet_adversary.engine.host_costs import Total
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_adversary.scoring import Scored

_DIGEST_BYTES = 32
_UNKNOWN = bytes(_DIGEST_BYTES)
"""In place of a plugin's hash that is not known, as in commitments."""

_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<H")
_ROUND = struct.Struct("<Q")
_QUESTION = struct.Struct("<IIIIBd")
_WITH_MEMO = 8
"""The flag of a question with a memo, whose width then follows it."""
_ASKED_AT = struct.Struct("<d")
_OWNER = np.dtype("<u4")
_SCORE = struct.Struct("<5d")
_USAGE = struct.Struct("<QQQQQdQQ")
_STANDING = struct.Struct("<Q32s5d")
_TOTAL = struct.Struct("<QQQQQdd")


class EntryKind(IntEnum):
    """The kind of an entry, as the record stores it."""

    SEATING = 1
    COMMITMENT = 2
    PURCHASE = 3
    SCORE = 4
    USAGE = 5
    STOP = 6
    SNAPSHOT = 7
    BATCH = 8
    AMENDMENT = 10  # 9 is reserved


@dataclass(frozen=True, slots=True)
class SeatingEntry:
    """The seats of each host, and the departures; the first of them begins the game."""

    hosts: tuple[tuple[str, Agents], ...]
    epoch: int = 1
    departures: tuple[Departure, ...] = ()

    def compare(self, other: "SeatingEntry") -> None:
        """Diverged where the coordinator's seating of the same epoch is another one."""
        known, now = ({name: agents.tolist() for name, agents in seats.hosts} for seats in (self, other))
        if known != now:
            names = ", ".join(sorted(name for name in known | now if known.get(name) != now.get(name)))
            raise Diverged(f"the coordinator seats {names} otherwise than the journal says; put back its state")
        left, leaving = ([(each.round, each.agents.tolist()) for each in seats.departures] for seats in (self, other))
        if left != leaving:
            raise Diverged("the coordinator has other agents leave than the journal says; put back its state")


@dataclass(frozen=True, slots=True)
class Purchase:
    """A question that was granted, and the values it bought."""

    asked: Asked
    values: Values


@dataclass(frozen=True, slots=True)
class BatchPurchase:
    """Questions of several hosts that were granted together, and the values: all of it is recorded, or nothing."""

    batch: Batch
    values: Values


def purchases(entry: "Entry") -> tuple[Purchase, ...]:
    """Return what each host has bought with an entry."""
    match entry:
        case Purchase():
            return (entry,)
        case BatchPurchase(batch, values):
            return tuple(Purchase(asked, some) for asked, some in answers(batch, values))
        case _:
            return ()


def bought(batch: Batch, values: Values) -> "Purchase | BatchPurchase":
    """Return the entry of a batch."""
    return BatchPurchase(batch, values) if len(batch.asked) > 1 else Purchase(batch.asked[0], values)


Entry = SeatingEntry | Commit | Purchase | BatchPurchase | Scored | Used | StopAt | Snapshot | Amendment


def encode(entry: Entry) -> tuple[EntryKind, int, tuple[bytes, ...]]:  # noqa: C901 - one case for each kind
    """Return an entry as a record's kind and round, and its payload in pieces."""
    match entry:
        case SeatingEntry(hosts, epoch, departures):
            seats = (_name_bytes(name) + _group_bytes(agents) for name, agents in hosts)
            partings = (_ROUND.pack(each.round) + _group_bytes(each.agents) for each in departures)
            return EntryKind.SEATING, epoch, (_COUNT.pack(len(hosts)), *seats, *partings)
        case Commit(round, commitments):
            return EntryKind.COMMITMENT, round, tuple(map(bytes.fromhex, commitments))
        case Purchase(asked, values):
            head = _question_bytes(asked.question, values, asked.at) + _name_bytes(asked.host)
            return EntryKind.PURCHASE, asked.question.round, (head, *_numbers_bytes(asked.question, values))
        case BatchPurchase(batch, values):
            head = _question_bytes(batch.question, values, 0.0) + _COUNT.pack(len(batch.asked))
            askers = [_ASKED_AT.pack(each.at) + _name_bytes(each.host) for each in batch.asked]
            owners = np.zeros(len(batch.question.agents), _OWNER)
            for number, rows in enumerate(batch.rows):
                owners[rows] = number
            pieces = head, *askers, owners.tobytes(), *_numbers_bytes(batch.question, values)
            return EntryKind.BATCH, batch.question.round, pieces
        case Scored():
            numbers = entry.loss, entry.violation, entry.zero_loss, entry.zero_violation, entry.disagreement
            return EntryKind.SCORE, entry.round, (_SCORE.pack(*numbers),)
        case Used(host, incarnation, usage):
            return EntryKind.USAGE, usage.round, (_usage_bytes(incarnation, usage), _name_bytes(host))
        case StopAt(last):
            return EntryKind.STOP, last, ()
        case Snapshot(standing, skew, totals):
            start = _STANDING.pack(standing.rounds or 0, standing.digest, *standing.totals, skew)
            return EntryKind.SNAPSHOT, entry.round, (start, *(_total_bytes(*item) for item in totals.items()))
        case Amendment(round, old, new):
            return EntryKind.AMENDMENT, round, (_code_bytes(old), _code_bytes(new))


def _question_bytes(question: Question, values: Values, at: float) -> bytes:
    k, s, m = values.g.shape
    flags = question.loss_gradient + 2 * question.constraint_gradient + 4 * question.x_is_first_point
    head = k, s, question.x.shape[1], m
    if question.memo is None:
        return _QUESTION.pack(*head, flags, at)
    return _QUESTION.pack(*head, flags + _WITH_MEMO, at) + _COUNT.pack(question.memo.shape[1])


def _numbers_bytes(question: Question, values: Values) -> list[bytes]:
    arrays = [question.points, values.f, values.g]
    if not question.x_is_first_point:
        arrays.insert(0, question.x)
    if question.anchor is not None:
        arrays.append(question.anchor)
    for tangent in (values.loss, values.constraint):
        if tangent is not None:
            arrays += tangent.value, tangent.gradient
    if question.memo is not None:
        arrays.append(question.memo)
    return [question.agents.astype("<i8").tobytes(), *[np.asarray(each, "<f8").tobytes() for each in arrays]]


def _name_bytes(name: str) -> bytes:
    data = name.encode()
    return _LENGTH.pack(len(data)) + data


def _group_bytes(agents: Agents) -> bytes:
    return _COUNT.pack(len(agents)) + agents.astype("<i8").tobytes()


def _code_bytes(code: str) -> bytes:
    return bytes.fromhex(code) if code else _UNKNOWN


def _usage_bytes(incarnation: int, usage: Usage) -> bytes:
    return _USAGE.pack(incarnation, *astuple(usage))


def _total_bytes(name: str, total: Total) -> bytes:
    numbers = total.frames, total.bytes_sent, total.bytes_received, total.rows, total.gossip_bytes
    sums = _TOTAL.pack(*numbers, total.waited, total.lag)
    return _name_bytes(name) + sums + _usage_bytes(total.incarnation, total.newest)


def decode(record: SealedRecord) -> Entry:
    """Return the entry in a record; Diverged where there is none in it."""
    with refusing("the journal has an entry that is not of its kind; put back an undamaged copy", Diverged):
        return _decoded(record)


def _decoded(record: SealedRecord) -> Entry:
    payload = _PayloadReader(record.payload)
    match record.kind:
        case EntryKind.SEATING:
            return SeatingEntry(tuple(payload.seats()), record.round, tuple(payload.departures()))
        case EntryKind.COMMITMENT:
            digests = range(0, len(record.payload), _DIGEST_BYTES)
            return Commit(record.round, tuple(record.payload[at : at + _DIGEST_BYTES].hex() for at in digests))
        case EntryKind.PURCHASE:
            return payload.purchase(record.round)
        case EntryKind.BATCH:
            return payload.batch(record.round)
        case EntryKind.SCORE:
            return Scored(record.round, *payload.numbers(_SCORE))
        case EntryKind.USAGE:
            incarnation, usage = payload.usage()
            return Used(payload.name(), incarnation, usage)
        case EntryKind.STOP:
            return StopAt(record.round)
        case EntryKind.SNAPSHOT:
            return payload.snapshot(record.round)
        case EntryKind.AMENDMENT:
            return Amendment(record.round, payload.code(), payload.code())
        case _:
            raise Diverged(f"the journal has an entry of kind {record.kind}, which is none; put back an undamaged copy")


@dataclass(slots=True)
class _PayloadReader:
    """Reads a payload from front to back."""

    data: bytes
    at: int = 0

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        self.at += layout.size
        return layout.unpack_from(self.data, self.at - layout.size)

    def whole(self, layout: struct.Struct) -> int:
        (number,) = self.numbers(layout)
        return int(number)

    def name(self) -> str:
        length = self.whole(_LENGTH)
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def code(self) -> str:
        self.at += _DIGEST_BYTES
        if self.at > len(self.data):
            raise ValueError("a hash is cut off")
        code = self.data[self.at - _DIGEST_BYTES : self.at]
        return "" if code == _UNKNOWN else code.hex()

    def agents(self, count: int) -> Agents:
        self.at += 8 * count
        return np.frombuffer(self.data, "<i8", count, self.at - 8 * count).astype(np.intp)

    def array(self, *shape: int) -> Array:
        count = math.prod(shape)
        self.at += 8 * count
        return np.frombuffer(self.data, "<f8", count, self.at - 8 * count).reshape(shape)

    def usage(self) -> tuple[int, Usage]:
        incarnation, *numbers = self.numbers(_USAGE)
        return incarnation, Usage(*numbers)

    def seats(self) -> Iterator[tuple[str, Agents]]:
        for _ in range(self.whole(_COUNT)):
            yield self.name(), self.agents(self.whole(_COUNT))

    def departures(self) -> Iterator[Departure]:
        while self.at < len(self.data):
            yield Departure(self.whole(_ROUND), self.agents(self.whole(_COUNT)))

    def shape(self) -> tuple[list[int], float, int]:
        """Return the counts and flags of a question, when it was asked, and the width of its memo."""
        *shape, at = self.numbers(_QUESTION)
        return shape, at, self.whole(_COUNT) if shape[-1] & _WITH_MEMO else 0

    def purchase(self, round: int) -> Purchase:
        shape, at, memo = self.shape()
        host = self.name()
        question, values = self.bought(round, memo, *shape)
        return Purchase(Asked(host, question, at), values)

    def batch(self, round: int) -> BatchPurchase:
        (k, *shape), _, memo = self.shape()
        hosts = [(self.numbers(_ASKED_AT)[0], self.name()) for _ in range(self.whole(_COUNT))]
        self.at += _OWNER.itemsize * k
        owners = np.frombuffer(self.data, _OWNER, k, self.at - _OWNER.itemsize * k)
        question, values = self.bought(round, memo, k, *shape)
        rows: list[Rows] = [np.flatnonzero(owners == number) for number in range(len(hosts))]
        asked = [Asked(host, select_agents(question, some), at) for (at, host), some in zip(hosts, rows, strict=True)]
        return BatchPurchase(Batch(tuple(asked), question, tuple(rows)), values)

    def bought(self, round: int, w: int, k: int, s: int, p: int, m: int, flags: int) -> tuple[Question, Values]:
        agents = self.agents(k)
        gradients, first = (bool(flags & 1), bool(flags & 2)), bool(flags & 4)
        x = None if first else self.array(k, p)
        points, f, g = self.array(k, s, p), self.array(k, s), self.array(k, s, m)
        anchor = self.array(k, p) if any(gradients) else None
        loss = ValueAndGradient(self.array(k), self.array(k, p)) if flags & 1 else None
        constraint = ValueAndGradient(self.array(k, m), self.array(k, m, p)) if flags & 2 else None
        memo = self.array(k, w) if w else None
        question = Question(round, agents, points[:, 0] if x is None else x, points, anchor, *gradients, first, memo)
        return question, Values(f, g, loss, constraint)

    def snapshot(self, round: int) -> Snapshot:
        rounds, digest, loss, violation, zero_loss, zero_violation, skew = self.numbers(_STANDING)
        hosts: dict[str, Total] = {}
        while self.at < len(self.data):
            name, total = self.name(), Total(*self.numbers(_TOTAL))
            total.incarnation, total.newest = self.usage()
            hosts[name] = total
        standing = RefereeSnapshot(round, rounds or None, digest, (loss, violation, zero_loss, zero_violation))
        return Snapshot(standing, skew, hosts)
