"""The exam of what only the observer sees: scores at once, and exact forms for the optimum in hindsight."""

from collections.abc import Iterator

import numpy as np

from slaternet.model import Agents, Array
from slaternet_adversary.testing.shape import written
from slaternet_adversary.testing.subject import Fault, Line, RoundUnderTest, everywhere, guarding

_NUMBERS = 1 << 22
"""Numbers in one question about everybody, which decide how many points are compared."""
_POINTS = 8
_SAME = 1e-8
"""Of the largest value: what differs by less is the same."""

_COSTS = {
    "network_loss": "every score evaluates the loss of each agent at each decision",
    "network_violation": "every score evaluates the constraints of each agent at each decision",
    "quadratic": "the optimum in hindsight is found by cutting planes, or not at all without gradients",
    "linear": "Slater points and optima are found by cutting planes, or not at all without gradients",
}
"""What it costs to have no such method."""


class Agreement:
    """An optional method that says at once what `loss` and `constraint` say one by one."""

    def __init__(self, method: str) -> None:
        self.about = method
        self._worst = -1.0
        self._doubt = ""

    def look(self, at: RoundUnderTest) -> None:
        """Compare for all agents, for some and for one, of what is scored."""
        scored = at.scoring()
        if scored.has(self.about):
            for agents in (at.subject.everyone, at.subject.survivors, at.subject.everyone[-1:]):
                self._compare(scored, agents)

    def _compare(self, at: RoundUnderTest, agents: Agents) -> None:
        count = max(1, min(_POINTS, _NUMBERS // (len(agents) * at.p * max(1, at.m))))
        points = at.subject.points(at.round)[:count]
        expected, scale = self._expected(at, agents, points)
        found = getattr(self, f"_{self.about}")(at, agents, points)
        apart = np.abs(found - expected)
        worst = float(apart.max(initial=0.0))
        self._worst = max(self._worst, worst / scale if scale else worst)
        if worst > _SAME * scale:
            which = np.unravel_index(int(np.argmax(apart)), apart.shape)
            row = f", row {which[1]}," if len(which) > 1 else ""
            who = f"{self.about} of {len(agents)} agent(s) in {at.name}{row}"
            text = f"{who} gives {found[which]:.6g} at x = {written(points[which[0]])}"
            self._wrong(at, f"{text}, where {self._source} gives {expected[which]:.6g}")

    @property
    def _source(self) -> str:
        return "loss" if self.about in ("network_loss", "quadratic") else "constraint"

    def _expected(self, at: RoundUnderTest, agents: Agents, points: Array) -> tuple[Array, float]:
        """Return what loss or constraint say, as the method says it, and the size of the numbers it comes from."""
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

    def _wrong(self, at: RoundUnderTest, text: str) -> None:
        """Fail, unless a worker stands between, which does not say whether something else is scored than revealed."""
        if at.subject.place != "worker":
            raise Fault(self.about, text)
        self._doubt = text

    def _network_loss(self, at: RoundUnderTest, agents: Agents, points: Array) -> Array:
        return at.checked(self.about, at.call(self.about, agents, points), (len(points),))

    _network_violation = _network_loss

    def _quadratic(self, at: RoundUnderTest, agents: Agents, points: Array) -> Array:
        hessian, slope, constant = self._parts(at, agents, 3)
        hessian = at.checked(self.about, hessian, (at.p, at.p))
        slope = at.checked(self.about, slope, (at.p,))
        if np.abs(hessian - hessian.T).max() > _SAME * np.abs(hessian).max():
            raise Fault(self.about, f"H of quadratic in {at.name} is not symmetric; return (H + H')/2")
        with guarding(f"c of quadratic in {at.name}", about=self.about):
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
            raise Fault(
                self.about, f"{self.about} of {at.name} is a {type(returned).__name__}; return the tuple {form}"
            )
        return returned

    def finding(self) -> Line:
        """Return the line."""
        if self._worst < 0.0:
            return Line("note", self.about, f"absent: {_COSTS[self.about]}")
        if self._doubt:
            hint = "wrong, unless its scoring() says otherwise; examine it with adversary.isolation none to know"
            return Line("warning", self.about, f"{self._doubt}: {hint}")
        text = f"agrees with {self._source} for one, some and all agents, to {self._worst:.1g} of its size"
        return Line("ok", self.about, text)


class ScoreShapes:
    """What is scored has the shapes of what is revealed."""

    about = "scoring"

    def __init__(self) -> None:
        self._differs = False
        self._seen = True

    def look(self, at: RoundUnderTest) -> None:
        """Ask what is scored as if it were revealed."""
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

    def finding(self) -> Line:
        """Return the line."""
        if self._differs:
            return Line("ok", self.about, "what is scored is not what is revealed; it has the same shapes")
        if not self._seen:
            return Line("note", self.about, "not seen from outside of its process")
        return Line("ok", self.about, "what is revealed is what is scored")


def agreements() -> Iterator[Agreement]:
    """Yield the check of every optional method that the observer uses."""
    return (Agreement(method) for method in _COSTS)
