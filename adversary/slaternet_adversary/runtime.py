"""Executes the referee's effects that need the plugin or the disk, and hands on those that need a wire.

Plugin calls happen one at a time. Replies go first: `handle` evaluates a question at once, while fixing functions of
rounds ahead and scoring finished rounds wait as pieces of work that the caller does between replies, in bursts.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable

import numpy as np
import structlog

from slaternet.errors import PluginFailed, RunFailed
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array, Tangent
from slaternet_adversary.api import Adversary, History, Round
from slaternet_adversary.build import name_of
from slaternet_adversary.costs import Network
from slaternet_adversary.referee import (
    Commit,
    Effect,
    Evaluate,
    Evaluated,
    Event,
    Play,
    Played,
    Record,
    Referee,
    Reply,
    Score,
    Summarise,
)
from slaternet_adversary.results import Results
from slaternet_adversary.scores import Scoring

Outward = Reply | Record | Summarise

log = structlog.get_logger()


class Runtime:
    """A plugin under a referee, writing its results."""

    def __init__(
        self, plugin: Adversary, referee: Referee, results: Results, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._plugin = plugin
        self._referee = referee
        self._results = results
        self._clock = clock
        self._began: float | None = None
        self._seats: dict[str, int] = {}
        self._rounds: dict[int, Round] = {}
        self._plays: deque[Play] = deque()
        self._scores: deque[Score] = deque()
        self._scoring: Scoring | None = None  # of the first of them

    @property
    def idle(self) -> bool:
        """Whether no work waits."""
        return not self._plays and not self._scores

    @property
    def due(self) -> bool:
        """Whether work should be done now: functions are missing, or enough rounds wait to be scored in one burst."""
        return bool(self._plays) or len(self._scores) >= LIMITS.burst

    def seat(self, hosts: Iterable[tuple[str, np.ndarray]]) -> list[Outward]:
        """Begin the game with these hosts and their agents."""
        seats = list(hosts)
        self._seats = {name: len(agents) for name, agents in seats}
        self._began = self._clock()
        return self._execute(self._referee.seat(seats))

    def handle(self, event: Event) -> list[Outward]:
        """Hand an event to the referee; return what must be said to others."""
        return self._execute(self._referee.handle(event))

    def work(self) -> list[Outward]:
        """Do one piece of the waiting work: fixing functions first, then scoring."""
        if self._plays:
            return self.handle(self._play(self._plays.popleft()))
        first = self._scores[0]
        try:
            if self._scoring is None:
                centre, constraints = self._plugin.game.set.centre, self._plugin.constraints
                self._scoring = Scoring(self._rounds[first.round], first.round, first.x, centre, constraints)
            scored = self._scoring.step()
        except Exception as error:
            raise self._raised(error, f"the score of round {first.round}") from None
        if scored is None:
            return []
        if not all(map(math.isfinite, (scored.loss, scored.violation, scored.zero_loss, scored.zero_violation))):
            raise self._failure(f"the score of round {first.round} is not finite")
        self._scoring = None
        self._scores.popleft()
        return self.handle(scored)

    @property
    def totals(self) -> tuple[float, float, float, float]:
        """Cumulative loss and violation so far, then those of the baseline."""
        return self._referee.totals

    @property
    def network(self) -> Network:
        """What the rounds recorded so far have cost."""
        return self._results.network

    def close(self) -> None:
        """Close the run folder; what was recorded stays."""
        self._results.close()

    def _execute(self, effects: list[Effect]) -> list[Outward]:
        out: list[Outward] = []
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            match effect:
                case Evaluate():
                    # before everything else that waits: a host stands still until it hears the values
                    todo.extendleft(reversed(self._referee.handle(self._evaluate(effect))))
                case Reply():
                    out.append(effect)
                case Play():
                    self._plays.append(effect)
                case Score():
                    self._scores.append(effect)
                case Commit():
                    self._write(effect)
                case Record() | Summarise():
                    self._write(effect)
                    out.append(effect)
        return out

    def _write(self, effect: Commit | Record | Summarise) -> None:
        try:
            if isinstance(effect, Commit):
                self._results.commit(effect)
            elif isinstance(effect, Record):
                del self._rounds[effect.round]
                self._results.record(effect, self._seconds())
            else:
                self._results.finish(effect, self._seconds(), self._seats)
        except OSError as error:
            raise RunFailed(
                f"cannot write to the run folder {self._results.folder}: {error.strerror}; mend that and play again"
            ) from None

    def _seconds(self) -> float:
        return 0.0 if self._began is None else self._clock() - self._began

    def _play(self, effect: Play) -> Played:
        past = None if effect.past is None else History(effect.past)
        try:
            self._rounds[effect.round] = self._plugin.play(effect.round, past)
        except Exception as error:
            raise self._raised(error, f"play({effect.round})") from None
        return Played(effect.round)

    def _evaluate(self, effect: Evaluate) -> Evaluated:
        rows = (self._plugin.constraints,)
        try:
            f = self._values(effect, "loss", effect.points)
            g = self._values(effect, "constraint", effect.points, rows)
            loss = self._tangent(effect, "loss") if effect.loss_gradient else None
            constraint = self._tangent(effect, "constraint", rows) if effect.constraint_gradient else None
        except Exception as error:
            raise self._raised(error, f"round {effect.round}") from None
        return Evaluated(effect.host, effect.round, effect.agents, f, g, loss, constraint)

    def _tangent(self, effect: Evaluate, what: str, rows: tuple[int, ...] = ()) -> Tangent | None:
        """Return a function's value and gradient at the anchor; nothing else is evaluated there."""
        if effect.anchor is None:
            return None
        points, p = effect.anchor[:, None], effect.anchor.shape[1:]
        value = self._values(effect, what, points, rows)
        return Tangent(value[:, 0], self._values(effect, f"{what}_gradient", points, (*rows, *p))[:, 0])

    def _values(self, effect: Evaluate, what: str, points: Array, rows: tuple[int, ...] = ()) -> Array:
        """Return a function at points (k, s, p) as (k, s, rows), checked."""
        shape = (*points.shape[:2], *rows)
        if not shape[1]:
            return np.empty(shape)  # nothing is asked for, and a plugin need not cope with that
        values = self._ask(getattr(self._rounds[effect.round], what), effect.agents, points)
        array = np.ascontiguousarray(values, dtype=np.float64)
        name = f"{what.replace('_', ' ')} of round {effect.round}"
        if array.shape != shape:
            raise self._failure(f"{name} has shape {array.shape} where {shape} was asked for")
        if np.count_nonzero(np.isfinite(array)) != array.size:
            raise self._failure(f"{name} is not finite")
        return array

    def _ask(self, function: Callable[[Agents, Array], Array], agents: Agents, points: Array) -> Array:
        if self._plugin.rowwise or len(agents) == 1:
            return function(agents, points)
        # one agent per call: the plugin does not promise that a batch leaves an agent's values alone
        rows = [slice(i, i + 1) for i in range(len(agents))]
        return np.concatenate([function(agents[row], points[row]) for row in rows])

    def _failure(self, what: str) -> PluginFailed:
        return PluginFailed(f"the adversary plugin {name_of(self._plugin)} failed: {what}")

    def _raised(self, error: Exception, where: str) -> PluginFailed:
        """Stand at the plugin edge: whatever the plugin raised is the operator's to see, and nobody else's."""
        if isinstance(error, PluginFailed):
            return error
        log.error("plugin failed", plugin=name_of(self._plugin), where=where, exc_info=error)
        return self._failure(f"{where} raised {type(error).__name__}: {error}")
