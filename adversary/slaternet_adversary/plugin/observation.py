"""What is looked at while a user's plugin plays, beyond what every answer is checked for.

    not reproducible    the functions have other values at a decision when they are asked again
    not convex          a loss, or the norm of [g]_+, lies above a chord from a decision to the border of X
    not feasible        none of some points of X satisfies the constraints of all rounds looked at: a sample, no proof

Rounds are looked at between replies, once they are scored: nobody is waiting for an answer about them, and no answer
that was given changes. All of it is about the functions that are scored, `scoring()`, so that those that play are asked
the agents' questions and nothing else. All this takes at most 2 % of
the plugin's own time, by the clock of the process, and each kind is reported once. What is not reproducible is looked
at no more: functions that remember questions would make another game of every look.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slaternet.errors import PluginFailed
from slaternet.model import Array, Question, Values
from slaternet_adversary.api import Game
from slaternet_adversary.engine.events import Play, Score
from slaternet_adversary.plugin.calls import Unanswered, written
from slaternet_adversary.plugin.plugin_calls import PluginCalls
from slaternet_adversary.scoring import Scored

NOT_REPRODUCIBLE, NOT_CONVEX, NOT_FEASIBLE = "not reproducible", "not convex", "not feasible"
FINDINGS = (NOT_REPRODUCIBLE, NOT_CONVEX, NOT_FEASIBLE)
"""The kinds of findings, and of the incidents that report them."""

_SHARE = 0.02
"""Of the plugin's own time that looking at it may take."""
_ROUNDING = 1e-5
"""How far a value may lie above a chord, of the largest: functions may be computed in float32."""
_TRIED = 8
"""Points of X that are tried, besides its centre."""


@dataclass(frozen=True, slots=True)
class PluginFinding:
    """Something about a plugin that its author should know."""

    kind: str
    round: int
    sentence: str
    evidence: str
    """Points and values, or why there are none."""
    failed: bool = False
    """Whether it has failed when it was looked at, so that nothing more is known."""


