"""The functions of every round made again by the plugin: values that were bought, and scores.

Sums of a plugin and of the scores may end in other bits on another machine. What differs by no more than that is
named apart: nobody gains by it, and nobody is accused of it.
"""

from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import SlaternetError
from slaternet.model import Array, Question, Values
from slaternet.spec import Spec
from slaternet_adversary.api import Adversary
from slaternet_adversary.engine.events import Play, Score
from slaternet_adversary.journal.entries import Purchase
from slaternet_adversary.plugin.makers import Maker
from slaternet_adversary.plugin.open_rounds import OpenRounds
from slaternet_adversary.scoring import Scored
from slaternet_lab.audit.purchases import Sheet, numbers
from slaternet_lab.audit.report import AuditCheck

_ROUNDING = 1e-9
"""Relative to a number, or to 1: by how much sums differ on two machines at most."""
_NAMES = ("f", "g", "f at the anchor", "the loss's gradient", "g at the anchor", "the constraints' gradients")


class Recreation:
    """A plugin that plays the game a second time, and what it says compared with what was journalled."""

    def __init__(self, spec: Spec, plugin: Adversary, maker: Maker, values: AuditCheck, scores: AuditCheck) -> None:
        self._name = spec.adversary.plugin
        self._every = spec.record.score_every
        self._plugin = plugin
        self._maker = maker
        self._functions = OpenRounds(plugin)
        self._values = values
        self._scores = scores
        self._sound = False
        """Whether it is known that the plugin says the same twice."""
        self._broken = False
        """Whether nothing more can be checked."""
        self._due: dict[int, Scored] = {}
        """Scores made again whose record has not come yet."""

    def begin_after(self, round: int) -> None:
        """Play the rounds up to one that cannot be compared: a plugin plays them in order, from the first on."""
        try:
            for each in range(1, round + 1):
                self._functions.play(Play(each, None))
                self._functions.forget(each)
        except SlaternetError as error:
            self._give_up(f"not checked: {error}")

    def compare(self, round: int, sheet: Sheet, past: Array | None) -> None:
        """Make the functions of a round, the one after the last, and compare what was bought; then score it."""
        if self._broken:
            return
        try:
            self._functions.play(Play(round, past))
            for record, purchase in sheet.purchases:
                self._compare(record, purchase)
            if round % self._every == 0 and not self._broken:
                self._due[round] = self._scored(Score(round, sheet.x, np.flatnonzero(sheet.decided)))
        except SlaternetError as error:
            self._give_up(f"from round {round} on not checked: {error}")
        self._functions.forget(round)

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

    def _scored(self, effect: Score) -> Scored:
        while (score := self._functions.score(effect)) is None:
            pass
        return score

    def _compare(self, record: int, purchase: Purchase) -> None:
        again = self._functions.evaluate(purchase.asked.question)
        agents, round = purchase.asked.question.agents, purchase.asked.question.round
        for name, found, due in zip(_names(again), numbers(purchase.values), numbers(again), strict=True):
            if found.shape != due.shape:
                what = f"{name} has shape {found.shape}, and by {self._name} {due.shape}"
                self._values.differs(what, record=record, round=round)
                continue
            self._values.count += found.size
            if found.tobytes() == due.tobytes():
                continue
            apart = self._apart(self._values, found, due, f"record {record}, round {round}")
            if apart.any() and self._is_fickle(purchase.asked.question, again):
                return
            for row in np.flatnonzero(apart.reshape(len(apart), -1).any(axis=1)):
                where = tuple(np.argwhere(apart[row])[0]) if apart.ndim > 1 else ()
                one, other = float(found[row][where]), float(due[row][where])
                what = f"{name} was sold as {one!r} where {self._name} gives {other!r}"
                self._values.differs(what, record=record, round=round, agent=int(agents[row]))

    def _apart(self, check: AuditCheck, found: Array, due: Array, place: str) -> NDArray[np.bool_]:
        """Say which numbers differ by more than rounding; the first place where one differs by that is named."""
        apart: NDArray[np.bool_] = ~(np.abs(found - due) <= _ROUNDING * np.maximum(1.0, np.abs(due)))
        if ((found != due) & ~apart).any() and not check.reason:
            check.reason = (
                f"checked to {_ROUNDING:g} and not to the bit: from {place} on some differ by rounding, so either the "
                "game was played with other numerics than there are here, or they were changed by that little"
            )
        return apart

    def _is_fickle(self, question: Question, once: Values) -> bool:
        """Whether the plugin contradicts itself, and so cannot be held against anything that was journalled.

        It is asked again, and so is a new instance that has played the same rounds, unless those need decisions.
        """
        if self._sound:
            return False
        others, last = [self._functions], question.round
        if not self._plugin.history:
            others.append(OpenRounds(self._maker.new()))
            for round in range(1, last + 1):
                others[1].play(Play(round, None))
                others[1].forget(round - 1)
        said = [array.tobytes() for array in numbers(once)]
        self._sound = all([each.tobytes() for each in numbers(other.evaluate(question))] == said for other in others)
        if not self._sound:
            self._give_up(f"from round {last} on not checked: {self._name} gives other values each time it plays")
        return not self._sound

    def _give_up(self, reason: str) -> None:
        self._broken = True
        self._values.reason = self._scores.reason = reason
        self._due.clear()


def _names(values: Values) -> list[str]:
    asked = [True, True, *2 * [values.loss is not None], *2 * [values.constraint is not None]]
    return [name for name, each in zip(_NAMES, asked, strict=True) if each]
