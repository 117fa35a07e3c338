"""The functions of a round that was played in another process."""

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from slaternet.codec import plugin as messages
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array

if TYPE_CHECKING:
    from slaternet_adversary.plugin.remote import Remote


class RemoteRound:
    """The functions of a round that was played elsewhere, with the optional methods that the plugin offers."""

    def __init__(self, remote: "Remote", round: int, methods: messages.Methods) -> None:
        self._remote = remote
        self._round = round
        optional = ("loss_gradient", "constraint_gradient", "quadratic", "linear")
        self._offered = {f"_{name}" for name in optional if getattr(methods, name)}
        if methods.network:
            self._offered |= {"_network_loss", "_network_violation"}
        self._kept: dict[tuple[str, bytes], tuple[bytes, Array]] = {}
        self._scored: tuple[bytes, bytes, messages.ScoreReply] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - an optional method
        # looked up, not set in __init__: a round that refers to its own methods would outlive its last user
        if f"_{name}" in self.__dict__.get("_offered", ()):
            return object.__getattribute__(self, f"_{name}")
        raise AttributeError(f"the functions of round {self._round} have no {name}")

    def loss(self, agents: Agents, points: Array) -> Array:
        """Return f_i at the points, (k, s)."""
        return self._value("f", agents, points)

    def constraint(self, agents: Agents, points: Array) -> Array:
        """Return g_i at the points, (k, s, m)."""
        return self._value("g", agents, points)

    def _value(self, name: str, agents: Agents, points: Array) -> Array:
        """Return f or g at the points and cache the other, which a later call will ask for."""
        about, kept = agents.tobytes(), self._kept.pop((name, agents.tobytes()), None)
        if kept is not None and kept[0] == points.tobytes():
            return kept[1]
        if len(self._kept) >= self._remote.game.agents:
            self._kept.clear()
        answers = self._evaluate(agents, 1 + self._remote.constraints, points, values=True)
        f, g = joined([each.f for each in answers]), joined([each.g for each in answers])
        value, other, rest = (f, "g", g) if name == "f" else (g, "f", f)
        self._kept[other, about] = points.tobytes(), rest
        return value

    def keep_score(self, agents: Agents, points: Array, scored: messages.ScoreReply) -> None:
        """Keep a score, for the calls that ask for its parts."""
        self._scored = agents.tobytes(), points.tobytes(), scored

    def _loss_gradient(self, agents: Agents, points: Array) -> Array:
        answers = self._evaluate(agents, points.shape[2], points, loss_gradient=True)
        return joined([each.loss_gradient for each in answers])

    def _constraint_gradient(self, agents: Agents, points: Array) -> Array:
        answers = self._evaluate(agents, self._remote.constraints * points.shape[2], points, constraint_gradient=True)
        return joined([each.constraint_gradient for each in answers])

    def _quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
        return cast("tuple[Array, Array, float]", self._evaluate(agents, 0, quadratic=True)[0].quadratic)

    def _linear(self, agents: Agents) -> tuple[Array, Array]:
        row = self._remote.constraints * (self._remote.game.dimension + 1)
        parts = [each.linear for each in self._evaluate(agents, row, linear=True)]
        return joined([part and part[0] for part in parts]), joined([part and part[1] for part in parts])

    def _evaluate(
        self, agents: Agents, numbers: int, points: Array | None = None, **asked: bool
    ) -> list[messages.EvaluateReply]:
        """Ask about agents; `numbers` is how many the answer holds for a point, or for an agent without points."""
        row = numbers if points is None else points.shape[1] * max(points.shape[2], numbers)
        points = np.empty((len(agents), 0, 0)) if points is None else points
        return self._remote.evaluate(messages.EvaluateRequest("", self._round, agents, points, **asked), row)

    def _network_loss(self, agents: Agents, points: Array) -> Array:
        return self._score(agents, points)[0]

    def _network_violation(self, agents: Agents, points: Array) -> Array:
        return self._score(agents, points)[1]

    def _score(self, agents: Agents, points: Array) -> tuple[Array, Array]:
        """Return loss and violation at the points, from the last call where it was about all of them."""
        about, where = agents.tobytes(), points.tobytes()
        at = self._scored[1].find(where) if self._scored is not None and self._scored[0] == about else -1
        row = 8 * points.shape[1]
        if self._scored is None or at < 0 or at % row:
            self.keep_score(agents, points, messages.ScoreReply(*self._remote.score(self._round, agents, points)))
            at = 0
        assert self._scored is not None
        here, scored = slice(at // row, at // row + len(points)), self._scored[2]
        return scored.loss[here], scored.violation[here]


def cuts(count: int, numbers: int) -> list[slice]:
    """Cut `count` rows of that many numbers into pieces that one call may carry; at least a row each."""
    size = max(1, LIMITS.plugin_call_bytes // (8 * max(numbers, 1)))
    return [slice(i * size, (i + 1) * size) for i in range(math.ceil(count / size))]


def joined(parts: list[Array | None]) -> Array:
    """Return the pieces of an answer as one array."""
    arrays = cast("list[Array]", parts)
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def called_method(request: object) -> str:
    """Return the methods of the author's that a request to our own worker is about."""
    match request:
        case messages.DescribeRequest():
            return "import or constructor"
        case messages.PlayRequest():
            return "play"
        case messages.EvaluateRequest(values=True):
            return "loss or constraint"
        case messages.EvaluateRequest():
            optional = ("loss_gradient", "constraint_gradient", "quadratic", "linear")
            return next(name for name in optional if getattr(request, name))
    return "scoring"
