"""The adversary's journal: all that its referee was told, written down before anyone outside can know of it.

    kind         round      payload
    SEATING      epoch      how many hosts (4 bytes); for each: name, how many agents (4 bytes), the agents;
                            for every departure: its round (8 bytes), how many agents (4 bytes), the agents
    COMMITMENT   the first  32 bytes for each of consecutive rounds
    PURCHASE     its own    k, s, p, m (4 bytes each), flags (1), seconds since the game began, the host's name,
                            agents (k), x (k, p) unless it is the first point (flags & 4), points (k, s, p), f (k, s),
                            g (k, s, m);
                            where any gradient is asked for (flags & 3): anchor (k, p);
                            where the loss's is (flags & 1): value (k), gradient (k, p);
                            where the constraints' are (flags & 2): value (k, m), gradient (k, m, p)
    SCORE        its own    loss, violation, both of the baseline, disagreement
    USAGE        its own    a usage, the host's name
    STOP         the last   nothing: the game ends with that round, or has ended earlier and is played on to it
    SNAPSHOT     its own    the state after that round: the last round of the game (8 bytes, 0: none), d_t (32 bytes),
                            cumulative loss and violation, both of the baseline, the sum of the skews; for each host:
                            name, frames, bytes sent and bytes received so far (8 bytes each), seconds waited, lags,
                            its newest usage

Numbers are little-endian: seconds and all values float64, agents int64. A name is its length (2 bytes) and its bytes.
A usage is the incarnation, the round up to which it counts, frames, bytes sent and bytes received (8 bytes each), and
the seconds waited; all that the incarnation has spent so far.

Whoever hands a fresh referee these entries one after the other has the state of the one that was told them first. A
journal that was cut (slaternet_adversary.compaction) begins with a snapshot, and goes on with seatings and with what is
of later rounds.

Reserved in this version: kind 8 for a batch of purchases that are answered together, kind 9 for an amendment of the
plugin (round, old and new hash), kind 10 for an incident (round, process, sentence, evidence); flags & 8 of a purchase
for memos (k, w) after its other numbers, w (4 bytes) first.

A purchase of an agent in a round before which, as a later seating says, it has left the game is void.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Self

import numpy as np

from slaternet import journal
from slaternet.departures import Attendance
from slaternet.disk import DISK, Disk
from slaternet.errors import Diverged
from slaternet.journal import Durability, Journal
from slaternet.limits import LIMITS, Limits
from slaternet.model import Agents, Departure, Question, Role, StopAt, Tangent, Values
from slaternet.records import Record
from slaternet_adversary.events import Asked, Commit, Scored, Used
from slaternet_adversary.payloads import COUNT, LENGTH, Rest, group_bytes, name_bytes, usage_bytes
from slaternet_adversary.snapshot import Snapshot, snapshot_bytes, snapshot_of

JOURNAL = Path("journal") / "adversary"
"""Where the journal stands in a run folder."""

_DIGEST_BYTES = 32
_ROUND = struct.Struct("<Q")
_QUESTION = struct.Struct("<IIIIBd")
_SCORE = struct.Struct("<5d")


class Kind(IntEnum):
    """What an entry is."""

    SEATING = 1
    COMMITMENT = 2
    PURCHASE = 3
    SCORE = 4
    USAGE = 5
    STOP = 6
    SNAPSHOT = 7


@dataclass(frozen=True, slots=True)
class Seats:
    """Which host speaks for which agents, and who leaves when; with the first of them the game begins."""

    hosts: tuple[tuple[str, Agents], ...]
    epoch: int = 1
    departures: tuple[Departure, ...] = ()

    def compare(self, told: "Seats") -> None:
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


Entry = Seats | Commit | Purchase | Scored | Used | StopAt | Snapshot


def encode(entry: Entry) -> tuple[Kind, int, tuple[bytes, ...]]:
    """Return an entry as a record's kind and round, and its payload in pieces."""
    match entry:
        case Seats(hosts, epoch, departures):
            seats = (name_bytes(name) + group_bytes(agents) for name, agents in hosts)
            partings = (_ROUND.pack(each.round) + group_bytes(each.agents) for each in departures)
            return Kind.SEATING, epoch, (COUNT.pack(len(hosts)), *seats, *partings)
        case Commit(round, commitments):
            return Kind.COMMITMENT, round, tuple(map(bytes.fromhex, commitments))
        case Purchase(asked, values):
            return Kind.PURCHASE, asked.question.round, _purchase(asked, values)
        case Scored():
            numbers = entry.loss, entry.violation, entry.zero_loss, entry.zero_violation, entry.disagreement
            return Kind.SCORE, entry.round, (_SCORE.pack(*numbers),)
        case Used(host, incarnation, usage):
            return Kind.USAGE, usage.round, (usage_bytes(incarnation, usage), name_bytes(host))
        case StopAt(last):
            return Kind.STOP, last, ()
        case Snapshot():
            return Kind.SNAPSHOT, entry.round, (snapshot_bytes(entry),)


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


def decode(record: Record) -> Entry:
    """Return what a record says; Diverged where it is of no kind that is known."""
    rest = _Rest(record.payload)
    match record.kind:
        case Kind.SEATING:
            return Seats(tuple(rest.seats()), record.round, tuple(rest.departures()))
        case Kind.COMMITMENT:
            digests = range(0, len(record.payload), _DIGEST_BYTES)
            return Commit(record.round, tuple(record.payload[at : at + _DIGEST_BYTES].hex() for at in digests))
        case Kind.PURCHASE:
            return rest.purchase(record.round)
        case Kind.SCORE:
            return Scored(record.round, *rest.numbers(_SCORE))
        case Kind.USAGE:
            incarnation, usage = rest.usage()
            return Used(rest.name(), incarnation, usage)
        case Kind.STOP:
            return StopAt(record.round)
        case Kind.SNAPSHOT:
            return snapshot_of(record.round, rest)
        case _:
            raise Diverged(f"the journal has an entry of kind {record.kind}, which is none; put back an undamaged copy")


