"""Executes the referee's effects that need the plugin or the disk, and hands on those that need a wire.

Plugin calls happen one at a time. Replies go first: `handle` evaluates a question at once, while fixing functions of
rounds ahead and scoring finished rounds wait as pieces of work that the caller does between replies, in bursts.

What the referee is told is journalled before anything comes of it. So a later life can tell it all to a fresh referee
(`redo`, then `recovered`): only the functions are fixed anew, by the plugin. Where the journal was cut, `rehearse`
follows its snapshot: the plugin fixes those of the rounds that are gone.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable

from slaternet.errors import Diverged, Refused, RunFailed, Unready
from slaternet.failpoints import reach
from slaternet.limits import LIMITS
from slaternet.model import Agents, Departure, LowWater, StopAt, Values
from slaternet_adversary.api import Adversary
from slaternet_adversary.chronicle import Chronicle, Entry, Purchase, Seats
from slaternet_adversary.compaction import Keeping
from slaternet_adversary.costs import Network
from slaternet_adversary.events import (
    Commit,
    Effect,
    Enter,
    Evaluate,
    Evaluated,
    Event,
    Play,
    Played,
    Record,
    Reply,
    Score,
    Scored,
    Summarise,
    Used,
)
from slaternet_adversary.functions import Functions
from slaternet_adversary.referee import Referee
from slaternet_adversary.results import Results
from slaternet_adversary.snapshot import Snapshot

Outward = Reply | Record | Summarise


class Runtime:
    """A plugin under a referee, writing its results, and a journal where it is given one."""

    def __init__(
        self,
        plugin: Adversary,
        referee: Referee,
        results: Results,
        clock: Callable[[], float] = time.perf_counter,
        chronicle: Chronicle | None = None,
        keeping: Keeping | None = None,
    ) -> None:
        self._referee = referee
        self._functions = Functions(plugin)
        self._results = results
        self._chronicle = chronicle
        self._keeping = keeping
        self.forgetful = keeping is not None
        """Whether the journal does not keep every round."""
        self._clock = clock
        self._began: float | None = None
        self._reached = 0.0  # seconds, until the game has begun or goes on
        self._seats: Seats | None = None
        self._plays: deque[Play] = deque()
        self._scores: deque[Score] = deque()
        self._last: list[Outward] = []  # that was redone: a round, and where it was the last, the end

    @property
    def idle(self) -> bool:
        """Whether no work waits."""
        return not (self._plays or self._scores or (self._keeping is not None and self._keeping.due))

    @property
    def due(self) -> bool:
        """Whether work should be done now: functions are missing, or enough rounds wait to be scored in one burst."""
        return bool(self._plays) or len(self._scores) >= LIMITS.burst

    @property
    def seconds(self) -> float:
        """How long the game has been played, without the time between two lives."""
        return self._reached if self._began is None else self._clock() - self._began

    @property
    def totals(self) -> tuple[float, float, float, float]:
        """Cumulative loss and violation so far, then those of the baseline."""
        return self._referee.totals

    @property
    def network(self) -> Network:
        """What the rounds recorded so far have cost."""
        return self._results.network

    def seat(
        self, epoch: int, hosts: Iterable[tuple[str, Agents]], departures: Iterable[Departure] = ()
    ) -> list[Outward]:
        """Begin the game with these hosts and their agents, or go on with them in a new epoch.

        What is said of an epoch once more must be the same.
        """
        seats = Seats(tuple(hosts), epoch, tuple(departures))
        if self._seats is not None and epoch <= self._seats.epoch:
            if epoch == self._seats.epoch:
                self._seats.compare(seats)
            return []
        self._enter(seats)
        if self._began is None:
            self._began = self._clock()
        return self._summed_up(self._execute(self._begin(seats), self._buy))

    def _begin(self, seats: Seats) -> list[Effect]:
        self._seats = seats
        self._results.depart(seats.departures)
        return self._referee.seat(seats.hosts, seats.departures)

    def handle(self, event: Event) -> list[Outward]:
        """Hand an event to the referee; return what must be said to others."""
        if isinstance(event, LowWater) and self._keeping is not None:
            self._keeping.pass_mark(event.round)
        return self._summed_up(self._execute(self._referee.handle(event), self._buy))

    def work(self) -> list[Outward]:
        """Do one piece of the waiting work: fixing functions first, then scoring; the journal is cut beside it."""
        if self._plays:
            reach("adversary_before_play")
            played = self._functions.play(self._plays.popleft())
            reach("adversary_after_play")
            return self.handle(played)
        scored = self._functions.score(self._scores[0]) if self._scores else None
        if scored is not None or not self._scores:  # a piece for each score, lest they never leave time for it
            self._cut()
        if scored is None:
            return []
        self._scores.popleft()
        self._enter(scored)
        return self.handle(scored)

    def _cut(self) -> None:
        if self._keeping is not None:
            self._keeping.step(self._results.sync)

    def rehearse(self, round: int) -> None:
        """Have the functions of a round fixed that comes before a snapshot, each in its turn: none is left out."""
        if not self._results.complete:
            self._functions.play(Play(round, None))
            self._functions.forget(round)

    def redo(self, entry: Entry) -> None:
        """Take in what the journal says has happened; nobody is told. Diverged where it cannot have happened."""

        def recall(effect: Evaluate) -> Values:
            if not isinstance(entry, Purchase):
                raise Diverged(f"the journal lacks the values of {effect.host} in round {effect.round}; put it back")
            return entry.values

        try:
            effects = self._take(entry)
        except (Refused, Unready) as error:
            raise Diverged(f"the journal has an entry against the rules: {error}; put back the right one") from None
        out = self._execute(effects, recall)
        while self._plays:
            out += self._execute(self._referee.handle(self._play_again(self._plays.popleft())), recall)
        for effect in out:
            if isinstance(effect, Record):
                self._last = [effect]
            elif isinstance(effect, Summarise):
                self._last.append(effect)

    def _take(self, entry: Entry) -> list[Effect]:
        match entry:
            case Seats():
                return self._begin(entry)
            case Purchase(asked):
                self._reached = asked.at
                return self._referee.handle(asked)
            case Scored(round):
                if not self._scores or self._scores.popleft().round != round:
                    raise Diverged(
                        f"the journal has a score of round {round} before its decisions; put back the right one"
                    )
                return self._referee.handle(entry)
            case StopAt():
                self._last = self._last[:1]  # an end that it may have had before is none
                return self._referee.handle(entry)
            case Used():
                return self._referee.handle(entry)
            case Commit() | Snapshot():
                self._take_over(entry)
                return []

    def _take_over(self, entry: Commit | Snapshot) -> None:
        if isinstance(entry, Commit):
            self._results.commit(entry)
            return
        if self._seats is not None:
            raise Diverged("the journal has a snapshot where it does not begin; put back the right one")
        self._results.restore(entry)
        self._referee.restore(entry.standing)
        if self._keeping is not None:
            self._keeping.begin(entry)

    def _play_again(self, effect: Play) -> Played:
        """Have functions fixed once more, unless nobody will ask for them: every round of the game is recorded."""
        return Played(effect.round) if self._results.complete else self._functions.play(effect)

    def recovered(self) -> list[Outward]:
        """Go on after the last entry of the journal; return what may have to be said once more."""
        if self._results.complete and not any(isinstance(effect, Summarise) for effect in self._last):
            raise Diverged(
                f"{self._results.folder} has a summary, and its journal ends in round {self._referee.recorded}; put "
                "back the right journal"
            )
        self._results.settle()
        if self._seats is not None:
            self._began = self._clock() - self._reached
        return self._summed_up(self._last)[-1:]

    def close(self) -> None:
        """Close the run folder; what was recorded stays."""
        self._results.close()
        self._end_keeping()

    def _end_keeping(self) -> None:
        if self._keeping is not None:
            self._keeping.close()
            self._keeping = None

    def _enter(self, entry: Entry) -> None:
        """Write an entry into the journal."""
        if self._chronicle is not None:
            self._chronicle.append(entry)

    def _buy(self, effect: Evaluate) -> Values:
        values = self._functions.evaluate(effect.asked.question)
        self._enter(Purchase(effect.asked, values))
        reach("adversary_after_grant")
        return values

    def _execute(self, effects: list[Effect], evaluate: Callable[[Evaluate], Values]) -> list[Outward]:
        out: list[Outward] = []
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            match effect:
                case Evaluate():
                    # before everything else that waits: a host stands still until it hears the values
                    done = Evaluated(effect.host, effect.round, effect.asked.question.agents, evaluate(effect))
                    todo.extendleft(reversed(self._referee.handle(done)))
                case Enter(event):
                    self._note(event, again=evaluate != self._buy)
                case Reply() | Summarise():
                    out.append(effect)
                case Play():
                    self._plays.append(effect)
                case Score():
                    self._scores.append(effect)
                case Commit():
                    self._write(effect)
                case Record():
                    self._write(effect)
                    out.append(effect)
        return out

    def _note(self, event: Used | StopAt, *, again: bool) -> None:
        if not again:
            self._enter(event)
        if isinstance(event, Used):
            self._results.network.tell(event.host, event.incarnation, event.usage)

    def _summed_up(self, out: list[Outward]) -> list[Outward]:
        """Write the summary where the game is over: not before all is redone, for it may have been played on."""
        for effect in out:
            if isinstance(effect, Summarise):
                self._end_keeping()
                self._write(effect)
        return out

    def _write(self, effect: Commit | Record | Summarise) -> None:
        try:
            if isinstance(effect, Commit):
                self._commit(effect)
            elif isinstance(effect, Record):
                self._functions.forget(effect.round)
                self._results.record(effect, self.seconds)
                if self._keeping is not None:
                    self._keeping.record(effect, self._results.network)
            else:
                hosts = self._seats.hosts if self._seats is not None else ()
                self._results.finish(effect, self.seconds, {name: len(agents) for name, agents in hosts})
        except OSError as error:
            raise RunFailed(
                f"cannot write to the run folder {self._results.folder}: {error.strerror}; mend that and play again"
            ) from None

    def _commit(self, effect: Commit) -> None:
        new = effect if self._chronicle is None else self._chronicle.commit(effect)
        if new is not None:
            self._results.commit(new)
