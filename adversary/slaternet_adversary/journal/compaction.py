"""`--journal-keep`: the journal of a game without end, cut to a snapshot and the newest rounds.

A snapshot is taken where a burst of commitments ends, since all that was journalled for later rounds comes after the
commitment to the next one. When as many rounds have followed it as are to be kept, and every host's low-water mark has
passed it, the journal is written anew beside itself: the snapshot, the seatings, and what is of later rounds. That goes
piece by piece between replies; at last the new one takes the place of the old. So the journal holds between one and
about two times the rounds to be kept, and each record is written anew once.
"""

from collections.abc import Callable
from contextlib import suppress

from slaternet.errors import BadSpec, SlaternetError
from slaternet.limits import LIMITS
from slaternet.storage.journal import Journal
from slaternet.storage.record_file import SealedRecord as Entered
from slaternet_adversary.engine.events import Commit, RecordRound
from slaternet_adversary.engine.host_costs import NetworkTotals
from slaternet_adversary.journal.entries import EntryKind, decode, encode
from slaternet_adversary.journal.snapshot import Snapshot

LEAST = 2 * LIMITS.checkpoint_every + LIMITS.window
"""2C + L: how far the newest round may lie from one that a host goes back to."""

_TIMELESS = (EntryKind.USAGE, EntryKind.STOP)
_PIECE_BYTES = 1 << 20
"""What is read of the old journal between two replies."""


def check_keep(rounds: int | None) -> None:
    """Refuse to keep fewer rounds than hosts may go back."""
    if rounds is not None and rounds < LEAST:
        raise BadSpec(
            f"--journal-keep {rounds} is too few: hosts that come back may ask about {LEAST} rounds once more; keep at "
            f"least {LEAST}, or leave the option out to keep all"
        )


class Compaction:
    """A journal on its way to begin with a snapshot."""

    def __init__(self, journal: Journal, snapshot: Snapshot) -> None:
        self._journal = journal
        self._snapshot = snapshot
        self._rewriting = journal.rewrite()
        self._append(snapshot)
        self._left = self._rewriting.remainder
        self._reached = False
        """Whether what follows is needed: the round after the snapshot's is committed to."""

    def step(self, secure: Callable[[], None]) -> bool:
        """Do a piece; when True is returned, the new journal stands in its place.

        `secure` returns once all that follows from older rounds would survive a loss of power.
        """
        grown = self._rewriting.remainder - self._left
        for record in self._rewriting.read(max(_PIECE_BYTES, 2 * grown)):  # faster than it grows
            self._copy(record)
        self._left = self._rewriting.remainder
        if self._left:
            self._rewriting.sync()  # piece by piece: the last one shall not have to wait for all of them
            return False
        secure()
        self._journal.succeed(self._rewriting)
        return True

    def _copy(self, record: Entered) -> None:
        last = self._snapshot.round
        if record.kind == EntryKind.COMMITMENT:
            commit = decode(record)
            if not isinstance(commit, Commit) or commit.round + len(commit.commitments) <= last + 1:
                return
            self._reached = True
            first = max(commit.round, last + 1)
            self._append(Commit(first, commit.commitments[first - commit.round :]))
        elif record.kind == EntryKind.SEATING or (self._reached and (record.round > last or record.kind in _TIMELESS)):
            self._rewriting.append(record.kind, record.round, record.payload)

    def _append(self, entry: Snapshot | Commit) -> None:
        kind, round, payload = encode(entry)
        self._rewriting.append(kind, round, b"".join(payload))

    def abandon(self) -> None:
        """Leave the journal as it is."""
        with suppress(SlaternetError):  # what is left then is written over by the next one
            self._rewriting.abandon()


class JournalTrimmer:
    """When a journal is cut, and where."""

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
        """Hear that the journal begins with a snapshot."""
        self._first = self._recorded = snapshot.round

    def record(self, record: RecordRound, network: NetworkTotals) -> None:
        """Hear of a round that is recorded, before any later one; `network` has the costs up to it."""
        self._recorded = record.round
        if record.standing is not None and self._snapshot is None and record.round >= self._first + self._rounds:
            self._snapshot = Snapshot.of(record.standing, network)

    def pass_mark(self, low_water: int) -> None:
        """Hear how far every host has come that may go back."""
        self._low_water = max(self._low_water, low_water)

    @property
    def due(self) -> bool:
        """Whether there is something to do."""
        snapshot = self._snapshot
        return (
            snapshot is not None
            and self._recorded >= snapshot.round + self._rounds
            and self._low_water > snapshot.round
        )

    def step(self, secure: Callable[[], None]) -> None:
        """Do a piece of what is due; Compaction.step says what `secure` does."""
        if self._snapshot is None or not self.due:
            return
        if self._compaction is None:
            self._compaction = Compaction(self._journal, self._snapshot)
        if self._compaction.step(secure):
            self._first = self._snapshot.round
            self._snapshot = self._compaction = None

    def close(self) -> None:
        """Have done with it: nothing is cut any more."""
        if self._compaction is not None:
            self._compaction.abandon()
        self._snapshot = self._compaction = None
