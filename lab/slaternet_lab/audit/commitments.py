"""Commit before reveal: the order of the commitments in the journal, and whether they are the referee's.

Where the plugin was changed within the game, each segment is compared by the hash of its own code.
"""

from collections.abc import Sequence

from slaternet.errors import Diverged
from slaternet.spec import Spec
from slaternet_adversary.engine.amendments import Amendment, Segment, segments
from slaternet_adversary.engine.events import Commit
from slaternet_lab.audit.report import AuditCheck


def segments_of(spec: Spec) -> tuple[Segment, ...]:
    """Return which code the adversary was committed to from which round on, as the spec of a run folder lists it."""
    listed = spec.adversary.segments
    return tuple(Segment(each.round, each.sha256) for each in listed or ()) or (Segment(1, spec.adversary.sha256),)


class CommitmentCheck:
    """The commitments of a game with these segments."""

    def __init__(self, check: AuditCheck, listed: Sequence[Segment]) -> None:
        self._check = check
        self._listed = tuple(listed)
        self._amendments: list[Amendment] = []
        self._due: dict[int, str] = {}
        self._made: dict[int, tuple[int, str]] = {}
        """By round that is not checked yet: the record, and the commitment."""
        self._last = 0
        self._bare = 0
        """The last round that was revealed before its commitment."""
        self._revealed = 0

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

    def amend(self, record: int, amendment: Amendment, *, whole: int) -> str:
        """Expect commitments from the amendment's round on anew; return what it means, in a sentence.

        All agents have bought the rounds up to `whole`.
        """
        first = amendment.round
        if first <= self._revealed:
            what = f"the plugin is changed from this round on, after values of round {self._revealed} were revealed"
            self._check.differs(what, record=record, round=first)
        self._last = min(self._last, first - 1)
        self._made = {round: each for round, each in self._made.items() if round < first}
        self._amendments.append(amendment)
        codes = f"SHA-256 {_short(amendment.old)} to {_short(amendment.new)}"
        others = f", and from round {whole + 1} on for agents that had not bought yet" if whole + 1 < first else ""
        return (
            f"the plugin was changed ({codes}): from round {first} on its functions could be chosen anew{others}; the "
            "values bought before are compared with those of the newest code"
        )

    def compare_segments(self) -> None:
        """Compare the amendments of the whole journal with the segments of the spec."""
        try:
            made = segments(self._amendments[0].old, self._amendments) if self._amendments else self._listed[:1]
        except Diverged as error:
            self._check.differs(str(error))
            return
        if made != self._listed:
            found, due = (
                ", ".join(f"{_short(each.code)} from round {each.round} on" for each in some)
                for some in (self._listed, made)
            )
            self._check.differs(f"spec.toml lists the code {found}, and by the journal it is {due}")

    def reveal(self, record: int, round: int) -> None:
        """Require that a round is committed to before values of it are sold."""
        self._revealed = max(self._revealed, round)
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


def _short(code: str) -> str:
    return f"{code[:16]}..." if code else "unknown"
