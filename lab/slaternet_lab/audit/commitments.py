"""Commit before reveal: every round's commitment, its place in the journal and its value."""

from slaternet.spec import Spec
from slaternet_adversary.engine import commitments
from slaternet_adversary.engine.events import Commit
from slaternet_lab.audit.report import AuditCheck


class CommitmentCheck:
    """The commitments of a game; `history` is the plugin's, None where there is no plugin to ask."""

    def __init__(self, spec: Spec, check: AuditCheck, history: int | None) -> None:
        self._due = commitments.Commitments(spec.adversary.sha256, spec.adversary.options, spec.run.seed)
        self._check = check
        self._history = history
        self._made: dict[int, tuple[int, str]] = {}
        """By round: the record, and what it says; until the round is checked."""
        self._last = 0
        self._bare = 0
        """The last round that was revealed before its commitment."""

    def begin_after(self, round: int) -> None:
        """Take it that the rounds up to one were committed to."""
        self._last = round

    def enter(self, record: int, commit: Commit) -> None:
        """Take in the commitments of consecutive rounds, each made once and in order."""
        for round, each in enumerate(commit.commitments, commit.round):
            if round == self._last + 1:
                self._made[round] = record, each
                self._last = round
            else:
                what = f"it commits to this round where round {self._last + 1} is due"
                self._check.differs(what, record=record, round=round)

    def reveal(self, record: int, round: int) -> None:
        """Hear that values of a round are sold."""
        if round > self._last and round > self._bare:
            self._bare = round
            what = "values are revealed, and the round is not committed to yet"
            self._check.differs(what, record=record, round=round)

    def compare(self, round: int, digest: bytes) -> None:
        """Compare the commitment of a round with what it must be; `digest` is d_{t-1}."""
        record, found = self._made.pop(round, (None, ""))
        if record is None:
            return  # it was said when the round was revealed
        self._check.count += 1
        known = [b"", digest] if self._history is None else [digest if self._history else b""]
        due = [self._due.of(round, each) for each in known]
        if found not in due:
            what = f"the commitment is {found[:16]}..., and by the spec {due[0][:16]}..."
            self._check.differs(what, record=record, round=round)
