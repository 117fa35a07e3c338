"""Executes the referee's effects: calls the plugin, writes journal and results, passes on replies and progress.

Plugin calls happen one at a time. Replies go first: `handle` evaluates a question at once, while fixing functions of
rounds ahead and scoring finished rounds wait as pieces of work that the caller does between replies, in bursts.

The referee's events are journalled before their effects. So a restarted process can give them to a new referee
(`apply_entry`, then `finish_recovery`); only functions are fixed again, by the plugin, and some answers are asked for
again: Diverged where one is another than the journal's. Where the journal was cut, `replay_functions` follows its
snapshot: the plugin fixes the functions of the rounds that were cut off.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import Damaged, Diverged, Refused, RunFailed, Unready
from slaternet.limits import LIMITS
from slaternet.model import Agents, Answer, Departure, IncidentRecord, LowWater, Progress, StopAt, Values
from slaternet.storage.failpoints import failpoint
from slaternet_adversary.api import Adversary
from slaternet_adversary.engine import events
from slaternet_adversary.engine.host_costs import NetworkTotals
from slaternet_adversary.engine.referee import Referee
from slaternet_adversary.journal.compaction import JournalTrimmer
from slaternet_adversary.journal.entries import Entry, Purchase, SeatingEntry
from slaternet_adversary.journal.journal import AdversaryJournal
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_adversary.plugin.open_rounds import OpenRounds
from slaternet_adversary.scoring import Scored
from slaternet_adversary.shell.run_folder import RunFolder


class Audience(Protocol):
    """Receives replies and progress."""

    def reply(self, host: str, answer: Answer) -> None:
        """Send the answer to a host's question."""

    def report(self, progress: Progress) -> None:
        """Report how far the game is scored, every few rounds."""

    def finish(self, progress: Progress) -> None:
        """Report that the summary is written."""


