"""The exam of values: shapes, finite numbers, and bits that depend on nothing but the question."""

import abc
from collections import deque
from dataclasses import replace

import numpy as np

from slaternet.limits import LIMITS
from slaternet.model import Array
from slaternet_adversary.plugin.calls import MODERATE, written
from slaternet_adversary.testing.numbers import Numbers
from slaternet_adversary.testing.subject import Fault, Line, RoundUnderTest, Verdict, everywhere

_HELD = 8
"""Arrays that are held to see whether they change."""


class ValueCheck(abc.ABC):
    """Examines all rounds for one line of the report."""

    about: str

    @abc.abstractmethod
    def look(self, at: RoundUnderTest) -> None:
        """Examine one round; Fault where it breaks the contract."""

    @abc.abstractmethod
    def _finding(self) -> tuple[Verdict, str]:
        """Return verdict and text of the line."""

    def finding(self) -> Line:
        """Return the line, after the last round."""
        verdict, text = self._finding()
        return Line(verdict, self.about, text)


class Shapes(ValueCheck):
    """For one, two and all agents, at one and three points."""

    about = "shapes"

    def __init__(self) -> None:
        self._empty = ""
        self._m = 0

    def look(self, at: RoundUnderTest) -> None:
        """Ask for different numbers of agents and points."""
        self._m = at.m
        everyone = at.subject.everyone
        for agents in (everyone[:1], everyone[-1:], everyone[:2], everyone):
            for s in (1, 3):
                points = everywhere(agents, at.subject.points(at.round)[:s])
                at.loss(agents, points)
                at.constraint(agents, points)
        if at.subject.place == "here" and not self._empty:
            try:
                at.loss(everyone, everywhere(everyone, at.subject.points(at.round)[:0]))
            except Fault:
                self._empty = "; a question without points fails, but no game asks one"

    def _finding(self) -> tuple[Verdict, str]:
        shapes = f"loss is (k, s) and constraint (k, s, {self._m})"
        return "ok", f"{shapes} for 1, 2 and all agents at 1 and 3 points{self._empty}"


class Finite(ValueCheck):
    """At the centre, corners, border and inside of X."""

    about = "finite"

    def __init__(self) -> None:
        self._largest = {"f": 0.0, "g": 0.0}
        self._points = 0

    def look(self, at: RoundUnderTest) -> None:
        """Ask everywhere."""
        agents, points = at.subject.sampled, at.subject.points(at.round)
        asked = everywhere(agents, points)
        values = {"f": at.loss(agents, asked), "g": at.constraint(agents, asked)}
        self._points += len(points)
        for name, each in values.items():
            self._largest[name] = max(self._largest[name], float(np.abs(each).max(initial=0.0)))

    def _finding(self) -> tuple[Verdict, str]:
        f, g = self._largest["f"], self._largest["g"]
        where = f"{self._points} points of X, its centre, corners, border and inside"
        return "ok", f"|f| <= {f:.4g} and |g| <= {g:.4g} at {where}"


class Overflow(ValueCheck):
    """Values whose squares and sums are finite."""

    about = "overflow"

    def look(self, at: RoundUnderTest) -> None:
        """Ask everywhere."""
        agents, points = at.subject.sampled, at.subject.points(at.round)
        for method in ("loss", "constraint"):
            values = at.values(method, agents, everywhere(agents, points))
            if np.vdot(values, values) > LIMITS.magnitude**2:
                which = np.unravel_index(int(np.argmax(np.abs(values))), values.shape)
                where = f"{method} of agent {agents[which[0]]} in {at.name} is {values[which]:.6g}"
                text = (
                    f"{where} at x = {written(points[which[1]])}, too large to be scored (above {LIMITS.magnitude:g})"
                )
                raise Fault(self.about, f"{text}; {MODERATE}")

    def _finding(self) -> tuple[Verdict, str]:
        return "ok", "squares and sums of values are finite, and so are scores"


class Dtype(ValueCheck):
    """What becomes of numbers on the way to float64."""

    about = "dtype"

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    def finding(self) -> Line:
        """Return the line, with the place of the method that has returned the numbers."""
        return replace(super().finding(), where=self._numbers.where)

    def look(self, at: RoundUnderTest) -> None:
        """Do nothing: all other checks have their numbers noted."""

    def _finding(self) -> tuple[Verdict, str]:
        numbers = self._numbers
        if numbers.coarse:
            lost = f"with {numbers.epsilon:.0e} of a value lost where float64 loses 2e-16"
            return "warning", f"{numbers.coarse}, {lost}: estimates of gradients, which are differences, lose far more"
        if numbers.converted:
            return "note", f"{numbers.converted}, which becomes one of float64 at every call"
        return "ok", "all numbers are float64"