class _Rest(Rest):
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
        loss = Tangent(self.array(k), self.array(k, p)) if flags & 1 else None
        constraint = Tangent(self.array(k, m), self.array(k, m, p)) if flags & 2 else None
        question = Question(round, agents, points[:, 0] if x is None else x, points, anchor, *gradients, first)
        return Purchase(Asked(host, question, at), Values(f, g, loss, constraint))


def begun(folder: Path, *, disk: Disk = DISK) -> bool:
    """Say whether there is a journal in a run folder."""
    path = folder / JOURNAL
    return path.name in disk.names(path.parent)


def read(folder: Path, *, disk: Disk = DISK) -> Iterator[Entry]:
    """Return the entries of the journal in a run folder, for whoever checks them; nothing is written."""
    return map(decode, journal.read(folder / JOURNAL, disk=disk))


@dataclass(slots=True)
class Chronicle:
    """The journal of a game that is played."""

    folder: Path
    journal: Journal
    _replaying: bool = False
    _made: dict[int, str] = field(default_factory=dict)
    """Commitments, by round, that are not written down yet."""
    _written: dict[int, str] = field(default_factory=dict)
    """Commitments, by round, that an earlier life has written down and this one has not made again yet."""
    disk: Disk = DISK
    limits: Limits = LIMITS
    _attendance: Attendance = field(default_factory=lambda: Attendance(0))
    _bought: dict[int, set[int]] = field(default_factory=dict)
    """Who has bought, by round, where not all have yet."""

    @classmethod
    def begin(
        cls,
        folder: Path,
        run: str,
        *,
        durability: Durability = Durability.KILL,
        disk: Disk = DISK,
        limits: Limits = LIMITS,
    ) -> Self:
        """Begin the journal of a game in its run folder."""
        path = folder / JOURNAL
        created = Journal.create(path, role=Role.ADVERSARY, run=run, durability=durability, disk=disk)
        return cls(folder, created, disk=disk, limits=limits)

    @classmethod
    def resume(
        cls,
        folder: Path,
        run: str,
        *,
        durability: Durability = Durability.KILL,
        disk: Disk = DISK,
        limits: Limits = LIMITS,
    ) -> Self:
        """Go on with the journal in a run folder: `replay` it first. BadSpec where it is another game's."""
        path = folder / JOURNAL
        opened = Journal.open(path, role=Role.ADVERSARY, run=run, durability=durability, disk=disk)
        # who has begun it may have died before its name was safe: from here on it counts
        disk.sync_folder(path.parent)
        return cls(folder, opened, True, disk=disk, limits=limits)

    def replay(self) -> Iterator[Entry]:
        """Return what is written, one by one; last, those commitments made meanwhile that have to be written yet."""
        for record in self.journal.replay():
            entry = decode(record)
            self._completes(entry)
            if isinstance(entry, Commit):
                _match(entry, self._made, self._written)
            yield entry
        self._replaying = False
        if (missing := self._write_commitments()) is not None:
            yield missing

    def append(self, entry: Entry) -> None:
        """Write an entry down; when this returns it outlives the process.

        With the last purchase of a round of which hosts write checkpoints, a loss of power as well: checkpoints survive
        one, and who goes on from them must find here all that came before.
        """
        kind, round, payload = encode(entry)
        counts = kind == Kind.SEATING or (kind == Kind.PURCHASE and round % LIMITS.checkpoint_every == 0)
        self.journal.append(kind, round, *payload, sync=counts and self._completes(entry))

    def _completes(self, entry: Entry) -> bool:
        """Count who has bought in a round of checkpoints, and say whether this was the last."""
        if isinstance(entry, Seats):
            self._attendance = Attendance(sum(len(agents) for _, agents in entry.hosts), entry.departures)
        if not isinstance(entry, Purchase) or entry.asked.question.round % self.limits.checkpoint_every:
            return False
        round, agents = entry.asked.question.round, entry.asked.question.agents
        bought = self._bought.setdefault(round, set())
        bought.update(agents.tolist())
        if not bought.issuperset(self._attendance.players(round).tolist()):
            return False
        del self._bought[round]
        return True

    def commit(self, commit: Commit) -> Commit | None:
        """Write commitments down, once, and return those that are new; Diverged where an earlier life had others."""
        _match(commit, self._written, self._made)
        return None if self._replaying else self._write_commitments()

    def _write_commitments(self) -> Commit | None:
        if not self._made:
            return None
        # of consecutive rounds: they are made in order, and written down in order
        missing = Commit(min(self._made), tuple(self._made.values()))
        self._made.clear()
        self.append(missing)
        return missing

    def close(self) -> None:
        """Let go of the file."""
        self.journal.close()


def _match(commit: Commit, expected: dict[int, str], others: dict[int, str]) -> None:
    """Compare commitments with those that are expected; the others are expected from now on."""
    for round, each in enumerate(commit.commitments, commit.round):
        known = expected.pop(round, None)
        if known is None:
            others[round] = each
        elif known != each:
            raise Diverged(
                f"the commitment of round {round} is not the one in the journal: the plugin, its options or what it "
                "knows are not those the round was played with; put them back, or begin anew with --fresh and --force"
            )
