"""The tables of the run folder, compared with the replayed game: metrics.csv row by row, summary.json at the end."""

from collections.abc import Mapping

from slaternet.errors import Diverged
from slaternet_adversary.engine.events import RecordRound
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_adversary.shell.run_folder import TOTALS, lasting_columns
from slaternet_lab.audit.report import AuditCheck
from slaternet_lab.runs.reader import read_rows
from slaternet_lab.runs.run import Run


class RunFolderCheck:
    """metrics.csv and summary.json."""

    def __init__(self, run: Run, metrics: AuditCheck, summary: AuditCheck) -> None:
        self._run = run
        self._metrics = metrics
        self._summary = summary
        self._rows = read_rows(run.folder / "metrics.csv")
        self._named: set[str] = set()
        """Columns that were found to differ: sums and digests do so from the first difference on."""

    def begin_after(self, snapshot: Snapshot) -> None:
        """Skip the rows up to a snapshot's, and compare that one with what the snapshot keeps."""
        round, standing = snapshot.round, snapshot.standing
        row = next((row for count, row in enumerate(self._rows, 1) if count == round), None)
        if row is None:
            raise Diverged(f"it begins after round {round}, of which metrics.csv has no row; put back the right ones")
        totals = dict(zip(TOTALS, standing.totals, strict=True))
        self._compare(round, row, {"round": round, **totals, "digest": standing.digest.hex()[:16]})

    def compare(self, record: RecordRound) -> None:
        """Compare the row of the next round; a game under way may not have written it yet."""
        row = next(self._rows, None)
        if row is not None:
            self._metrics.count += 1
            self._compare(record.round, row, lasting_columns(record))
        elif self._run.summary:
            self._metrics.differs("its row is missing in metrics.csv", round=record.round)

    def _compare(self, round: int, row: Mapping[str, str], due: Mapping[str, object]) -> None:
        for name, value in due.items():
            if row.get(name) != str(value) and name not in self._named:
                self._named.add(name)
                what = f"{name} is {row.get(name)} in metrics.csv, and by the journal {value}"
                self._metrics.differs(what, round=round)

    def finish(self, due: Mapping[str, object]) -> None:
        """Compare the summary of a game whose every row was compared."""
        summary = self._run.summary
        if not summary:
            self._summary.reason = "there is none yet"
            return
        if next(self._rows, None) is not None:
            self._metrics.differs(f"metrics.csv goes on after round {due['rounds']}, the last of the journal")
        self._summary.count = len(due)
        for name, value in due.items():
            if summary.get(name) != value:
                self._summary.differs(f"{name} is {summary.get(name)} in summary.json, and by journal and spec {value}")
