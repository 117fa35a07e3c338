"""Executes the referee's effects: calls the plugin, writes journal and results, passes on replies and progress.

Plugin calls happen one at a time, and wait where the plugin runs elsewhere; one event at a time is handled. Replies go
first: `handle` evaluates a batch of questions at once, while fixing functions of rounds ahead and scoring finished
rounds wait as pieces of work that the caller does between replies, in bursts.

The referee's events are journalled before their effects. So a restarted process can give them to a new referee
(`apply_entry`, then `finish_recovery`); only functions are fixed again, by the plugin, and some answers are asked for
again, or all of them where the plugin's code is another: Diverged where one is another than the journal's. Where the
journal was cut, `replay_functions` follows its snapshot: the plugin fixes the functions of the rounds that were cut
off.
"""

import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import Damaged, Diverged, PluginFailed, Refused, RunFailed, SlaternetError, Unready
from slaternet.limits import LIMITS
from slaternet.model import Agents, Answer, Departure, IncidentRecord, LowWater, Progress, StopAt, Values
from slaternet.storage.failpoints import failpoint
from slaternet_adversary.engine import events
from slaternet_adversary.engine.amendments import Amendment
from slaternet_adversary.engine.host_costs import NetworkTotals
from slaternet_adversary.engine.referee import Referee
from slaternet_adversary.journal.compaction import JournalTrimmer
from slaternet_adversary.journal.entries import BatchPurchase, Entry, Purchase, SeatingEntry, bought, purchases
from slaternet_adversary.journal.journal import AdversaryJournal
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_adversary.plugin.plugin_calls import PluginCalls
from slaternet_adversary.scoring import Scored
from slaternet_adversary.shell.run_folder import RunFolder

T = TypeVar("T")