class Observer:
    """Judges what is seen; no calls."""

    def __init__(self, game: Game) -> None:
        feasible, draw = game.set, game.stream("observation")
        away = np.concatenate((np.ones((1, game.dimension)), draw.standard_normal((_TRIED // 2 - 1, game.dimension))))
        away *= 10.0 * feasible.outer / np.sqrt(np.sum(away * away, axis=1))[:, None]
        self._border = feasible.project(feasible.centre + np.concatenate((away, -away)))
        self.tried = np.concatenate((feasible.centre[None], self._border))
        """The points that have satisfied the constraints of all rounds looked at; at first, all that are tried."""
        self._rounds = 0

    def repeated(self, round: int, agent: int, point: Array, values: Sequence[Sequence[Array]]) -> PluginFinding | None:
        """Compare the values at a point, asked for several times: each time losses and norms of [g]_+."""
        for name, asked in zip(("loss", "the norm of [g]_+"), zip(*values, strict=True), strict=True):
            first, *others = np.concatenate(asked).tolist()
            if (other := next((each for each in others if each != first), None)) is not None:
                text = f"{name} of agent {agent} in round {round} has another value when it is asked again; let "
                evidence = f"{first!r}, then {other!r} at x = {written(point)}"
                return PluginFinding(
                    NOT_REPRODUCIBLE, round, f"{text}functions depend on their arguments alone", evidence
                )
        return None

    def chords(self, decision: Array) -> Array:
        """Return the points of chords from a decision to the border of X: it, their other ends, their middles."""
        return np.concatenate((decision[None], self._border, 0.5 * (decision + self._border)))

    def convex(self, round: int, agent: int, points: Array, loss: Array, violation: Array) -> PluginFinding | None:
        """Compare values in the middle of chords with those at their ends."""
        for name, values in (("loss", loss), ("the norm of [g]_+", violation)):
            start, (ends, middles) = values[0], np.split(values[1:], 2)
            above = middles - 0.5 * (start + ends)
            which = int(np.argmax(above))
            if above[which] > _ROUNDING * float(np.abs(values).max()):
                who = f"{name} of agent {agent} in round {round}"
                evidence = f"{start:.6g} at x = {written(points[0])}, "
                evidence += f"{ends[which]:.6g} at y = {written(points[1 + which])}, {middles[which]:.6g} at (x + y)/2"
                return PluginFinding(NOT_CONVEX, round, f"{who} lies above a chord, so it is not convex", evidence)
        return None

    def feasible(self, round: int, violation: Array) -> PluginFinding | None:
        """Drop the points `tried` that break a constraint of the round."""
        self._rounds += 1
        kept = self.tried[violation <= 0.0]
        if len(kept):
            self.tried = kept
            return None
        count, best = 1 + _TRIED, int(np.argmin(violation))
        seen = f"{self._rounds} round(s) looked at"
        text = f"none of the {count} points of X tried satisfies the constraints of all agents in the {seen}"
        evidence = f"of the last of them, at round {round} the norm of [g]_+ is {violation[best]:.6g} at least, at "
        evidence += f"x = {written(self.tried[best])}"
        return PluginFinding(NOT_FEASIBLE, round, f"{text}; adversary-check searches for one", evidence)


class ObservedCalls(PluginCalls):
    """Calls of a plugin that is looked at; `tell` receives what is found, but for the kinds `known`."""

    def __init__(
        self,
        calls: PluginCalls,
        observer: Observer,
        tell: Callable[[PluginFinding], None],
        clock: Callable[[], float],
        *,
        known: Sequence[str] = (),
    ) -> None:
        self.burst = calls.burst
        self._calls = calls
        self._observer = observer
        self._tell = tell
        self._clock = clock
        # the one whose turn it is comes first: at the beginning NOT_REPRODUCIBLE, which ends all others
        self._kinds = [] if NOT_REPRODUCIBLE in known else [each for each in FINDINGS if each not in known]
        self._turn = 0
        self.plugin_seconds = 0.0
        self.looking_seconds = 0.0

    async def play(self, effects: Sequence[Play]) -> None:
        """Have the functions of rounds fixed."""
        began = self._clock()
        await self._calls.play(effects)
        self.plugin_seconds += self._clock() - began

    async def evaluate(self, question: Question) -> Values:
        """Return the values that a question asks for."""
        began = self._clock()
        values = await self._calls.evaluate(question)
        self.plugin_seconds += self._clock() - began
        return values

    async def score(self, effects: Sequence[Score]) -> list[Scored]:
        """Do a piece of scoring rounds; then look at one of those that are scored, if there is time for that."""
        began = self._clock()
        scored = await self._calls.score(effects)
        self.plugin_seconds += self._clock() - began
        if scored and self._kinds and self.looking_seconds < _SHARE * self.plugin_seconds:
            began = self._clock()
            await self._look(effects[: len(scored)])
            self.looking_seconds += self._clock() - began
        return scored

    async def compare(self, question: Question, before: Values, *, changed: bool = False) -> None:
        """Ask a question again; Diverged where an answer is not, to the bit, what it was before."""
        await self._calls.compare(question, before, changed=changed)

    async def renew(self) -> None:
        """Have another process of the plugin serve the next call."""
        await self._calls.renew()

    def forget(self, round: int) -> None:
        """Drop a round that is recorded."""
        self._calls.forget(round)

    async def _look(self, effects: Sequence[Score]) -> None:
        """Look at a round that is scored and not forgotten yet, by the kind whose turn it is."""
        kind, effect = self._kinds.pop(0), effects[-1]
        try:
            if kind == NOT_REPRODUCIBLE:
                found = await self._again(effect)
            elif kind == NOT_FEASIBLE:
                _, violation = await self._calls.measure(effect.round, effect.agents, self._observer.tried)
                found = self._observer.feasible(effect.round, violation)
            else:
                found = await self._chords(effect)
        except PluginFailed as error:
            text = f"it fails when it is asked once more, so whether it is {kind.removeprefix('not ')} is not known"
            found = PluginFinding(kind, effect.round, text, str(error), failed=True)
            if isinstance(error, Unanswered):
                await self._calls.renew()  # no question of the game has ended it
        if found is None:
            self._kinds.append(kind)
        else:
            self._tell(found)
            if kind == NOT_REPRODUCIBLE:
                self._kinds.clear()

    async def _again(self, effect: Score) -> PluginFinding | None:
        """Ask the functions of an agent about a decision, and about it twice more."""
        row = self._turn % len(effect.agents)
        agent, point = effect.agents[[row]], effect.decisions[[row]]
        # not the same points again: the answer to those may have been kept
        asked = [await self._calls.measure(effect.round, agent, np.repeat(point, times, axis=0)) for times in (1, 2)]
        return self._observer.repeated(effect.round, int(agent[0]), point[0], asked)

    async def _chords(self, effect: Score) -> PluginFinding | None:
        """Look at chords from a decision by the functions of an agent; all agents have their turns."""
        self._turn += 1
        row = self._turn % len(effect.agents)
        agent, points = effect.agents[[row]], self._observer.chords(effect.decisions[row])
        loss, violation = await self._calls.measure(effect.round, agent, points)
        return self._observer.convex(effect.round, int(agent[0]), points, loss, violation)
