"""The functions of every round, made again by the plugin: values that were bought, and scores.

Sums of a plugin and of the scores may end in other bits on another machine. What differs by no more than that is
reported apart: nobody gains by it, and nobody is accused of it.
"""

import itertools
import operator
from contextlib import ExitStack
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import PluginFailed, SlaternetError
from slaternet.model import Array, Description, Question, Values
from slaternet.spec import Spec
from slaternet_adversary.engine.events import Play, Score
from slaternet_adversary.journal.entries import Purchase
from slaternet_adversary.journal.query import merge_purchases
from slaternet_adversary.plugin.data import with_data
from slaternet_adversary.plugin.makers import make_plugin, plugin_maker
from slaternet_adversary.plugin.open_rounds import OpenRounds
from slaternet_adversary.scoring import Scored
from slaternet_lab.audit.report import AuditCheck

_ROUNDING = 1e-9
"""Relative to a number, or to 1: by how much sums differ on two machines at most."""
_NAMES = ("f", "g", "f at the anchor", "the loss's gradient", "g at the anchor", "the constraints' gradients")


class Recreation:
    """The plugin plays the game again, and its values and scores are compared with the journalled ones."""

    description: Description | None = None
    """Of the plugin that the game was played with; None where it is not there."""

    def __init__(self, spec: Spec, stack: ExitStack, values: AuditCheck, scores: AuditCheck) -> None:
        self._name, played = spec.adversary.plugin, spec.adversary.sha256
        self._values = values
        self._scores = scores
        self._functions: OpenRounds | None = None
        """None where nothing more can be checked."""
        self._sound = False
        """Whether it is known that the plugin gives the same values twice."""
        self._plays: dict[int, Play] = {}
        """Rounds that the referee has ordered, and that are not compared yet."""
        self._due: dict[int, Scored] = {}
        """Scores made again whose record is still to come."""
        try:
            self._maker = stack.enter_context(plugin_maker(spec))
            plugin, description = make_plugin(spec, self._maker)
        except SlaternetError as error:
            self._give_up(f"not checked: {error}")
            return
        if description.code == played:
            self.description, self._functions = description, OpenRounds(plugin)
        else:
            has = f"has SHA-256 {description.code[:16]} here and was played with {played[:16]}"
            self._give_up(f"not checked: {with_data(spec)} {has}; put that back")

    def begin_after(self, round: int) -> None:
        """Play the rounds up to one that cannot be compared: a plugin plays them in order, from the first on."""
        if self._functions is not None:
            try:
                _play_up_to(round, self._functions)
            except SlaternetError as error:
                self._give_up(f"not checked: {error}")

    def expect(self, effect: Play) -> None:
        """Keep which decisions the functions of a round may depend on."""
        self._plays[effect.round] = effect

    def compare(self, round: int, purchases: list[tuple[int, Purchase]], score: Score | None) -> None:
        """Make the functions of a round, the one after the last, and compare what was bought; then score it."""
        effect, functions = self._plays.pop(round), self._functions
        if functions is None:
            return
        try:
            functions.play(effect)
            for record, some in itertools.groupby(purchases, key=operator.itemgetter(0)):
                # what was evaluated together is evaluated together again
                question, answer = merge_purchases([each for _, each in some])
                self._compare(functions, record, question, answer.values)
            while score is not None and round not in self._due:
                if (scored := functions.score(score)) is not None:
                    self._due[round] = scored
        except SlaternetError as error:
            self._give_up(f"from round {round} on not checked: {error}")
        functions.forget(round)

    def compare_score(self, record: int, journalled: Scored) -> None:
        """Compare a round's score."""
        again = self._due.pop(journalled.round, None)
        if again is None:
            return
        self._scores.count += 1
        due, place = asdict(again), f"record {record}, round {journalled.round}"
        for name, found in asdict(journalled).items():
            if self._apart(self._scores, np.array(found), np.array(due[name]), place).any():
                what = f"{name.replace('_', ' ')} is {found!r}, and by {self._name} {due[name]!r}"
                self._scores.differs(what, record=record, round=journalled.round)

    def _compare(self, functions: OpenRounds, record: int, question: Question, bought: Values) -> None:
        again = functions.evaluate(question)
        asked = [True, True, *2 * [question.loss_gradient], *2 * [question.constraint_gradient]]
        names = itertools.compress(_NAMES, asked)
        for name, found, due in zip(names, arrays_of(bought), arrays_of(again), strict=True):
            self._values.count += found.size
            if found.tobytes() == due.tobytes():
                continue
            apart = self._apart(self._values, found, due, f"record {record}, round {question.round}")
            if apart.any():
                self._check_sound(functions, question, again)
                place = tuple(np.argwhere(apart)[0])
                one, other, agent = float(found[place]), float(due[place]), int(question.agents[place[0]])
                what = f"{name} was sold as {one!r} where {self._name} gives {other!r}"
                self._values.differs(what, record=record, round=question.round, agent=agent)

    def _apart(self, check: AuditCheck, found: Array, due: Array, place: str) -> NDArray[np.bool_]:
        """Return which numbers differ by more than rounding; the first place where one differs by that is named."""
        apart: NDArray[np.bool_] = ~(np.abs(found - due) <= _ROUNDING * np.maximum(1.0, np.abs(due)))
        if ((found != due) & ~apart).any() and not check.reason:
            check.reason = (
                f"checked to {_ROUNDING:g} and not to the bit: from {place} on some differ by rounding, so either the "
                "game was played with other numerics than there are here, or they were changed by that little"
            )
        return apart

    def _check_sound(self, functions: OpenRounds, question: Question, once: Values) -> None:
        """Raise PluginFailed where the plugin contradicts itself, so that no journalled value can be compared with it.

        It is asked again, and so is a new instance that has played the same rounds, unless those need decisions.
        """
        if self._sound:
            return
        others = [functions]
        if self.description is not None and not self.description.history:
            others.append(OpenRounds(self._maker.new()))
            _play_up_to(question.round, others[1])
        values = [array.tobytes() for array in arrays_of(once)]
        for other in others:
            if [array.tobytes() for array in arrays_of(other.evaluate(question))] != values:
                raise PluginFailed(f"{self._name} gives other values each time it plays")
        self._sound = True

    def _give_up(self, reason: str) -> None:
        self._functions = None
        self._values.reason = self._scores.reason = reason
        self._due.clear()


def _play_up_to(last: int, functions: OpenRounds) -> None:
    """Play the rounds up to one, and keep the functions of that one alone."""
    for round in range(1, last + 1):
        functions.play(Play(round, None))
        functions.forget(round - 1)


def arrays_of(values: Values) -> list[Array]:
    """Return all that was bought: f, g, and of the tangents value and gradient."""
    tangents = [each for each in (values.loss, values.constraint) if each is not None]
    return [values.f, values.g, *(part for each in tangents for part in (each.value, each.gradient))]
