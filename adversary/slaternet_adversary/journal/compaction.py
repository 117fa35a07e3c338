"""`--journal-keep`: the journal of a game without end, cut to a snapshot and the newest rounds.

A snapshot is taken where a burst of commitments ends: all entries of later rounds follow the commitment to the next
one. Once as many rounds have followed as are to be kept, and the low-water mark has passed the snapshot, a new journal
is written beside the old one, piece by piece between replies: the snapshot, the seatings, and the entries of later
rounds. Then it replaces the old one. So the journal holds between one and about two times the rounds to be kept, and
each record is rewritten once.
"""

from collections.abc import Callable
from contextlib import suppress

from slaternet.errors import BadSpec, SlaternetError
from slaternet.limits import LIMITS
from slaternet.storage.journal import Journal
from slaternet.storage.record_file import SealedRecord
from slaternet_adversary.engine.events import Commit, RecordRound
from slaternet_adversary.engine.host_costs import NetworkTotals
from slaternet_adversary.journal.entries import EntryKind, decode, encode
from slaternet_adversary.journal.snapshot import Snapshot

LEAST = 2 * LIMITS.checkpoint_every + LIMITS.window
"""2C + L: how far a restarted host may go back from the newest round."""

_KEPT = (EntryKind.SEATING, EntryKind.AMENDMENT)
_TIMELESS = (EntryKind.USAGE, EntryKind.STOP)
_PIECE_BYTES = 1 << 20
"""Bytes of the old journal that are copied between two replies."""


def check_keep(rounds: int | None) -> None:
    """Refuse to keep fewer rounds than a restarted host may go back."""
    if rounds is not None and rounds < LEAST:
        raise BadSpec(
            f"--journal-keep {rounds} is too few: a restarted host may repeat its questions of {LEAST} rounds; keep at "
            f"least {LEAST}, or leave the option out to keep all"
        )


class Compaction:
    """Rewrites a journal so that it begins with a snapshot."""

    def __init__(self, journal: Journal, snapshot: Snapshot) -> None:
        self._journal = journal
        self._snapshot = snapshot
        self._rewriting = journal.rewrite()
        self._append(snapshot)
        self._left = self._rewriting.remainder
        self._reached = False
        """Whether the commitment to the round after the snapshot's was copied: all that follows it is needed."""

    def step(self, secure: Callable[[], None]) -> bool:
        """Copy a piece; return True once the new journal has replaced the old one.

        `secure` makes all results of older rounds survive a loss of power.
        """
        grown = self._rewriting.remainder - self._left
        for record in self._rewriting.read(max(_PIECE_BYTES, 2 * grown)):  # faster than it grows
            self._copy(record)
        self._left = self._rewriting.remainder
        if self._left:
            self._rewriting.sync()  # now, so that the last step does not have to wait for all pieces
            return False
        secure()
        self._journal.succeed(self._rewriting)
        return True

    def _copy(self, record: SealedRecord) -> None:
        last = self._snapshot.round
        if record.kind == EntryKind.COMMITMENT:
            commit = decode(record)
            if not isinstance(commit, Commit) or commit.round + len(commit.commitments) <= last + 1:
                return
            self._reached = True
            first = max(commit.round, last + 1)
            self._append(Commit(first, commit.commitments[first - commit.round :]))
        elif record.kind in _KEPT or (self._reached and (record.round > last or record.kind in _TIMELESS)):
            self._rewriting.append(record.kind, record.round, record.payload)

    def _append(self, entry: Snapshot | Commit) -> None:
        kind, round, payload = encode(entry)
        self._rewriting.append(kind, round, b"".join(payload))

    def abandon(self) -> None:
        """Leave the journal as it is."""
        with suppress(SlaternetError):  # a file left behind is overwritten by the next compaction
            self._rewriting.abandon()


class JournalTrimmer:
    """Decides when and where a journal is cut."""

    def __init__(self, journal: Journal, rounds: int) -> None:
        check_keep(rounds)
        self._journal = journal
        self._rounds = rounds
        self._first = 0
        """The round after which the journal begins."""
        self._snapshot: Snapshot | None = None
        self._recorded = 0
        self._low_water = 0
        self._compaction: Compaction | None = None

    def begin(self, snapshot: Snapshot) -> None:
        """Note that the journal begins with a snapshot."""
        self._first = self._recorded = snapshot.round

    def record(self, record: RecordRound, network: NetworkTotals) -> None:
        """Note a recorded round, in order; `network` has the costs up to it."""
        self._recorded = record.round
        if record.standing is not None and self._snapshot is None and record.round >= self._first + self._rounds:
            self._snapshot = Snapshot.of(record.standing, network)

    def pass_mark(self, low_water: int) -> None:
        """Note the low-water mark."""
        self._low_water = max(self._low_water, low_water)

    @property
    def due(self) -> bool:
        """Whether a piece of compaction can be done."""
        first = None if self._snapshot is None else self._snapshot.round
        return first is not None and self._recorded >= first + self._rounds and self._low_water > first

    def step(self, secure: Callable[[], None]) -> None:
        """Do a piece of the compaction that is due; `secure` as in Compaction.step."""
        if self._snapshot is None or not self.due:
            return
        if self._compaction is None:
            self._compaction = Compaction(self._journal, self._snapshot)
        if self._compaction.step(secure):
            self._first = self._snapshot.round
            self._snapshot = self._compaction = None

    def close(self) -> None:
        """Abandon a compaction under way, and cut nothing any more."""
        if self._compaction is not None:
            self._compaction.abandon()
        self._snapshot = self._compaction = None
