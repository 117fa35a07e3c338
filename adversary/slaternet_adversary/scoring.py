"""Scores of a round: (1/n) sum_i f_t(x_i) and (1/n) sum_i ||[g_t(x_i)]_+||, with the global f_t and g_t.

f_t = (1/n) sum_j f_{j,t} and g_t = col(g_{1,t}, ..., g_{n,t}) are known only to the adversary. A plugin's
`network_loss` and `network_violation` are used where it has them; otherwise every agent's functions are evaluated at
every decision. The work is cut into pieces of bounded size that depend on the game alone, so that sums do not depend
on timing.
"""

from dataclasses import dataclass

import numpy as np

from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet_adversary.api import Round


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of a round, averaged over the agents, and those of the baseline at the centre of X."""

    round: int
    loss: float
    violation: float
    zero_loss: float
    zero_violation: float
    disagreement: float


def disagreement(x: Array) -> float:
    """Return (1/n) sum_i |x_i - mean x|."""
    away = x - np.add.reduce(x) / len(x)
    return float(np.add.reduce(np.sqrt(np.einsum("np,np->n", away, away)))) / len(x)


def scored_points(x: Array, centre: Array) -> Array:
    """Return the points at which a round is scored: the decisions, and last the baseline."""
    return np.concatenate((x, centre[None]))


class WrongScores(Exception):
    """A method of a plugin has not returned one number for every point."""

    def __init__(self, method: str, shape: tuple[int, ...], points: int) -> None:
        super().__init__(f"returned the wrong shape: expected (N) = ({points},), got {shape}")
        self.method = method


class NetworkScore:
    """Average loss, and norm of the stacked violations, of some agents at points (N, p), computed piece by piece."""

    def __init__(self, functions: Round, agents: Agents, points: Array, constraints: int) -> None:
        functions = getattr(functions, "scoring", lambda: functions)()
        self.loss, self.violation = np.empty(len(points)), np.empty(len(points))
        self._functions = functions
        self._network_loss = getattr(functions, "network_loss", None)
        self._network_violation = getattr(functions, "network_violation", None)
        self._agents = agents
        self._points = points
        self._done = 0
        # the largest array of a piece holds k rows of points or of constraints per point
        row = 8 * len(agents) * max(points.shape[1], constraints, 1)
        self._step = max(1, LIMITS.chunk_bytes // row)
        # a plugin's own violations hold constraints alone, so that several calls make a piece
        stacked = 8 * len(agents) * max(constraints, 1) * self._step
        self._calls = 1 if self._network_violation is None else max(1, LIMITS.chunk_bytes // stacked)

    def step(self) -> bool:
        """Do one piece of the work; return whether it was the last."""
        return any(self._call() for _ in range(self._calls))

    def _call(self) -> bool:
        """Score a few points; return whether they were the last."""
        here = slice(self._done, self._done + self._step)
        points = self._points[here]
        if self._network_loss is None:
            loss = np.asarray(self._functions.loss(self._agents, _everywhere(self._agents, points))).mean(axis=0)
            self.loss[here] = _checked(loss, points, "loss")
        elif not self._done:  # at once: its cost does not grow with points times agents
            self.loss = _checked(self._network_loss(self._agents, self._points), self._points, "network_loss")
        method = "constraint" if self._network_violation is None else "network_violation"
        violation = self._network_violation or self._pairwise_violation
        self.violation[here] = _checked(violation(self._agents, points), points, method)
        self._done += len(points)
        return self._done == len(self._points)

    def _pairwise_violation(self, agents: Agents, points: Array) -> Array:
        """Return the norm of the stacked violations at points (N, p), every agent evaluated at each of them."""
        excess = np.maximum(self._functions.constraint(agents, _everywhere(agents, points)), 0.0)
        norm: Array = np.sqrt((excess * excess).sum(axis=(0, 2)))
        return norm


class Scoring:
    """The scoring of the decisions (k, p) of the agents that play a round, and of the baseline at the centre."""

    def __init__(
        self,
        functions: Round,
        round: int,
        x: Array,
        centre: Array,
        constraints: int,
        agents: Agents | None = None,  # all of them
    ) -> None:
        self._round = round
        self._x = x
        agents = np.arange(len(x)) if agents is None else agents
        self._network = NetworkScore(functions, agents, scored_points(x, centre), constraints)

    def step(self) -> Scored | None:
        """Do one piece of the work; return the score when it was the last."""
        if not self._network.step():
            return None
        losses, violations, n = self._network.loss, self._network.violation, len(self._x)
        return Scored(
            self._round,
            float(np.add.reduce(losses[:-1])) / n,
            float(np.add.reduce(violations[:-1])) / n,
            float(losses[-1]),
            float(violations[-1]),
            disagreement(self._x),
        )


def _everywhere(agents: Agents, points: Array) -> Array:
    """Return the same points for every agent, (n, N, p)."""
    return np.broadcast_to(points, (len(agents), *points.shape))


def _checked(scores: Array, points: Array, method: str) -> Array:
    if np.shape(scores) != (len(points),):
        raise WrongScores(method, np.shape(scores), len(points))
    return scores
