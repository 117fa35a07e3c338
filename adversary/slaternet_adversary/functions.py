"""The functions of the rounds in play, and every call of the plugin that made them: it is named where it fails."""

import math
from collections.abc import Callable

import numpy as np
import structlog

from slaternet.errors import PluginFailed
from slaternet.model import Agents, Array, Question, Tangent, Values
from slaternet_adversary.api import Adversary, History, Round
from slaternet_adversary.build import name_of
from slaternet_adversary.events import Play, Played, Score, Scored
from slaternet_adversary.scores import Scoring

log = structlog.get_logger()


class Functions:
    """What a plugin has fixed and may still be asked about. One call at a time."""

    def __init__(self, plugin: Adversary) -> None:
        self._plugin = plugin
        self._rounds: dict[int, Round] = {}
        self._scoring: Scoring | None = None

    def play(self, effect: Play) -> Played:
        """Have the functions of a round fixed."""
        past = None if effect.past is None else History(effect.past)
        try:
            self._rounds[effect.round] = self._plugin.play(effect.round, past)
        except Exception as error:
            raise self._raised(error, f"play({effect.round})") from None
        return Played(effect.round)

    def forget(self, round: int) -> None:
        """Let go of a round that is recorded."""
        self._rounds.pop(round, None)

    def score(self, effect: Score) -> Scored | None:
        """Do a piece of the scoring of a round, the same until it is done; return the score when it is."""
        try:
            if self._scoring is None:
                centre, constraints, agents = self._plugin.game.set.centre, self._plugin.constraints, effect.agents
                x = effect.x if len(agents) == len(effect.x) else effect.x[agents]
                self._scoring = Scoring(self._rounds[effect.round], effect.round, x, centre, constraints, agents)
            scored = self._scoring.step()
        except Exception as error:
            raise self._raised(error, f"the score of round {effect.round}") from None
        if scored is None:
            return None
        if not all(map(math.isfinite, (scored.loss, scored.violation, scored.zero_loss, scored.zero_violation))):
            raise self._failure(f"the score of round {effect.round} is not finite")
        self._scoring = None
        return scored

    def evaluate(self, question: Question) -> Values:
        """Return the values that a question asks for."""
        rows = (self._plugin.constraints,)
        try:
            f = self._values(question, "loss", question.points)
            g = self._values(question, "constraint", question.points, rows)
            loss = self._tangent(question, "loss") if question.loss_gradient else None
            constraint = self._tangent(question, "constraint", rows) if question.constraint_gradient else None
        except Exception as error:
            raise self._raised(error, f"round {question.round}") from None
        return Values(f, g, loss, constraint)

    def _tangent(self, question: Question, what: str, rows: tuple[int, ...] = ()) -> Tangent | None:
        """Return a function's value and gradient at the anchor; nothing else is evaluated there."""
        if question.anchor is None:
            return None
        points, p = question.anchor[:, None], question.anchor.shape[1:]
        value = self._values(question, what, points, rows)
        return Tangent(value[:, 0], self._values(question, f"{what}_gradient", points, (*rows, *p))[:, 0])

    def _values(self, question: Question, what: str, points: Array, rows: tuple[int, ...] = ()) -> Array:
        """Return a function at points (k, s, p) as (k, s, rows), checked."""
        shape = (*points.shape[:2], *rows)
        if not shape[1]:
            return np.empty(shape)  # nothing is asked for, and a plugin need not cope with that
        values = self._ask(getattr(self._rounds[question.round], what), question.agents, points)
        array = np.ascontiguousarray(values, dtype=np.float64)
        name = f"{what.replace('_', ' ')} of round {question.round}"
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