class Arrays(ValueCheck):
    """What is returned belongs to the game: the author's code does not change it later."""

    about = "arrays"

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._held: deque[tuple[str, Array, bytes]] = deque(maxlen=_HELD)

    def look(self, at: RoundUnderTest) -> None:
        """Hold what is returned for two questions, without a copy, and look whether later calls have changed it."""
        agents, points = at.subject.everyone, at.subject.question(at.round)
        for asked in (points, points[:, ::-1]):
            for method in ("loss", "constraint"):
                returned = np.asarray(at.call(method, agents, asked))
                self._look_again()
                self._held.append((f"{method} of {at.name}", returned, returned.tobytes()))

    def _look_again(self) -> None:
        for where, returned, was in self._held:
            if returned.tobytes() != was:
                raise Fault(self.about, f"{where} returned an array that a later call has changed; return a new one")

    def _finding(self) -> tuple[Verdict, str]:
        self._look_again()
        if self._numbers.strided:
            return "note", f"{self._numbers.strided} is an array that is not contiguous, and is copied at every call"
        return "ok", "later calls do not change what was returned"


class Order(ValueCheck):
    """The same question gives the same bits, independent of earlier questions."""

    about = "query order"

    def look(self, at: RoundUnderTest) -> None:
        """Ask A, then B, then A again with g before f."""
        agents, points = at.subject.everyone, at.subject.question(at.round)
        f, g = at.loss(agents, points), at.constraint(agents, points)
        other = points[:, ::-1]
        at.loss(agents, other)
        at.constraint(agents, other)
        for name, was, now in (("constraint", g, at.constraint(agents, points)), ("loss", f, at.loss(agents, points))):
            differs = np.argwhere(was != now)
            if len(differs):
                which = tuple(differs[0])
                where = f"{name} of agent {agents[which[0]]} in {at.name}"
                values = f"{was[which]:.6g} at first and {now[which]:.6g}"
                text = f"{where} was {values} when asked again; let a round remember no question"
                raise Fault(self.about, text, at.subject.course.standing(name))

    def _finding(self) -> tuple[Verdict, str]:
        return "ok", "the same bits when asked again, after other questions, g before f"


class Rowwise(ValueCheck):
    """An agent's bits alone, in pairs and in larger batches."""

    about = "rowwise"

    def __init__(self, *, claimed: bool) -> None:
        self.claimed = claimed
        self._differs = ""
        self._seen = (0, 0)

    def look(self, at: RoundUnderTest) -> None:
        """Compare batches with all agents asked at once."""
        self._seen = max(self._seen, (at.subject.game.agents, at.p))
        self._differs = self._differs or self._difference(at)
        if self._differs and self.claimed:
            remedy = "sum over the last axis of C-contiguous arrays without BLAS, or say rowwise = False"
            raise Fault(self.about, f"rowwise = True, but {self._differs}; {remedy}")

    def _difference(self, at: RoundUnderTest) -> str:
        everyone, points = at.subject.everyone, at.subject.points(at.round)
        alone = [everyone[i : i + 1] for i in at.subject.sampled]
        batches = [*alone, everyone[:2], everyone[-2:], everyone[::2], everyone[1:]]
        for s in (1, 2, 3):
            asked = points[(everyone[:, None] + np.arange(s)) % len(points)]
            for name, method in (("loss", at.loss), ("constraint", at.constraint)):
                together = method(everyone, asked)
                for batch in batches:
                    differ = (method(batch, asked[batch]) != together[batch]).any(axis=tuple(range(1, together.ndim)))
                    if differ.any():
                        who = f"{name} of agent {batch[int(np.argmax(differ))]} in {at.name}"
                        beside = "asked alone" if len(batch) == 1 else f"asked beside {len(batch) - 1} other(s)"
                        return f"{who} has other bits {beside} than beside all {len(everyone)}"
        return ""

    def _finding(self) -> tuple[Verdict, str]:
        n, p = self._seen
        if self.claimed:
            seen = f"the same bits alone, in pairs and in larger batches, up to {n} agents in {p} dimensions"
            return "ok", f"claimed, and {seen}"
        cost = "not claimed: a game asks about one agent per call"
        if self._differs:
            return "note", f"{cost}, and rightly: {self._differs}"
        return "note", f"{cost}; batches had the same bits here, so rowwise = True may be worth a try"
