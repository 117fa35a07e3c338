"""The exam of the optional methods for scores, and of exact forms for the optimum in hindsight."""

import numpy as np

from slaternet.model import Agents, Array
from slaternet_adversary.plugin.calls import written
from slaternet_adversary.testing.subject import Fault, RoundUnderTest, Verdict, everywhere, guarding
from slaternet_adversary.testing.values import ValueCheck

_NUMBERS = 1 << 22
"""Numbers in one question about all agents, which limit how many points are compared."""
_POINTS = 8
_SAME = 1e-8
"""Values that differ by less, of the largest value, are the same."""

COSTS = {
    "network_loss": "every score evaluates the loss of each agent at each decision",
    "network_violation": "every score evaluates the constraints of each agent at each decision",
    "quadratic": "the optimum in hindsight is found by cutting planes, or not at all without gradients",
    "linear": "Slater points and optima are found by cutting planes, or not at all without gradients",
}
"""By optional method: what its absence costs."""


class Agreement(ValueCheck):
    """An optional method agrees with `loss` or `constraint`."""

    def __init__(self, method: str) -> None:
        self.about = method
        self._source = "loss" if method in ("network_loss", "quadratic") else "constraint"
        self._worst = -1.0

    def look(self, at: RoundUnderTest) -> None:
        """Compare for all agents, for some and for one, by the functions that are scored."""
        scored = at.scoring()
        if scored.has(self.about):
            for agents in (at.subject.everyone, at.subject.everyone[::2], at.subject.everyone[-1:]):
                self._compare(scored, agents)

    def _compare(self, at: RoundUnderTest, agents: Agents) -> None:
        count = max(1, min(_POINTS, _NUMBERS // (len(agents) * at.p * max(1, at.m))))
        points = at.subject.points(at.round)[:count]
        expected, scale = self._expected(at, agents, points)
        found = getattr(self, f"_{self.about}")(at, agents, points)
        apart = np.abs(found - expected)
        worst = float(apart.max(initial=0.0))
        self._worst = max(self._worst, worst / scale if scale else worst)
        if worst > max(_SAME, at.subject.numbers.rounding) * scale:
            which = np.unravel_index(int(np.argmax(apart)), apart.shape)
            row = f", row {which[1]}," if len(which) > 1 else ""
            who = f"{self.about} of {len(agents)} agent(s) in {at.name}{row}"
            text = f"{who} gives {found[which]:.6g} at x = {written(points[which[0]])}"
            raise Fault(self.about, f"{text}, where {self._source} gives {expected[which]:.6g}")

    def _expected(self, at: RoundUnderTest, agents: Agents, points: Array) -> tuple[Array, float]:
        """Return the method's result computed from loss or constraint, and the size of their numbers."""
        asked = everywhere(agents, points)
        if self._source == "loss":
            losses = at.loss(agents, asked)
            return losses.mean(axis=0), float(np.abs(losses).max())
        stacked = at.constraint(agents, asked).transpose(1, 0, 2).reshape(len(points), -1)
        scale = float(np.abs(stacked).max(initial=0.0))
        if self.about == "linear":
            return stacked, scale
        excess = np.maximum(stacked, 0.0)
        return np.sqrt(np.sum(excess * excess, axis=1)), scale

    def _network_loss(self, at: RoundUnderTest, agents: Agents, points: Array) -> Array:
        return at.checked(self.about, at.call(self.about, agents, points), (len(points),))

    _network_violation = _network_loss

    def _quadratic(self, at: RoundUnderTest, agents: Agents, points: Array) -> Array:
        hessian, slope, constant = self._parts(at, agents, 3)
        hessian = at.checked(self.about, hessian, (at.p, at.p))
        slope = at.checked(self.about, slope, (at.p,))
        if np.abs(hessian - hessian.T).max() > _SAME * np.abs(hessian).max():
            raise Fault(self.about, f"H of quadratic in {at.name} is not symmetric; return (H + H')/2")
        with guarding(
            at.subject, f"c of quadratic in {at.name}", self.about, at.round, of=at.functions, about=self.about
        ):
            number = float(constant)
        return np.asarray(np.sum((0.5 * points @ hessian + slope) * points, axis=1) + number)

    def _linear(self, at: RoundUnderTest, agents: Agents, points: Array) -> Array:
        matrix, bound = self._parts(at, agents, 2)
        rows = len(agents) * at.m
        return points @ at.checked(self.about, matrix, (rows, at.p)).T - at.checked(self.about, bound, (rows,))

    def _parts(self, at: RoundUnderTest, agents: Agents, count: int) -> tuple[Array, ...]:
        returned = at.call(self.about, agents)
        if not isinstance(returned, tuple) or len(returned) != count:
            form = "(H, h, c)" if count == 3 else "(B, b)"
            kind = type(returned).__name__
            raise Fault(self.about, f"{self.about} of {at.name} is a {kind}; return the tuple {form}")
        return returned

    def _finding(self) -> tuple[Verdict, str]:
        if self._worst < 0.0:
            return "note", f"absent: {COSTS[self.about]}"
        return "ok", f"agrees with {self._source} for one, some and all agents, to {self._worst:.1g} of its size"


class ScoreShapes(ValueCheck):
    """The functions that are scored have the same shapes as those revealed."""

    about = "scoring"

    def __init__(self) -> None:
        self._differs = False
        self._seen = True

    def look(self, at: RoundUnderTest) -> None:
        """Ask the functions that are scored like those revealed."""
        self._seen = at.subject.place == "here"
        scored = at.scoring()
        if scored is at:
            return
        self._differs = True
        agents = at.subject.everyone
        asked = everywhere(agents, at.subject.points(at.round)[:2])
        try:
            first = (scored.loss(agents, asked), scored.constraint(agents, asked))
            again = at.scoring()
            second = again.loss(agents, asked), again.constraint(agents, asked)
        except Fault as fault:
            raise Fault(self.about, f"what scoring() returns fails: {fault}") from fault
        if any(was.tobytes() != now.tobytes() for was, now in zip(first, second, strict=True)):
            raise Fault(self.about, f"scoring() of {at.name} returns other functions when called again")

    def _finding(self) -> tuple[Verdict, str]:
        if self._differs:
            return "ok", "what is scored is not what is revealed; it has the same shapes"
        if not self._seen:
            return "note", "not seen from outside of its process"
        return "ok", "what is revealed is what is scored"