class Audience(Protocol):
    """Receives replies and progress."""

    def reply(self, host: str, answer: Answer) -> None:
        """Send the answer to a host's question."""

    def refuse(self, host: str, error: SlaternetError) -> None:
        """End the stream of a host whose question is against the rules."""

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
        functions: PluginCalls,
        referee: Referee,
        results: RunFolder,
        clock: Callable[[], float] = time.perf_counter,
        journal: AdversaryJournal | None = None,
        trimmer: JournalTrimmer | None = None,
    ) -> None:
        self._referee = referee
        self._functions = functions
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
        self._unasked: Purchase | BatchPurchase | None = None
        """A purchase of the journal whose question is to be asked again, as it was asked."""
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

    async def seat(self, epoch: int, hosts: Iterable[tuple[str, Agents]], departures: Iterable[Departure] = ()) -> None:
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
        await self._execute(self._begin(seats))

    def _begin(self, seats: SeatingEntry) -> list[events.Effect]:
        self._seats = seats
        self._results.depart(seats.departures)
        return self._referee.seat(seats.hosts, seats.departures)

    async def handle(self, event: events.Event) -> None:
        """Give an event to the referee, and execute its effects."""
        if isinstance(event, LowWater) and self._trimmer is not None:
            self._trimmer.pass_mark(event.round)
        await self._execute(self._referee.handle(event))

    def note(self, incident: IncidentRecord) -> None:
        """Record an incident in the run folder."""
        self._results.note(incident)

    def bought(self, agents: Agents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the last round that each of some agents has bought, and the last that is in the journal."""
        return self._referee.bought(agents)

    async def work(self) -> None:
        """Do one piece of work: fixing functions first, then scoring, and a piece of cutting the journal with it."""
        if self._plays:
            failpoint("adversary_before_play")
            played = await self._play()
            failpoint("adversary_after_play")
            self.due = bool(self._plays) or len(self._scores) >= self._referee.burst
            for event in played:
                await self._execute(self._referee.handle(event))
            return
        some = [self._scores[i] for i in range(min(len(self._scores), self._functions.burst))]
        try:
            scored = await self._functions.score(some) if some else []
        except PluginFailed as error:
            self._results.failures.save_score(error, some)
            raise
        if self._trimmer is not None and (scored or not self._scores):
            self._trimmer.step(self._results.sync)  # with scores, so that these cannot delay it for ever
        for each in scored:
            self._scores.popleft()
            self.due = len(self._scores) >= self._referee.burst
            self._enter(each)
            await self._execute(self._referee.handle(each))

    async def _play(self) -> list[events.Played]:
        """Have the functions of the next rounds fixed."""
        some = [self._plays.popleft() for _ in range(min(len(self._plays), self._functions.burst))]
        if not self._results.complete:  # where every round is recorded, the functions are not needed
            if some[0].past is not None and self._journal is None:
                self._results.failures.keep_past(some)
            try:
                await self._functions.play(some)
            except PluginFailed as error:
                self._results.failures.save_play(error, some)
                raise
        return [events.Played(effect.round) for effect in some]

    async def replay_functions(self, round: int) -> None:
        """Have the plugin fix the functions of a round before a snapshot: it plays every round in order."""
        if not self._results.complete:
            await self._functions.play([events.Play(round, None)])
            self._functions.forget(round)

    async def apply_entry(self, entry: Entry) -> None:
        """Replay an entry of the journal; nothing is sent. Diverged where it is against the rules."""
        self._unasked = self._asked_again(entry)
        for each in purchases(entry) or (entry,):
            self._redone = each
            try:
                await self._execute(self._take(each))
            except (Refused, Unready) as error:
                raise Diverged(f"the journal has an entry against the rules: {error}; put back the right one") from None
            while self._plays:
                for played in await self._play():
                    await self._execute(self._referee.handle(played))
        self._redone = None

    def _take(self, entry: Entry) -> list[events.Effect]:  # noqa: C901 - one case for each kind of entry
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
            case Amendment():
                if self._journal is not None and entry is self._journal.amendment:
                    self._results.renew_commitments()
            case Snapshot():
                self._restore(entry)
            case BatchPurchase():
                raise AssertionError("the purchases of a batch are replayed one by one")
        return []

    def _restore(self, snapshot: Snapshot) -> None:
        if self._seats is not None:
            raise Diverged("the journal has a snapshot where it does not begin; put back the right one")
        self._results.restore(snapshot)
        self._referee.restore(snapshot.standing)
        if self._trimmer is not None:
            self._trimmer.begin(snapshot)

    async def finish_recovery(self) -> None:
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
            await self._execute([self._end])
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

    async def _execute(self, effects: Iterable[events.Effect]) -> None:  # noqa: C901 - one case for each effect
        """Execute effects in order; while the journal is replayed, send nothing."""
        try:
            for effect in effects:
                match effect:
                    case events.Evaluate(batch):
                        values = await (self._buy(batch) if self._redone is None else self._bought(batch))
                        # before the other effects: hosts wait for the values
                        await self._execute(self._referee.handle(events.Evaluated(batch, values)))
                    case events.Reply(host, answer):
                        if self._redone is None:
                            self.audience.reply(host, answer)
                    case events.Refuse(host, error):
                        self.audience.refuse(host, error)
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

    async def _buy(self, batch: events.Batch) -> Values:
        try:
            values = await self._functions.evaluate(batch.question)
        except PluginFailed as error:
            self._results.failures.save_question(error, batch.question)
            raise
        if self._journal is not None:
            self._journal.append(bought(batch, values))  # before the replies
        failpoint("adversary_after_grant")
        return values

    async def _bought(self, batch: events.Batch) -> Values:
        question = batch.question
        if not isinstance(self._redone, Purchase):
            raise Diverged(
                f"the journal lacks the values of {batch.asked[0].host} in round {question.round}; put it back"
            )
        values = self._redone.values
        match self._unasked:
            case Purchase(events.Asked(_, joint), sold) | BatchPurchase(events.Batch(_, joint), sold):
                self._unasked = None
                await self._functions.compare(joint, sold, changed=self._amended)
        return values

    def _asked_again(self, entry: Entry) -> Purchase | BatchPurchase | None:
        """Return an entry of the journal that is a purchase whose question is to be asked again."""
        if isinstance(entry, Purchase | BatchPurchase) and self._journal is not None and not self._results.complete:
            question = entry.asked.question if isinstance(entry, Purchase) else entry.batch.question
            return entry if question.round in self._journal.reasked else None
        return None

    @property
    def _amended(self) -> bool:
        """Whether the plugin's code is another than before."""
        return self._journal is not None and self._journal.amendment is not None

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


def completed(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work that waits for nothing, because the plugin runs in this process or blocks it."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a plugin that is called in this process keeps nobody waiting")
