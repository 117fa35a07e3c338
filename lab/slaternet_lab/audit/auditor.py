"""`audit`: the journal of a run, replayed by a fresh referee and compared with what the run folder holds.

The referee enforces the rules of the game: an entry that it refuses is named, and nothing after it is checked. What the
referee does not know is compared beside it: seatings, graphs, decisions, and the values and scores of the functions. A
round is compared as soon as the referee has all its decisions, so that no more of the journal is kept in memory than
the window by which hosts may run ahead of each other.
"""

import struct
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import replace

import numpy as np

from slaternet.attendance import FOREVER
from slaternet.errors import BadSpec, Diverged, Forgotten, Refused, SlaternetError, Unready
from slaternet.model import Description, LowWater, Role
from slaternet.spec import Spec
from slaternet.storage.disk import DISK
from slaternet.storage.record_file import Reader, SealedRecord
from slaternet_adversary.engine import events
from slaternet_adversary.engine.amendments import Amendment
from slaternet_adversary.engine.batches import select_agents
from slaternet_adversary.engine.commitments import Commitments
from slaternet_adversary.journal.entries import BatchPurchase, Entry, Purchase, SeatingEntry, decode, encode, purchases
from slaternet_adversary.journal.journal import JOURNAL, begun
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_adversary.scoring import Scored
from slaternet_adversary.shell.build import build_referee
from slaternet_adversary.shell.incident_file import INCIDENTS, read_incidents
from slaternet_adversary.shell.run_folder import lasting_summary
from slaternet_lab.audit.commitments import CommitmentCheck, segments_of
from slaternet_lab.audit.decisions import Decisions
from slaternet_lab.audit.functions import Recreation, arrays_of
from slaternet_lab.audit.graphs import Graphs
from slaternet_lab.audit.report import AuditCheck, AuditReport, ReplayEnded
from slaternet_lab.audit.results import RunFolderCheck
from slaternet_lab.audit.seating import SeatingCheck
from slaternet_lab.runs.run import Run

Watch = Callable[[int, int], None]
"""Receives how many bytes of the journal are checked, and how many there are."""

_UNITS = {
    "journal": "records",
    "budgets": "purchases",
    "commitments": "rounds",
    "graphs": "matrices",
    "decisions": "decisions",
    "values": "values",
    "scores": "rounds",
    "metrics": "rows",
    "summary": "entries",
}
"""The checks in the order of the report, and what each of them counts."""

_TWICE = "it buys a second time in this round"


def audit(run: Run, watch: Watch | None = None) -> AuditReport:
    """Check a run; BadSpec where it has no journal."""
    path = run.folder / JOURNAL
    if not begun(run.folder):
        raise BadSpec(
            f"{run.folder} has no journal, because only games over a network keep one; play it with `slaternet run "
            f"{run.folder}` and audit that"
        )
    finished = bool(run.summary)  # read before the journal: where a summary stands, the journal is complete
    with ExitStack() as stack:
        file = stack.enter_context(closing(DISK.open(path)))
        size = file.size()
        history = _shown_history(Reader(path, file, largest=size), run.spec)
        auditor = _Auditor(run, history, stack, finished=finished)
        return auditor.audit(Reader(path, file, largest=size), size, watch or (lambda done, total: None))


def _shown_history(reader: Reader, spec: Spec) -> int:
    """Return 1 where the first commitment covers earlier decisions, else 0: the plugin may not be there to tell."""
    try:
        first = next((entry for entry in map(_entry, reader) if isinstance(entry, events.Commit)), events.Commit(1, ()))
    except Diverged:
        return 0  # the audit names the damage
    code, options = segments_of(spec)[0].code, spec.adversary.options
    due = Commitments(code, options, spec.function_seed).of(first.round, bytes(32))
    return int(first.commitments[:1] == (due,))


