"""Commit before reveal: the order of the commitments in the journal, and whether they are the referee's."""

from slaternet_adversary.engine.events import Commit
from slaternet_lab.audit.report import AuditCheck


class CommitmentCheck:
    """The commitments of a game."""

    def __init__(self, check: AuditCheck) -> None:
        self._check = check
        self._due: dict[int, str] = {}
        self._made: dict[int, tuple[int, str]] = {}
        """By round that is not checked yet: the record, and the commitment."""
        self._last = 0
        self._bare = 0
        """The last round that was revealed before its commitment."""

    def begin_after(self, round: int) -> None:
        """Assume that the rounds up to one were committed to."""
        self._last = round

    def expect(self, commit: Commit) -> None:
        """Keep the commitments that the referee makes when the game is replayed."""
        self._due.update(enumerate(commit.commitments, commit.round))

    def enter(self, record: int, commit: Commit) -> None:
        """Keep the journalled commitments of consecutive rounds, each made once and in order."""
        for round, each in enumerate(commit.commitments, commit.round):
            if round == self._last + 1:
                self._made[round] = record, each
                self._last = round
            else:
                what = f"it commits to this round where round {self._last + 1} is due"
                self._check.differs(what, record=record, round=round)

    def reveal(self, record: int, round: int) -> None:
        """Require that a round is committed to before values of it are sold."""
        if round > max(self._last, self._bare):
            self._bare = round
            what = "values are revealed, and the round is not committed to yet"
            self._check.differs(what, record=record, round=round)

    def compare(self, round: int) -> None:
        """Compare the commitment of a round with the referee's."""
        record, made = self._made.pop(round, (None, ""))
        due = self._due.pop(round)
        if record is None:
            return  # named when the round was revealed
        self._check.count += 1
        if made != due:
            what = f"the commitment is {made[:16]}..., and by the spec {due[:16]}..."
            self._check.differs(what, record=record, round=round)
