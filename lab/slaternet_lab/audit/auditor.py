"""`audit`: the journal of a run read once, from its title to its end, and everything in it checked on the way.

Who plays in a round is said by the seatings. A round is checked when all of those have bought in it and every earlier
one is checked, so what is kept of the journal is no more than the window that its agents may lie apart.
"""

import hashlib
import struct
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing

import numpy as np

from slaternet.errors import BadSpec, Diverged, SlaternetError
from slaternet.model import Array, Role
from slaternet.storage.disk import DISK
from slaternet.storage.record_file import Reader, SealedRecord
from slaternet_adversary.engine.events import Commit
from slaternet_adversary.journal.entries import Entry, Purchase, SeatingEntry, decode, encode
from slaternet_adversary.journal.journal import JOURNAL, begun
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_adversary.plugin.makers import make_plugin, plugin_maker
from slaternet_adversary.scoring import Scored
from slaternet_lab.audit.commitments import CommitmentCheck
from slaternet_lab.audit.decisions import Decisions
from slaternet_lab.audit.functions import Recreation
from slaternet_lab.audit.graphs import Graphs
from slaternet_lab.audit.purchases import Budgets, Sheet
from slaternet_lab.audit.report import AuditCheck, AuditReport
from slaternet_lab.audit.results import RunFolderCheck
from slaternet_lab.audit.seating import SeatingCheck
from slaternet_lab.runs.run import Run

Watch = Callable[[int, int], None]
"""Is told how many bytes of the journal are checked, and how many it has."""


def audit(run: Run, watch: Watch | None = None) -> AuditReport:
    """Check a run; BadSpec where it has no journal."""
    if not begun(run.folder):
        raise BadSpec(
            f"{run.folder} has no journal, because only games over a network keep one; play it with `slaternet run "
            f"{run.folder}` and audit that"
        )
    with ExitStack() as stack:
        auditor = _Auditor(run, stack)  # which reads the summary: where one stands, the journal is complete
        file = stack.enter_context(closing(DISK.open(run.folder / JOURNAL)))
        reader = Reader(run.folder / JOURNAL, file, largest=file.size())
        return auditor.audit(reader, file.size(), watch or (lambda done, total: None))


