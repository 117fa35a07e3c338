"""The adversary's journal: opened, replayed after a restart, appended to before every reply."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np

from slaternet.attendance import Attendance
from slaternet.errors import Damaged, Diverged
from slaternet.limits import LIMITS, Limits
from slaternet.model import Role
from slaternet.storage import journal
from slaternet.storage.disk import DISK, Disk, refuse_link
from slaternet.storage.files import refusing
from slaternet.storage.journal import Durability, Journal
from slaternet_adversary.engine.amendments import Amendment, Segment, segments
from slaternet_adversary.engine.events import Asked, Batch, Commit
from slaternet_adversary.journal.entries import (
    BatchPurchase,
    Entry,
    EntryKind,
    Purchase,
    SeatingEntry,
    decode,
    encode,
    purchases,
)
from slaternet_adversary.journal.snapshot import Snapshot

JOURNAL = Path("journal") / "adversary"
"""The path of the journal in a run folder."""


def begun(folder: Path, *, disk: Disk = DISK) -> bool:
    """Whether there is a journal in a run folder."""
    return JOURNAL.name in disk.names(folder / JOURNAL.parent)


def read(folder: Path, *, disk: Disk = DISK) -> Iterator[Entry]:
    """Yield the entries of the journal in a run folder, read-only, and of a batch each purchase."""
    for record in journal.read(folder / JOURNAL, disk=disk):
        entry = decode(record)
        yield from purchases(entry) or (entry,)


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a journal, in short."""

    held: range
    """The rounds that it holds whole."""
    unrevealed: int
    """The first round of which it holds no values."""
    amendments: tuple[Amendment, ...]


def survey(folder: Path, *, least: int = 0, disk: Disk = DISK) -> Contents:
    """Return what the journal in a run folder holds, read-only; a last record may be torn.

    Damaged where its rounds end before round `least`: the low-water mark M, up to which no journal loses anything.
    Hosts do not ask again for what came before it, so a game could never go on.
    """
    first, last, attendance = 0, np.zeros(0, np.int64), Attendance(0)
    amendments: list[Amendment] = []
    with refusing(f"{folder / JOURNAL} names agents that have no seat; put back the right one", Damaged):
        for record in journal.read(folder / JOURNAL, torn=True, disk=disk):
            entry = decode(record)
            if isinstance(entry, Snapshot):
                first = entry.round
            elif isinstance(entry, SeatingEntry):
                attendance = Attendance(sum(len(agents) for _, agents in entry.hosts), entry.departures)
                last = last if last.size else np.full(attendance.ends.size, first)  # by agent, the last round bought
            elif isinstance(entry, Amendment):
                amendments.append(entry)
            for each in purchases(entry):
                last[each.asked.question.agents] = each.asked.question.round
        playing = last[last < attendance.ends - 1]
    newest = int(last.max(initial=first))
    reach = int(playing.min()) if playing.size else newest
    if reach < least:
        raise Damaged(
            f"{folder / JOURNAL} ends in round {reach}, and it was complete up to round {least}, from which hosts go "
            "on; put back an undamaged copy, or begin the whole game anew"
        )
    return Contents(range(first + 1, reach + 1), newest + 1, tuple(amendments))


