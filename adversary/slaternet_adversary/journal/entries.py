"""The entries of the journal: what the referee was told, one record each."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from slaternet.errors import Diverged
from slaternet.model import Agents, Departure, Question, StopAt, ValueAndGradient, Values
from slaternet.storage.record_file import SealedRecord
from slaternet_adversary.engine.events import Asked, Commit, Used
from slaternet_adversary.journal.entry_bytes import COUNT, LENGTH, PayloadReader, group_bytes, name_bytes, usage_bytes
from slaternet_adversary.journal.snapshot import Snapshot, snapshot_bytes, snapshot_of
from slaternet_adversary.scoring import Scored

_DIGEST_BYTES = 32

_ROUND = struct.Struct("<Q")

_QUESTION = struct.Struct("<IIIIBd")

_SCORE = struct.Struct("<5d")


class EntryKind(IntEnum):
    """What an entry is."""

    SEATING = 1
    COMMITMENT = 2
    PURCHASE = 3
    SCORE = 4
    USAGE = 5
    STOP = 6
    SNAPSHOT = 7


@dataclass(frozen=True, slots=True)
class SeatingEntry:
    """Which host speaks for which agents, and who leaves when; with the first of them the game begins."""

    hosts: tuple[tuple[str, Agents], ...]
    epoch: int = 1
    departures: tuple[Departure, ...] = ()

    def compare(self, told: "SeatingEntry") -> None:
        """Diverged where the coordinator says something else of the same epoch."""
        known, now = ({name: agents.tolist() for name, agents in seats.hosts} for seats in (self, told))
        if known != now:
            names = ", ".join(sorted(name for name in known | now if known.get(name) != now.get(name)))
            raise Diverged(f"the coordinator seats {names} otherwise than the journal says; put back its state")
        left, leaving = ([(each.round, each.agents.tolist()) for each in seats.departures] for seats in (self, told))
        if left != leaving:
            raise Diverged("the coordinator has other agents leave than the journal says; put back its state")


@dataclass(frozen=True, slots=True)
class Purchase:
    """A question that was granted, and the values it bought."""

    asked: Asked
    values: Values


Entry = SeatingEntry | Commit | Purchase | Scored | Used | StopAt | Snapshot


def encode(entry: Entry) -> tuple[EntryKind, int, tuple[bytes, ...]]:
    """Return an entry as a record's kind and round, and its payload in pieces."""
    match entry:
        case SeatingEntry(hosts, epoch, departures):
            seats = (name_bytes(name) + group_bytes(agents) for name, agents in hosts)
            partings = (_ROUND.pack(each.round) + group_bytes(each.agents) for each in departures)
            return EntryKind.SEATING, epoch, (COUNT.pack(len(hosts)), *seats, *partings)
        case Commit(round, commitments):
            return EntryKind.COMMITMENT, round, tuple(map(bytes.fromhex, commitments))
        case Purchase(asked, values):
            return EntryKind.PURCHASE, asked.question.round, _purchase(asked, values)
        case Scored():
            numbers = entry.loss, entry.violation, entry.zero_loss, entry.zero_violation, entry.disagreement
            return EntryKind.SCORE, entry.round, (_SCORE.pack(*numbers),)
        case Used(host, incarnation, usage):
            return EntryKind.USAGE, usage.round, (usage_bytes(incarnation, usage), name_bytes(host))
        case StopAt(last):
            return EntryKind.STOP, last, ()
        case Snapshot():
            return EntryKind.SNAPSHOT, entry.round, (snapshot_bytes(entry),)


def _purchase(asked: Asked, values: Values) -> tuple[bytes, ...]:
    question, name, (k, s, m) = asked.question, asked.host.encode(), values.g.shape
    flags = question.loss_gradient + 2 * question.constraint_gradient + 4 * question.x_is_first_point
    arrays = [question.points, values.f, values.g]
    if not question.x_is_first_point:
        arrays.insert(0, question.x)
    if question.anchor is not None:
        arrays.append(question.anchor)
    for tangent in (values.loss, values.constraint):
        if tangent is not None:
            arrays += tangent.value, tangent.gradient
    return (
        _QUESTION.pack(k, s, question.x.shape[1], m, flags, asked.at) + LENGTH.pack(len(name)) + name,
        question.agents.astype("<i8").tobytes(),
        *[np.asarray(each, "<f8").tobytes() for each in arrays],
    )


def decode(record: SealedRecord) -> Entry:
    """Return what a record says; Diverged where it is of no kind that is known."""
    rest = _Rest(record.payload)
    match record.kind:
        case EntryKind.SEATING:
            return SeatingEntry(tuple(rest.seats()), record.round, tuple(rest.departures()))
        case EntryKind.COMMITMENT:
            digests = range(0, len(record.payload), _DIGEST_BYTES)
            return Commit(record.round, tuple(record.payload[at : at + _DIGEST_BYTES].hex() for at in digests))
        case EntryKind.PURCHASE:
            return rest.purchase(record.round)
        case EntryKind.SCORE:
            return Scored(record.round, *rest.numbers(_SCORE))
        case EntryKind.USAGE:
            incarnation, usage = rest.usage()
            return Used(rest.name(), incarnation, usage)
        case EntryKind.STOP:
            return StopAt(record.round)
        case EntryKind.SNAPSHOT:
            return snapshot_of(record.round, rest)
        case _:
            raise Diverged(f"the journal has an entry of kind {record.kind}, which is none; put back an undamaged copy")


class _Rest(PayloadReader):
    """What is left of an entry."""

    def seats(self) -> Iterator[tuple[str, Agents]]:
        for _ in range(self.whole(COUNT)):
            yield self.name(), self.agents(self.whole(COUNT))

    def departures(self) -> Iterator[Departure]:
        while self.at < len(self.data):
            yield Departure(self.whole(_ROUND), self.agents(self.whole(COUNT)))

    def purchase(self, round: int) -> Purchase:
        k, s, p, m, flags, at = self.numbers(_QUESTION)
        host, agents = self.name(), self.agents(k)
        gradients, first = (bool(flags & 1), bool(flags & 2)), bool(flags & 4)
        x = None if first else self.array(k, p)
        points, f, g = self.array(k, s, p), self.array(k, s), self.array(k, s, m)
        anchor = self.array(k, p) if any(gradients) else None
        loss = ValueAndGradient(self.array(k), self.array(k, p)) if flags & 1 else None
        constraint = ValueAndGradient(self.array(k, m), self.array(k, m, p)) if flags & 2 else None
        question = Question(round, agents, points[:, 0] if x is None else x, points, anchor, *gradients, first)
        return Purchase(Asked(host, question, at), Values(f, g, loss, constraint))