class _Auditor:
    """All checks of one run."""

    def __init__(self, run: Run, history: int, stack: ExitStack, *, finished: bool) -> None:
        self._run, self._spec, self._finished = run, run.spec, finished
        self._checks = {name: AuditCheck(name, unit) for name, unit in _UNITS.items()}
        self._journal, self._budgets, self._scores = (self._checks[name] for name in ("journal", "budgets", "scores"))
        self._seating = SeatingCheck(self._spec, self._budgets)
        self._commitments = CommitmentCheck(self._checks["commitments"], segments_of(self._spec))
        self._graphs = Graphs(self._spec, self._checks["graphs"])
        self._decisions = Decisions(self._spec, self._checks["decisions"])
        self._functions = Recreation(self._spec, stack, self._checks["values"], self._scores)
        self._tables = RunFolderCheck(run, self._checks["metrics"], self._checks["summary"])
        played = self._functions.description
        self._constraints = None if played is None else played.constraints
        """Of an agent; None where the first purchase must show it."""
        played = played or Description(0, history=history, code=self._spec.adversary.sha256)
        # without a last round: what a lost host bought after it may turn out void
        endless = self._spec.replace(**{"run.rounds": None})
        self._referee = build_referee(endless, played, segments=segments_of(self._spec))
        self._playing = 0
        """The last round whose functions are fixed."""
        self._rounds = self._spec.run.rounds or FOREVER
        self._purchases: defaultdict[int, list[tuple[int, Purchase]]] = defaultdict(list)
        """By round that is not checked yet: purchases, each with the number of its record."""
        self._to_score: deque[events.Score] = deque()
        """Rounds whose score the journal must still give."""
        self._checked, self._digest = 0, bytes(32)
        self._followed = True
        """Whether all is there from which rows and summary follow."""
        self._notes: list[str] = []

    def audit(self, reader: Reader, size: int, watch: Watch) -> AuditReport:
        """Replay the journal, of the size that it had when it was opened, and sum up."""
        self._check_title(reader)
        replayed: int | None = None  # the last record, where a later one cannot be replayed
        try:
            for record in reader:
                self._journal.count = reader.count
                try:
                    if replayed is None:
                        self._apply(reader.count, record)
                except ReplayEnded:
                    replayed = reader.count  # the seals of the others are still checked
                watch(reader.end, size)
                if reader.end >= size:
                    break  # a game under way appends records, maybe faster than this reads them
        except Diverged as error:
            self._journal.differs(str(error))
            replayed = reader.count if replayed is None else replayed
        if replayed is not None:
            self._leave_unchecked(f"not checked beyond record {replayed}", *list(_UNITS)[1:])
        else:
            self._check_end(reader.title.get("run", ""), torn=max(0, size - reader.end))
        self._note_incidents()
        if self._spec.algorithm.mode != "local" and self._checked:  # where every agent is alone, nothing connects
            self._checks["graphs"].note = str(self._graphs)
        checks, notes = tuple(self._checks.values()), tuple(self._notes)
        return AuditReport(str(self._run.folder), self._checked, self._digest.hex(), checks, notes)

    def _note_incidents(self) -> None:
        """Note what incidents.jsonl says of the game: nothing of it is checked."""
        if kinds := Counter(each.kind for each in read_incidents(self._run.folder)):
            counts = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
            self._notes.append(f"{INCIDENTS} has incidents of these kinds, as the coordinator saw them: {counts}")

    def _leave_unchecked(self, reason: str, *names: str) -> None:
        for name in names:
            self._checks[name].reason = self._checks[name].reason or reason

    def _check_title(self, reader: Reader) -> None:
        due = {"file": "journal", "role": str(Role.ADVERSARY), "run": self._run.summary.get("run")}
        for name, value in due.items():
            if value is not None and reader.title.get(name) != value:
                self._journal.differs(f"its title says {name} {reader.title.get(name)}, and the run is {name} {value}")

    def _apply(self, number: int, record: SealedRecord) -> None:
        entry = _entry(record)
        match entry:
            case None:
                self._journal.differs("it holds nothing that a journal holds", record=number, round=record.round)
            case Snapshot() if number > 1:
                self._journal.differs("a snapshot stands where the journal does not begin", record=number)
            case Snapshot():
                self._begin_after(entry)
            case SeatingEntry():
                self._seating.enter(number, entry, self._checked)
                self._execute(self._referee.seat(entry.hosts, entry.departures))
            case events.Commit():
                self._commitments.enter(number, entry)
            case Amendment():
                self._notes.append(self._commitments.amend(number, entry, whole=self._referee.chained[0]))
            case Purchase() | BatchPurchase():
                for each in purchases(entry):
                    self._buy(number, each)
            case Scored():
                self._score(number, entry)
        self._check_rounds(number)

    def _begin_after(self, snapshot: Snapshot) -> None:
        """Begin with the state after a round as the journal gives it: the records that led to it are gone."""
        self._tables.begin_after(snapshot)
        self._referee.restore(replace(snapshot.standing, rounds=None))
        round = snapshot.round
        self._commitments.begin_after(round)
        self._functions.begin_after(round)
        self._checked, self._digest = round, snapshot.standing.digest
        gone = f"they rest on rounds 1 to {round}, which the journal has no more"
        self._checks["decisions"].reason = f"not checked: {gone}"
        self._notes.append(
            f"the journal was cut (--journal-keep) and can be checked from round {round + 1} on: of what came before "
            "it has the sums and the digest alone, which are taken as they are"
        )

    def _buy(self, number: int, purchase: Purchase) -> None:
        asked, question = purchase.asked, purchase.asked.question
        agents, round = question.agents, question.round
        self._budgets.count += len(agents)
        if what := self._malformed(purchase):
            self._budgets.end_replay(what, record=number, round=round)
        self._commitments.reveal(number, round)
        try:
            effects = self._referee.handle(events.Granted(asked))
        except (Refused, Unready) as error:
            agent, reason = self._culprit(asked, error)
            self._budgets.end_replay(reason, record=number, round=round, agent=agent)
        sold = next((each.batch.question.agents for each in effects if isinstance(each, events.Evaluate)), agents[:0])
        if len(sold) < len(agents):
            early = "it buys here, and the functions depend on decisions that are missing"
            what, agent = _TWICE if round <= self._playing else early, int(np.setdiff1d(agents, sold)[0])
            self._budgets.end_replay(what, record=number, round=round, agent=agent)
        self._purchases[round].append((number, purchase))
        self._execute(effects)

    def _malformed(self, purchase: Purchase) -> str:
        """Return why the referee cannot judge a purchase; empty where it can."""
        question, values, host = purchase.asked.question, purchase.values, purchase.asked.host
        agents, dimension, constraints = question.agents, self._spec.run.dimension, values.g.shape[2]
        if not len(agents) or agents[0] < 0 or (np.diff(agents) <= 0).any():
            return "it is not for agents of the game in ascending order"
        if question.x.shape[1] != dimension:
            return f"its points have {question.x.shape[1]} coordinates, those of the game {dimension}"
        if question.round < 1:
            return "there is no such round"
        if self._constraints not in (None, constraints):
            return f"it bought {constraints} constraints per agent, the game has {self._constraints}"
        self._constraints = constraints
        if not all(np.isfinite(array).all() for array in arrays_of(values)):
            return "it bought a value that is not finite"
        return "" if host in self._seating.hosts else f"{host}, which buys, has no seat in the game"

    def _culprit(self, asked: events.Asked, error: SlaternetError) -> tuple[int | None, str]:
        """Return the first agent for which the referee refuses a question, and why; nothing is replayed after this."""
        culprit = None
        for agent in asked.question.agents.tolist():
            try:
                question = select_agents(asked.question, asked.question.agents == agent)
                self._referee.handle(events.Granted(replace(asked, question=question)))
            except (Refused, Unready) as own:
                culprit, error = agent, own
                break
        return culprit, _TWICE if isinstance(error, Forgotten) else f"{asked.host} buys against the rules: {error}"

    def _score(self, number: int, score: Scored) -> None:
        if score.round not in (each.round for each in self._to_score):
            what = "it scores a round that is not complete, not to be scored, or scored already"
            self._scores.differs(what, record=number, round=score.round)
            return
        while (due := self._to_score.popleft().round) < score.round:
            self._lack_score(due)
        self._functions.compare_score(number, score)
        self._execute(self._referee.handle(score))

    def _lack_score(self, round: int) -> None:
        self._followed = False
        self._scores.differs("its score is missing", round=round)

    def _execute(self, effects: Iterable[events.Effect]) -> None:
        for effect in effects:
            match effect:
                case events.Commit():
                    self._commitments.expect(effect)
                case events.Play():
                    self._functions.expect(effect)
                    self._playing = effect.round
                    self._referee.handle(events.Played(effect.round))
                case events.Score():
                    self._to_score.append(effect)
                case events.RecordRound():
                    self._tables.compare(effect)

    def _check_rounds(self, number: int) -> None:
        """Compare the rounds that the record has completed."""
        last, digest = self._referee.chained
        if last > self._rounds:
            self._budgets.end_replay(f"the game has {self._rounds} rounds", record=number, round=last)
        while self._checked < last:
            round = self._checked + 1
            players = self._seating.attendance.players(round)
            # of a host that was lost all agents leave: what it bought ahead of the others is void
            purchases = [
                (record, each)
                for record, each in self._purchases.pop(round)
                if np.isin(each.asked.question.agents, players).all()
            ]
            matrix = self._graphs.matrix(round, self._seating.attendance)
            self._commitments.compare(round)
            self._decisions.compare(round, matrix, players, purchases)
            score = next((each for each in self._to_score if each.round == round), None)
            self._functions.compare(round, purchases, score)
            self._checked, self._digest = round, digest
        self._referee.handle(LowWater(last + 1))  # nothing before it is asked about again

    def _check_end(self, run: str, torn: int) -> None:
        """Compare how far the journal goes, and the summary."""
        self._seating.compare(finished=self._finished)
        self._commitments.compare_segments()
        for round, bought in self._purchases.items():
            for record, each in bought if round > self._rounds else ():
                if self._seating.attendance.of(each.asked.question.agents, round).size:
                    self._budgets.differs(f"the game has {self._rounds} rounds", record=record, round=round)
        if self._finished:
            if torn:
                self._journal.differs(f"its last {torn} bytes are no whole record, though the game has ended")
            if self._to_score:
                self._lack_score(self._to_score[0].round)
            if self._checked != self._spec.run.rounds:
                what = f"the game has {self._spec.run.rounds} rounds, and the journal {self._checked} whole ones"
                self._budgets.differs(what)
        else:
            newest = max(self._purchases, default=self._checked)
            self._notes.append(
                f"the game is unfinished: it was checked up to round {self._checked}"
                + (f", and has come to round {newest}" if newest > self._checked else "")
            )
        if self._followed:
            spec = self._spec.departing(self._seating.seats.departures)
            end, hosts = events.Summarise(self._checked, self._digest.hex()), len(self._seating.hosts)
            self._tables.finish(lasting_summary(spec, run, hosts, end, self._referee.totals))
        else:
            self._leave_unchecked(f"not checked beyond round {self._referee.recorded}", "metrics", "summary")


def _entry(record: SealedRecord) -> Entry | None:
    """Return the entry of a record; None where there is none in it, or more than its kind holds."""
    try:
        entry = decode(record)
        kind, round, payload = encode(entry)
        return entry if (kind, round, b"".join(payload)) == (record.kind, record.round, record.payload) else None
    except (Diverged, struct.error, ValueError, OverflowError):  # the latter where an entry cannot be written again
        return None