class _Auditor:
    """All checks of one run."""

    def __init__(self, run: Run, stack: ExitStack) -> None:
        self._run, self._spec = run, run.spec
        self._journal = AuditCheck("journal", "records")
        self._bought = AuditCheck("budgets", "purchases")
        self._committed = AuditCheck("commitments", "rounds")
        self._connected = AuditCheck("graphs", "matrices")
        self._decided = AuditCheck("decisions", "decisions")
        self._values = AuditCheck("values", "values")
        self._scores = AuditCheck("scores", "rounds")
        self._metrics = AuditCheck("metrics", "rows")
        self._summary = AuditCheck("summary", "entries")
        self._notes: list[str] = []

        self._seating = SeatingCheck(self._spec, self._bought)
        self._budgets = Budgets(self._spec, self._seating, self._bought)
        self._graphs = Graphs(self._spec, self._seating, self._connected)
        self._decisions = Decisions(self._spec, self._decided)
        self._history: int | None = None
        self._recreation = self._recreated(stack)
        self._commitments = CommitmentCheck(self._spec, self._committed, self._history)
        self._results = RunFolderCheck(run, self._metrics, self._summary)

        self._sheets: dict[int, Sheet] = {}
        self._checked = 0
        self._digest = bytes(32)
        self._past: deque[Array] = deque(maxlen=self._history or 0)
        self._unsettled: deque[tuple[int, int, str]] = deque()
        """Rounds that are checked, from the first that waits for its score on: round, agents, digest."""
        self._settled = 0
        """The last round whose row was compared."""
        self._followed = True
        """Whether all that rows and summary follow from is there."""

    def _recreated(self, stack: ExitStack) -> Recreation | None:
        """Return the plugin of the game once more; None where there is no such plugin here, and the report says why."""
        try:
            maker = stack.enter_context(plugin_maker(self._spec))
            plugin, description = make_plugin(self._spec, maker)
            self._history = description.history
        except SlaternetError as error:
            reason = f"not checked: {error}"
        else:
            due = self._spec.adversary.sha256
            if description.code == due:
                return Recreation(self._spec, plugin, maker, self._values, self._scores)
            reason = (
                f"not checked: {self._spec.adversary.plugin} has SHA-256 {description.code[:16]} here and was played "
                f"with {due[:16]}; put that back"
            )
        self._values.reason = self._scores.reason = reason
        return None

    def audit(self, reader: Reader, size: int, watch: Watch) -> AuditReport:
        """Read the journal, of the size that it had when it was opened, and sum up."""
        self._check_title(reader)
        try:
            for record in reader:
                self._journal.count = reader.count
                self._take(reader.count, record)
                watch(reader.end, size)
                if reader.end >= size:
                    break  # a game under way writes on, maybe faster than this reads
        except Diverged as error:
            self._followed = False
            self._journal.differs(str(error))
            self._notes.append("what follows the damage was not checked")
        else:
            self._check_end(torn=max(0, size - reader.end))
        self._budgets.finish()
        if self._followed:
            run = reader.title.get("run", "")
            self._results.finish(run, self._checked, self._digest.hex(), self._seating.departures)
        else:
            self._metrics.reason = f"not checked beyond round {self._settled}: what follows rests on what differs"
            self._summary.reason = "not checked: it rests on what differs"
        return self._report()

    def _check_title(self, reader: Reader) -> None:
        due = {"file": "journal", "role": str(Role.ADVERSARY), "run": self._run.summary.get("run")}
        for name, value in due.items():
            if value is not None and reader.title.get(name) != value:
                self._journal.differs(f"its title says {name} {reader.title.get(name)}, and the run is {name} {value}")

    def _take(self, number: int, record: SealedRecord) -> None:
        entry = _entry(record)
        match entry:
            case None:
                self._journal.differs("it holds nothing that a journal holds", record=number, round=record.round)
            case Snapshot():
                self._begin_after(number, entry)
            case SeatingEntry():
                self._seat(number, entry)
            case Commit():
                self._commitments.enter(number, entry)
            case Purchase():
                self._enter(number, entry)
            case Scored():
                self._enter_score(number, entry)

    def _begin_after(self, number: int, snapshot: Snapshot) -> None:
        """Take the state after a round as the journal says that it was: what led to it is gone."""
        if number > 1:
            self._journal.differs("a snapshot stands where the journal does not begin", record=number)
            return
        self._results.begin_after(snapshot)
        round = self._checked = self._settled = snapshot.round
        self._digest = snapshot.standing.digest
        self._budgets.begin_after(round)
        self._commitments.begin_after(round)
        if self._recreation is not None:
            self._recreation.begin_after(round)
        self._decided.reason = f"not checked: they rest on rounds 1 to {round}, which the journal has no more"
        self._notes.append(
            f"the journal was cut (--journal-keep) and can be checked from round {round + 1} on: of what came before "
            "it has the sums and the digest alone, which are taken as they are"
        )

    def _seat(self, number: int, seats: SeatingEntry) -> None:
        self._seating.enter(number, seats, self._checked)
        kept = {round: sheet.of(self._seating.players(round)) for round, sheet in self._sheets.items()}
        self._sheets = {round: sheet for round, sheet in kept.items() if sheet.purchases}

    def _enter(self, number: int, purchase: Purchase) -> None:
        round = purchase.asked.question.round
        self._commitments.reveal(number, round)
        if not self._budgets.admit(number, purchase):
            return
        if self._budgets.lacking is not None and round >= self._budgets.lacking:
            return  # it will never be complete
        self._sheets.setdefault(round, Sheet.blank(self._spec)).enter(number, purchase)
        while (sheet := self._sheets.get(self._checked + 1)) is not None and self._is_whole(sheet):
            del self._sheets[self._checked + 1]
            self._check_round(self._checked + 1, sheet)

    def _is_whole(self, sheet: Sheet) -> bool:
        return bool(sheet.decided[self._seating.players(self._checked + 1)].all())

    def _check_round(self, round: int, sheet: Sheet) -> None:
        matrix = self._graphs.matrix(round)
        self._commitments.compare(round, self._digest)
        self._decisions.compare(round, matrix, sheet)
        if self._recreation is not None:
            past = np.array(self._past).reshape(-1, *sheet.x.shape) if self._history else None
            self._recreation.compare(round, sheet, past)
        self._past.append(sheet.x)
        self._checked = round
        self._digest = hashlib.sha256(self._digest + sheet.decisions.tobytes()).digest()
        self._unsettled.append((round, len(sheet.decisions), self._digest.hex()[:16]))
        self._settle_unscored()

    def _enter_score(self, number: int, score: Scored) -> None:
        if self._budgets.lacking is not None and score.round >= self._budgets.lacking:
            return  # of a round that is not there
        if self._is_unscored(score.round) or score.round not in (round for round, *_ in self._unsettled):
            what = "it scores a round that is not complete, not to be scored, or scored already"
            self._scores.differs(what, record=number, round=score.round)
            return
        if self._recreation is not None:
            self._recreation.compare_score(number, score)
        while (round := self._unsettled[0][0]) < score.round:
            if not self._is_unscored(round):
                self._lack_score(round)
            self._settle(None)
        self._settle(score)
        self._settle_unscored()

    def _is_unscored(self, round: int) -> bool:
        return round % self._spec.record.score_every != 0

    def _lack_score(self, round: int) -> None:
        self._followed = False
        self._scores.differs("its score is missing", round=round)

    def _settle(self, score: Scored | None) -> None:
        """Compare the row of the first round that is not settled."""
        round, agents, digest = self._unsettled.popleft()
        if self._followed:
            self._results.compare(round, score, agents, digest)
            self._settled = round

    def _settle_unscored(self) -> None:
        """Compare rows up to the first that waits for its score."""
        while self._unsettled and self._is_unscored(self._unsettled[0][0]):
            self._settle(None)

    def _check_end(self, torn: int) -> None:
        """Say how far the journal goes; the summary of a run is written when it goes to the end."""
        self._seating.compare(finished=bool(self._run.summary))
        lacking = self._budgets.lacking
        if lacking is not None:
            self._followed = False
            self._notes.append(f"rounds from {lacking} on were checked for budgets and the order of commitments alone")
        if not self._run.summary:
            newest = max(self._sheets, default=self._checked)
            self._notes.append(
                f"the game is unfinished: it was checked up to round {self._checked}"
                + (f", and has come to round {newest}" if newest > self._checked else "")
            )
            return
        if torn:
            self._journal.differs(f"its last {torn} bytes are no whole record, though the game has ended")
        if self._unsettled:
            self._lack_score(self._unsettled[0][0])
        rounds = self._spec.run.rounds
        if rounds != self._checked and lacking is None:
            self._bought.differs(f"the game has {rounds} rounds, and the journal {self._checked} whole ones")

    def _report(self) -> AuditReport:
        if self._spec.algorithm.mode != "local" and self._checked:  # where everyone is alone, nothing connects
            self._connected.note = str(self._graphs)
        lines = (
            self._journal,
            self._bought,
            self._committed,
            self._connected,
            self._decided,
            self._values,
            self._scores,
            self._metrics,
            self._summary,
        )
        return AuditReport(str(self._run.folder), self._checked, self._digest.hex(), lines, tuple(self._notes))


def _entry(record: SealedRecord) -> Entry | None:
    """Return what a record says; None where it says nothing, or more than its kind does."""
    try:
        entry = decode(record)
        kind, round, payload = encode(entry)
        return entry if (kind, round, b"".join(payload)) == (record.kind, record.round, record.payload) else None
    except (Diverged, struct.error, ValueError, OverflowError):
        return None
