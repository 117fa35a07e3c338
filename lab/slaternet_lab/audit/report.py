"""What an audit finds: how much of each thing was checked, and differences by record, round and agent."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Literal, NoReturn

Verdict = Literal["ok", "differs", "not checked"]

_LISTED = 10
"""Differences of one check that are named; the others are counted."""


class ReplayEnded(Exception):
    """An entry of the journal cannot have happened, so that no later one can be replayed."""


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

    def differs(self, what: str, **where: int | None) -> None:
        """Add a difference; `where` are the fields of Discrepancy."""
        if len(self.differences) < _LISTED:
            self.differences.append(Discrepancy(what, **where))
        else:
            self.unnamed += 1

    def end_replay(self, what: str, **where: int | None) -> NoReturn:
        """Add a difference after which the game cannot be replayed any further."""
        self.differs(what, **where)
        raise ReplayEnded(what)

    @property
    def verdict(self) -> Verdict:
        """The result of the check."""
        if self.differences:
            return "differs"
        return "not checked" if self.reason else "ok"

    def sentences(self) -> Iterator[str]:
        """Yield the differences and the note, one sentence each."""
        for each in self.differences:
            yield f"{self.name}: {each}"
        if self.unnamed:
            yield f"{self.name}: {self.unnamed} more"
        if self.note:
            yield f"{self.name}: {self.note}"


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
        """Return differences, reasons and notes, one sentence each; checks that share a reason share its sentence."""
        reasons: defaultdict[str, list[str]] = defaultdict(list)
        for each in self.checks:
            if each.reason:
                reasons[each.reason].append(each.name)
        unchecked = (f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
        return [*(text for each in self.checks for text in each.sentences()), *unchecked, *self.notes]

    def plain(self) -> dict[str, object]:
        """Return the report as plain data, for --json."""
        checks = [{"verdict": each.verdict, **asdict(each)} for each in self.checks]
        return {
            "run": self.run,
            "verdict": self.verdict,
            "rounds": self.rounds,
            "digest": self.digest,
            "checks": checks,
            "notes": list(self.notes),
        }
