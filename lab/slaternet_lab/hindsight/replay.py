"""A game's functions once more, as they were scored: the adversary played again from round 1.

    f_t = (1/n) sum_i f_{i,t}                 the average loss
    g_t = col(g_{1,t}, ..., g_{n,t})          the stacked constraints: row i m + s is the s-th of agent i

Where agents have left, n and i count those that play the round.

Plugin code is called here and nowhere else in what judges a game afterwards; whatever it raises becomes PluginFailed.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slaternet.departures import Attendance
from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet.plugins import plugin_edge
from slaternet.spec import Spec
from slaternet_adversary.api import Adversary, History, Round
from slaternet_adversary.build import name_of, opened

Rows = NDArray[np.intp]


class Functions:
    """The average loss and the stacked constraints of one round."""

    def __init__(self, functions: Round, round: int, plugin: Adversary, agents: Agents | None = None) -> None:
        self.round = round
        self.plugin = plugin
        with edge(plugin, f"scoring of round {round}"):
            self._of: Any = getattr(functions, "scoring", lambda: functions)()  # with optional methods, looked up below
        self._agents = np.arange(plugin.game.agents) if agents is None else agents
        self._m = plugin.constraints

    @property
    def exact(self) -> bool:
        """Whether the loss is a known quadratic and the constraints are known rows."""
        return hasattr(self._of, "quadratic") and hasattr(self._of, "linear")

    @property
    def lacking(self) -> str:
        """The first method without which gradients are unknown; empty where nothing lacks."""
        if not hasattr(self._of, "quadratic") and not hasattr(self._of, "loss_gradient"):
            return "loss_gradient"
        if self._m and not hasattr(self._of, "linear") and not hasattr(self._of, "constraint_gradient"):
            return "constraint_gradient"
        return ""

    def quadratic(self) -> tuple[Array, Array, float]:
        """Return (H, h, c): f_t(x) = 1/2 x'Hx + h'x + c."""
        with self._calling("quadratic"):
            hessian, slope, constant = self._of.quadratic(self._agents)
            p = self.plugin.game.dimension
            return self._checked(hessian, (p, p)), self._checked(slope, (p,)), float(constant)

    def linear(self) -> tuple[Array, Array]:
        """Return (B, b): g_t(x) = Bx - b."""
        with self._calling("linear"):
            matrix, bound = self._of.linear(self._agents)
            rows = len(self._agents) * self._m
            return self._checked(matrix, (rows, self.plugin.game.dimension)), self._checked(bound, (rows,))

    def loss(self, x: Array) -> tuple[float, Array]:
        """Return f_t(x) and its gradient, x (p,)."""
        with self._calling("loss"):
            if hasattr(self._of, "quadratic"):
                hessian, slope, constant = self.quadratic()
                return float(x @ (0.5 * (hessian @ x) + slope)) + constant, hessian @ x + slope
            points = self._everywhere(x[None])
            values = self._checked(self._of.loss(self._agents, points), points.shape[:2])
            gradients = self._checked(self._of.loss_gradient(self._agents, points), points.shape)
            return float(values.mean()), gradients.mean(axis=(0, 1))

    def constraints(self, points: Array) -> Array:
        """Return g_t at points (N, p), (N, n m)."""
        with self._calling("constraints"):
            if hasattr(self._of, "linear"):
                matrix, bound = self.linear()
                values: Array = points @ matrix.T
                values -= bound
                return values
            n, m = len(self._agents), self._m
            stacked = np.empty((len(points), n * m))
            step = max(1, LIMITS.chunk_bytes // (8 * n * max(points.shape[1], m, 1)))
            for first in range(0, len(points), step):
                asked = self._everywhere(points[first : first + step])
                values = self._checked(self._of.constraint(self._agents, asked), (*asked.shape[:2], m))
                stacked[first : first + step] = values.transpose(1, 0, 2).reshape(-1, n * m)
            return stacked

    def rows(self, chosen: Rows, x: Array) -> tuple[Array, Array]:
        """Return the chosen rows (k,) of g_t at x, (k,), and their gradients, (k, p)."""
        with self._calling("rows"):
            if hasattr(self._of, "linear"):
                matrix, bound = self.linear()
                return matrix[chosen] @ x - bound[chosen], matrix[chosen]
            places, position = np.unique(chosen // self._m, return_inverse=True)
            agents = self._agents[places]
            points = np.broadcast_to(x, (len(agents), 1, len(x)))
            shape = (*points.shape[:2], self._m)
            values = self._checked(self._of.constraint(agents, points), shape)
            gradients = self._checked(self._of.constraint_gradient(agents, points), (*shape, len(x)))
            return values[position, 0, chosen % self._m], gradients[position, 0, chosen % self._m]

    def _calling(self, method: str) -> contextlib.AbstractContextManager[None]:
        return edge(self.plugin, f"{method} of round {self.round}")

    def _everywhere(self, points: Array) -> Array:
        """Return the same points for every agent, (n, N, p)."""
        return np.broadcast_to(points, (len(self._agents), *points.shape))

    def _checked(self, values: Array, shape: tuple[int, ...]) -> Array:
        array = np.asarray(values, dtype=np.float64)
        if array.shape != shape:
            raise ValueError(f"shape {array.shape} where {shape} was asked for")
        if not np.isfinite(array).all():
            raise ValueError("a number that is not finite")
        return array


def replay(spec: Spec, rounds: int, decisions: Array | None = None) -> Iterator[Functions]:
    """Yield the functions of rounds 1 to `rounds`; an adversary that looks back needs the decisions (T, n, p).

    They can be asked until the last has been taken and another is asked for.
    """
    with opened(spec) as (plugin, _):
        yield from _played(spec, plugin, rounds, decisions)


def _played(spec: Spec, plugin: Adversary, rounds: int, decisions: Array | None) -> Iterator[Functions]:
    if plugin.history and (decisions is None or len(decisions) < rounds - 1):
        raise BadSpec(
            f"adversary.plugin = {spec.adversary.plugin} chooses its functions by the decisions, and they are not "
            "known here; play the game with record.decisions = true"
        )
    attendance = Attendance(spec.run.agents, spec.leaving)
    for round in range(1, rounds + 1):
        past = None
        if plugin.history and decisions is not None:
            past = History(decisions[max(0, round - 1 - plugin.history) : round - 1])
        with edge(plugin, f"play({round})"):
            chosen = plugin.play(round, past)
        yield Functions(chosen, round, plugin, attendance.players(round))


def edge(plugin: Adversary, where: str) -> contextlib.AbstractContextManager[None]:
    """Return the plugin edge for calls of an adversary."""
    return plugin_edge("adversary plugin", name_of(plugin), where)
