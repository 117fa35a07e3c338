"""The adversary's journal: opened, recovered, appended before anything is answered."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from slaternet.attendance import Attendance
from slaternet.errors import Diverged
from slaternet.limits import LIMITS, Limits
from slaternet.model import Role
from slaternet.storage import journal
from slaternet.storage.disk import DISK, Disk
from slaternet.storage.journal import Durability, Journal
from slaternet_adversary.engine.events import Commit
from slaternet_adversary.journal.entries import Entry, EntryKind, Purchase, SeatingEntry, decode, encode

JOURNAL = Path("journal") / "adversary"
"""Where the journal stands in a run folder."""


def begun(folder: Path, *, disk: Disk = DISK) -> bool:
    """Say whether there is a journal in a run folder."""
    path = folder / JOURNAL
    return path.name in disk.names(path.parent)


def read(folder: Path, *, disk: Disk = DISK) -> Iterator[Entry]:
    """Return the entries of the journal in a run folder, for whoever checks them; nothing is written."""
    return map(decode, journal.read(folder / JOURNAL, disk=disk))


@dataclass(slots=True)
class AdversaryJournal:
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
        counts = kind == EntryKind.SEATING or (kind == EntryKind.PURCHASE and round % LIMITS.checkpoint_every == 0)
        self.journal.append(kind, round, *payload, sync=counts and self._completes(entry))

    def _completes(self, entry: Entry) -> bool:
        """Count who has bought in a round of checkpoints, and say whether this was the last."""
        if isinstance(entry, SeatingEntry):
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