class Runtime:
    """A plugin under a referee, with a run folder, and with a journal where it is given one."""

    audience: Audience
    """Set by the caller before the first event."""

    def __init__(
        self,
        plugin: Adversary,
        referee: Referee,
        results: RunFolder,
        clock: Callable[[], float] = time.perf_counter,
        journal: AdversaryJournal | None = None,
        trimmer: JournalTrimmer | None = None,
    ) -> None:
        self._referee = referee
        self._functions = OpenRounds(plugin)
        self._results = results
        self._journal = journal
        self._trimmer = trimmer
        self.forgetful = trimmer is not None
        """Whether old rounds are cut from the journal."""
        self._clock = clock
        self._began: float | None = None
        self._reached = 0.0  # seconds played, while `_began` is not set
        self._seats: SeatingEntry | None = None
        self._plays: deque[events.Play] = deque()
        self._scores: deque[events.Score] = deque()
        self.due = False
        """Whether work should be done now: functions are missing, or enough rounds wait to be scored in one burst."""
        self._redone: Entry | None = None  # the entry of the journal that is replayed now
        self._end: events.Summarise | None = None  # of the game, unless it is played on

    @property
    def idle(self) -> bool:
        """Whether no work waits."""
        return not (self._plays or self._scores or (self._trimmer is not None and self._trimmer.due))

    @property
    def seconds(self) -> float:
        """How long the game has been played, without the time between two processes."""
        return self._reached if self._began is None else self._clock() - self._began

    @property
    def totals(self) -> tuple[float, float, float, float]:
        """Cumulative loss and violation so far, then those of the baseline."""
        return self._referee.totals

    @property
    def progress(self) -> Progress:
        """How far the game is scored."""
        loss, violation, *_ = self._referee.totals
        return Progress(self._referee.recorded, loss, violation)

    @property
    def network(self) -> NetworkTotals:
        """The costs of the rounds recorded so far."""
        return self._results.network

    def seat(self, epoch: int, hosts: Iterable[tuple[str, Agents]], departures: Iterable[Departure] = ()) -> None:
        """Begin the game with these hosts and their agents, or continue with them in a new epoch.

        A repeated seating must be the same.
        """
        seats = SeatingEntry(tuple(hosts), epoch, tuple(departures))
        if self._seats is not None and epoch <= self._seats.epoch:
            if epoch == self._seats.epoch:
                self._seats.compare(seats)
            return
        self._enter(seats)
        if self._began is None:
            self._began = self._clock()
        self._execute(self._begin(seats))

    def _begin(self, seats: SeatingEntry) -> list[events.Effect]:
        self._seats = seats
        self._results.depart(seats.departures)
        return self._referee.seat(seats.hosts, seats.departures)

    def handle(self, event: events.Event) -> None:
        """Give an event to the referee, and execute its effects."""
        if isinstance(event, LowWater) and self._trimmer is not None:
            self._trimmer.pass_mark(event.round)
        self._execute(self._referee.handle(event))

    def note(self, incident: IncidentRecord) -> None:
        """Record an incident in the run folder."""
        self._results.note(incident)

    def bought(self, agents: Agents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the last round that each of some agents has bought, and the last that is in the journal."""
        return self._referee.bought(agents)

    def work(self) -> None:
        """Do one piece of work: fixing functions first, then scoring, and a piece of cutting the journal with it."""
        if self._plays:
            failpoint("adversary_before_play")
            played = self._functions.play(self._plays.popleft())
            failpoint("adversary_after_play")
            self.due = bool(self._plays) or len(self._scores) >= self._referee.burst
            self._execute(self._referee.handle(played))
            return
        scored = self._functions.score(self._scores[0]) if self._scores else None
        if self._trimmer is not None and (scored is not None or not self._scores):
            self._trimmer.step(self._results.sync)  # with each score, so that scores cannot delay it for ever
        if scored is not None:
            self._scores.popleft()
            self.due = len(self._scores) >= self._referee.burst
            self._enter(scored)
            self._execute(self._referee.handle(scored))

    def replay_functions(self, round: int) -> None:
        """Have the plugin fix the functions of a round before a snapshot: it plays every round in order."""
        if not self._results.complete:
            self._functions.play(events.Play(round, None))
            self._functions.forget(round)

    def apply_entry(self, entry: Entry) -> None:
        """Replay an entry of the journal; nothing is sent. Diverged where it is against the rules."""
        self._redone = entry
        try:
            self._execute(self._take(entry))
        except (Refused, Unready) as error:
            raise Diverged(f"the journal has an entry against the rules: {error}; put back the right one") from None
        while self._plays:
            effect = self._plays.popleft()
            # where every round is recorded, the functions are not needed
            played = events.Played(effect.round) if self._results.complete else self._functions.play(effect)
            self._execute(self._referee.handle(played))
        self._redone = None

    def _take(self, entry: Entry) -> list[events.Effect]:
        match entry:
            case SeatingEntry():
                return self._begin(entry)
            case Purchase(asked):
                self._reached = asked.at
                return self._referee.handle(events.Granted(asked))
            case Scored(round):
                if not self._scores or self._scores.popleft().round != round:
                    raise Diverged(
                        f"the journal has a score of round {round} before its decisions; put back the right one"
                    )
                return self._referee.handle(entry)
            case StopAt() | events.Used():
                if isinstance(entry, StopAt):
                    self._end = None  # the game is played on
                return self._referee.handle(entry)
            case events.Commit():
                self._results.commit(entry)
            case Snapshot():
                self._restore(entry)
        return []

    def _restore(self, snapshot: Snapshot) -> None:
        if self._seats is not None:
            raise Diverged("the journal has a snapshot where it does not begin; put back the right one")
        self._results.restore(snapshot)
        self._referee.restore(snapshot.standing)
        if self._trimmer is not None:
            self._trimmer.begin(snapshot)

    def finish_recovery(self) -> None:
        """Continue after the last entry of the journal; report again what may not have been received."""
        if self._results.complete and self._end is None:
            raise Damaged(
                f"{self._results.folder} has a summary, and its journal ends in round {self._referee.recorded}; put "
                "back the right journal"
            )
        self._results.truncate_rest()
        if self._seats is not None:
            self._began = self._clock() - self._reached
        if self._end is not None:
            self._execute([self._end])
        elif self._referee.recorded:
            self.audience.report(self.progress)

    def close(self) -> None:
        """Close the run folder; what was recorded stays."""
        self._results.close()
        self._end_trimming()

    def _end_trimming(self) -> None:
        if self._trimmer is not None:
            self._trimmer.close()
            self._trimmer = None

    def _enter(self, entry: Entry) -> None:
        """Record an entry in the journal, unless it is replayed from there."""
        if self._journal is not None and self._redone is None:
            self._journal.append(entry)

    def _execute(self, effects: Iterable[events.Effect]) -> None:  # noqa: C901 - one case for each effect
        """Execute effects in order; while the journal is replayed, send nothing."""
        try:
            for effect in effects:
                match effect:
                    case events.Evaluate(asked):
                        values = self._buy(asked) if self._redone is None else self._bought(asked)
                        done = events.Evaluated(asked.host, asked.question.round, asked.question.agents, values)
                        # before the other effects: a host waits for the values
                        self._execute(self._referee.handle(done))
                    case events.Reply(host, answer):
                        if self._redone is None:
                            self.audience.reply(host, answer)
                    case events.Play():
                        self._plays.append(effect)
                        self.due = True
                    case events.Score():
                        self._scores.append(effect)
                        self.due = self.due or len(self._scores) >= self._referee.burst
                    case events.Enter(event):
                        self._enter(event)
                        if isinstance(event, events.Used):
                            self._results.network.add_usage(event.host, event.incarnation, event.usage)
                    case events.Commit():
                        self._commit(effect)
                    case events.RecordRound():
                        self._record(effect)
                    case events.Summarise():
                        self._finish(effect)
        except OSError as error:
            raise RunFailed(
                f"cannot write to the run folder {self._results.folder}: {error.strerror}; mend that and play again"
            ) from None

    def _buy(self, asked: events.Asked) -> Values:
        values = self._functions.evaluate(asked.question)
        if self._journal is not None:
            self._journal.append(Purchase(asked, values))  # before the reply
        failpoint("adversary_after_grant")
        return values

    def _bought(self, asked: events.Asked) -> Values:
        if not isinstance(self._redone, Purchase):
            raise Diverged(f"the journal lacks the values of {asked.host} in round {asked.question.round}; put it back")
        values = self._redone.values
        if self._journal is not None and asked.question.round in self._journal.reasked and not self._results.complete:
            self._functions.compare(asked.question, values)
        return values

    def _commit(self, effect: events.Commit) -> None:
        new = effect if self._journal is None else self._journal.commit(effect)
        if new is not None:
            self._results.commit(new)

    def _record(self, row: events.RecordRound) -> None:
        self._functions.forget(row.round)
        self._results.record(row, self.seconds)
        if self._trimmer is not None:
            self._trimmer.record(row, self._results.network)
        if row.round % LIMITS.report_every == 0 and self._redone is None:
            self.audience.report(Progress(row.round, row.totals[0], row.totals[1]))

    def _finish(self, end: events.Summarise) -> None:
        """Write the summary, but not during replay: a later entry may continue the game."""
        self._end = end
        if self._redone is None:
            self._end_trimming()
            hosts = self._seats.hosts if self._seats is not None else ()
            self._results.finish(end, self.seconds, {name: len(agents) for name, agents in hosts})
            self.audience.finish(self.progress)
