"""The tables of the run folder, held against the journal: metrics.csv row by row, summary.json at last."""

import csv
from collections.abc import Iterator, Mapping
from typing import Any

from slaternet.errors import Diverged
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_adversary.scoring import Scored
from slaternet_lab.audit.report import AuditCheck
from slaternet_lab.audit.seating import Plain
from slaternet_lab.runs.run import Run

_NOTHING = (0.0, 0.0, 0.0, 0.0)
_RUNNING = {"cumulative_loss", "cumulative_violation", "zero_loss", "zero_violation", "digest"}
"""Columns that differ from the first difference on, which alone is named."""


class RunFolderCheck:
    """What the run folder says, and what the journal says that it must."""

    def __init__(self, run: Run, metrics: AuditCheck, summary: AuditCheck) -> None:
        self._run = run
        self._metrics = metrics
        self._summary = summary
        self._rows = _rows(run)
        self._complete = bool(run.summary)
        self._astray: set[str] = set()
        self._scored = 0
        self._totals = _NOTHING  # cumulative loss, violation, and both of the baseline

    def begin_after(self, snapshot: Snapshot) -> None:
        """Take the sums up to a round from the journal; of the rows up to it, compare the last with them."""
        round, standing = snapshot.round, snapshot.standing
        self._totals = standing.totals
        self._scored = round // self._run.spec.record.score_every
        row = next((row for count, row in enumerate(self._rows, 1) if count == round), None)
        if row is None:
            raise Diverged(f"it begins after round {round}, of which metrics.csv has no row; put back the right ones")
        due = {"round": str(round), **_named(self._totals), "digest": standing.digest.hex()[:16]}
        for name, value in due.items():
            if row.get(name) != value:
                what = f"{name} is {row.get(name)} in metrics.csv, and by the journal {value}"
                self._metrics.differs(what, round=round)

    def compare(self, round: int, score: Scored | None, agents: int, digest: str) -> None:
        """Compare the row of a round, the one after the last; a game that goes on may not have written it yet."""
        if score is not None:
            gained = score.loss, score.violation, score.zero_loss, score.zero_violation
            loss, violation, zero_loss, zero_violation = (a + b for a, b in zip(self._totals, gained, strict=True))
            self._totals = loss, violation, zero_loss, zero_violation
            self._scored += 1
        row = next(self._rows, None)
        if row is None:
            if self._complete:
                self._metrics.differs("its row is missing in metrics.csv", round=round)
            return
        self._metrics.count += 1
        due = {"round": str(round), **_scores(score), **_named(self._totals), "agents": str(agents), "digest": digest}
        for name, value in due.items():
            if row.get(name) != value and name not in self._astray:
                self._astray |= {name} & _RUNNING
                what = f"{name} is {row.get(name)} in metrics.csv, and by the journal {value}"
                self._metrics.differs(what, round=round)

    def finish(self, run_id: str, rounds: int, digest: str, departures: Plain) -> None:
        """Compare the summary of a game whose every row was compared."""
        if not self._complete:
            self._summary.reason = "there is none yet"
            return
        if next(self._rows, None) is not None:
            self._metrics.differs(f"metrics.csv goes on after round {rounds}, the last of the journal")
        spec, summary = self._run.spec, self._run.summary
        loss, violation, zero_loss, zero_violation = self._totals
        due: dict[str, Any] = {
            "run": run_id,
            "algorithm": spec.algorithm.name,
            "adversary": spec.adversary.plugin,
            "graph": spec.graph.name,
            "agents": spec.run.agents,
            "rounds": rounds,
            "scored_rounds": self._scored,
            "seed": spec.run.seed,
            "departures": departures,
            "cumulative_loss": loss,
            "cumulative_violation": violation,
            "zero_loss": zero_loss,
            "zero_violation": zero_violation,
            "digest": digest,
        }
        self._summary.count = len(due)
        for name, value in due.items():
            if summary.get(name) != value:
                self._summary.differs(f"{name} is {summary.get(name)} in summary.json, and by journal and spec {value}")


def _rows(run: Run) -> Iterator[Mapping[str, str]]:
    """Yield the rows of metrics.csv; one that a crash has torn is none."""
    with (run.folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(line for line in file if line.endswith("\n"))


def _scores(score: Scored | None) -> dict[str, str]:
    if score is None:
        return dict.fromkeys(("loss", "violation", "disagreement"), "")
    return {"loss": f"{score.loss}", "violation": f"{score.violation}", "disagreement": f"{score.disagreement}"}


def _named(totals: tuple[float, float, float, float]) -> dict[str, str]:
    names = ("cumulative_loss", "cumulative_violation", "zero_loss", "zero_violation")
    return {name: f"{total}" for name, total in zip(names, totals, strict=True)}
