"""A game's functions again, as they were scored: the adversary is replayed from round 1.

    f_t = (1/n) sum_i f_{i,t}                 the average loss
    g_t = col(g_{1,t}, ..., g_{n,t})          the stacked constraints: row i m + s is the s-th of agent i

Where agents have left, n and i count those that play the round.

This is the only place that calls plugin code after a game; any exception of a plugin becomes PluginFailed.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from slaternet.attendance import Attendance
from slaternet.errors import BadSpec
from slaternet.model import Agents, Array
from slaternet.spec import Spec
from slaternet_adversary.api import Adversary, History, Round
from slaternet_adversary.plugin.calls import CheckedRound, adversary_edge
from slaternet_adversary.plugin.makers import open_plugin

Rows = NDArray[np.intp]


class RoundFunctions:
    """The average loss and the stacked constraints of one round."""

    def __init__(self, functions: Round, round: int, plugin: Adversary, agents: Agents | None = None) -> None:
        self.round = round
        self.plugin = plugin
        self.at = CheckedRound(plugin, round, functions).scoring()
        self._agents = np.arange(plugin.game.agents) if agents is None else agents

    @property
    def exact(self) -> bool:
        """Whether the loss is a known quadratic and the constraints are known rows."""
        return self.at.has("quadratic") and self.at.has("linear")

    @property
    def lacking(self) -> str:
        """The first missing method without which gradients are unknown; empty where none is missing."""
        has = self.at.has
        if not has("quadratic") and not has("loss_gradient"):
            return "loss_gradient"
        if self.at.m and not has("linear") and not has("constraint_gradient"):
            return "constraint_gradient"
        return ""

    def quadratic(self) -> tuple[Array, Array, float]:
        """Return (H, h, c): f_t(x) = 1/2 x'Hx + h'x + c."""
        return self.at.quadratic(self._agents)

    def linear(self) -> tuple[Array, Array]:
        """Return (B, b): g_t(x) = Bx - b."""
        return self.at.linear(self._agents)

    def loss(self, x: Array) -> tuple[float, Array]:
        """Return f_t(x) and its gradient, x (p,)."""
        if self.at.has("quadratic"):
            hessian, slope, constant = self.quadratic()
            return float(x @ (0.5 * (hessian @ x) + slope)) + constant, hessian @ x + slope
        points = np.broadcast_to(x, (len(self._agents), 1, len(x)))
        values = self.at.loss(self._agents, points)
        return float(values.mean()), self.at.values("loss_gradient", self._agents, points).mean(axis=(0, 1))

    def constraints(self, points: Array) -> Array:
        """Return g_t at points (N, p), (N, n m)."""
        return self.at.stacked(self._agents, points)

    def rows(self, chosen: Rows, x: Array) -> tuple[Array, Array]:
        """Return the chosen rows (k,) of g_t at x, (k,), and their gradients, (k, p)."""
        return self.at.tangents(self._agents, chosen, x)


def replay(spec: Spec, rounds: int, decisions: Array | None = None) -> Iterator[RoundFunctions]:
    """Yield the functions of rounds 1 to `rounds`; an adversary with history needs the decisions (T, n, p).

    They can be evaluated as long as the iterator is open.
    """
    with open_plugin(spec) as (plugin, _):
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
            with adversary_edge(plugin, "play", round):
                chosen = plugin.play(round, past)
            yield RoundFunctions(chosen, round, plugin, attendance.players(round))
