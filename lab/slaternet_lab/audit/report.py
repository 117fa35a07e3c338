"""What an audit finds: how much of each thing was checked, and every difference by record, round and agent."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Literal

Verdict = Literal["ok", "differs", "not checked"]

_LISTED = 10
"""Differences of one check that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One thing that is not as it must be, and where: the record's number in the journal, the round, the agent."""

    what: str
    record: int | None = None
    round: int | None = None
    agent: int | None = None

    def __str__(self) -> str:
        places = (("record", self.record), ("round", self.round), ("agent", self.agent))
        where = ", ".join(f"{name} {number}" for name, number in places if number is not None)
        return f"{where}: {self.what}" if where else self.what


@dataclass(slots=True)
class AuditCheck:
    """One line of the report."""

    name: str
    unit: str
    """What is counted."""
    count: int = 0
    reason: str = ""
    """Why not all of it could be checked; empty where it was."""
    note: str = ""
    differences: list[Discrepancy] = field(default_factory=list)
    unnamed: int = 0
    """Differences beyond those that are named."""

    def differs(
        self, what: str, *, record: int | None = None, round: int | None = None, agent: int | None = None
    ) -> None:
        """Write a difference down."""
        if len(self.differences) < _LISTED:
            self.differences.append(Discrepancy(what, record, round, agent))
        else:
            self.unnamed += 1

    @property
    def verdict(self) -> Verdict:
        """What has come of it."""
        if self.differences:
            return "differs"
        return "not checked" if self.reason else "ok"

    def sentences(self) -> Iterator[str]:
        """Yield what there is to say beyond the verdict."""
        for each in self.differences:
            yield f"{self.name}: {each}"
        if self.unnamed:
            yield f"{self.name}: {self.unnamed} more"
        for text in filter(None, (self.reason, self.note)):
            yield f"{self.name}: {text}"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The checks of one run."""

    run: str
    rounds: int
    """The last round that the journal holds whole, and that was checked."""
    digest: str
    """d_t of that round."""
    checks: tuple[AuditCheck, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Of all checks together: `differs` if anything does."""
        verdicts = {each.verdict for each in self.checks}
        return next((worst for worst in ("differs", "not checked") if worst in verdicts), "ok")

    def sentences(self) -> list[str]:
        """Return what there is to say beyond the table, one sentence each."""
        return [*(text for each in self.checks for text in each.sentences()), *self.notes]

    def plain(self) -> dict[str, object]:
        """Return it for programs."""
        checks = [{"verdict": each.verdict, **asdict(each)} for each in self.checks]
        return {
            "run": self.run,
            "verdict": self.verdict,
            "rounds": self.rounds,
            "digest": self.digest,
            "checks": checks,
            "notes": list(self.notes),
        }