@dataclass(slots=True)
class AdversaryJournal:
    """The journal of a game in progress."""

    folder: Path
    file: Journal
    _replaying: bool = False
    _made: dict[int, str] = field(default_factory=dict)
    """Commitments, by round, that are not recorded yet."""
    _written: dict[int, str] = field(default_factory=dict)
    """Commitments, by round, that a previous process has recorded and this one has not made again yet."""
    disk: Disk = DISK
    limits: Limits = LIMITS
    _attendance: Attendance = field(default_factory=lambda: Attendance(0))
    _bought: dict[int, set[int]] = field(default_factory=dict)
    """By round: the agents that have bought, while others have not."""
    contents: Contents = Contents(range(0), 1, ())
    """What a previous process has recorded."""
    reasked: range = range(0)
    """Of the rounds that a previous process has recorded, those whose answers are asked for again in the replay."""
    amendment: Amendment | None = None
    """What is recorded when the replay has shown that the plugin agrees with all of it."""

    @classmethod
    def open(
        cls,
        folder: Path,
        run: str,
        *,
        again: bool = False,
        low_water: int = 0,
        durability: Durability = Durability.KILL,
        disk: Disk = DISK,
        limits: Limits = LIMITS,
    ) -> Self:
        """Begin the journal of a run folder, or `again` open it, to be replayed.

        BadSpec where it is another game's, Diverged where it ends before the low-water mark: nothing is written then.
        """
        path, opening = folder / JOURNAL, Journal.open if again else Journal.create
        refuse_link(path.parent)
        journal = opening(path, role=Role.ADVERSARY, run=run, durability=durability, disk=disk)
        if not again:
            return cls(folder, journal, disk=disk, limits=limits)
        try:
            contents = survey(folder, least=low_water, disk=disk)
            disk.sync_folder(path.parent)  # the previous process may have died before the directory entry was synced
        except BaseException:
            journal.close()
            raise
        every = -(-len(contents.held) // limits.reasked_rounds) or 1
        reasked = contents.held[::-every]
        return cls(folder, journal, _replaying=True, disk=disk, limits=limits, contents=contents, reasked=reasked)

    def last_code(self, begun_with: str) -> str:
        """Return the code that a game was last played with."""
        made = self.contents.amendments
        return made[-1].new if made else begun_with

    def segments(self, begun_with: str, code: str) -> tuple[Segment, ...]:
        """Return the segments of a game that was begun with one code and is played on with `code`.

        Where that is not the code it was last played with, all answers are asked for again in the replay, and at its
        end an amendment is recorded.
        """
        made, played = list(self.contents.amendments), self.last_code(begun_with)
        if code != played:
            self.amendment = Amendment(self.contents.unrevealed, played, code)
            self.reasked = range(1, self.contents.unrevealed)
            made.append(self.amendment)
        return segments(made[0].old if made else code, made)

    def replay(self) -> Iterator[Entry]:
        """Yield the entries recorded, commitments only where no later amendment has made them anew.

        Last come this process's own amendment, and the commitments made meanwhile: they are recorded now.
        """
        ahead = [each.round for each in (*self.contents.amendments, self.amendment) if each is not None]
        for record in self.file.replay():
            entry = decode(record)
            self._completes(entry)
            if isinstance(entry, Commit):
                if ahead:
                    entry = replace(entry, commitments=entry.commitments[: max(0, ahead[0] - entry.round)])
                _match(entry, self._made, self._written)
            elif isinstance(entry, Amendment):
                del ahead[0]
            yield entry
        self._replaying = False
        if self.amendment is not None:
            yield self.amendment  # before it is recorded: what depends on the old commitments is taken back first
            self.append(self.amendment)
        if (missing := self._write_commitments()) is not None:
            yield missing

    def append(self, entry: Entry) -> None:
        """Record an entry; when this returns it outlives the process.

        The last purchase of a checkpoint round makes the journal survive a loss of power as well: checkpoints do, and
        a host that continues from one must find here all that came before.
        """
        kind, round, payload = encode(entry)
        sold = kind in (EntryKind.PURCHASE, EntryKind.BATCH)
        counts = kind == EntryKind.SEATING or (sold and round % LIMITS.checkpoint_every == 0)
        lasting = kind == EntryKind.AMENDMENT or (counts and self._completes(entry))
        self.file.append(kind, round, *payload, sync=lasting)

    def _completes(self, entry: Entry) -> bool:
        """Count purchases in a checkpoint round; return whether this was the last."""
        if isinstance(entry, SeatingEntry):
            self._attendance = Attendance(sum(len(agents) for _, agents in entry.hosts), entry.departures)
        match entry:
            case Purchase(Asked(_, question)) | BatchPurchase(Batch(_, question)):
                round, agents = question.round, question.agents
            case _:
                return False
        if round % self.limits.checkpoint_every:
            return False
        bought = self._bought.setdefault(round, set())
        bought.update(agents.tolist())
        if not bought.issuperset(self._attendance.players(round).tolist()):
            return False
        del self._bought[round]
        return True

    def commit(self, commit: Commit) -> Commit | None:
        """Record commitments, once, and return the new ones; Diverged where a previous process made others."""
        _match(commit, self._written, self._made)
        return None if self._replaying else self._write_commitments()

    def _write_commitments(self) -> Commit | None:
        if not self._made:
            return None
        # of consecutive rounds: they are made and recorded in order
        missing = Commit(min(self._made), tuple(self._made.values()))
        self._made.clear()
        self.append(missing)
        return missing

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _match(commit: Commit, expected: dict[int, str], others: dict[int, str]) -> None:
    """Compare commitments with the expected ones; add those that nothing was expected of to `others`."""
    for round, each in enumerate(commit.commitments, commit.round):
        known = expected.pop(round, None)
        if known is None:
            others[round] = each
        elif known != each:
            raise Diverged(
                f"the commitment of round {round} is not the one in the journal: the plugin, its options or what it "
                "knows are not those the round was played with; put them back, or begin anew with --fresh and --force"
            )
