"""Convexity and slopes of functions, computed from their values.

k   agents        s   points        d   directions        M   chords        rows   1 of a loss, m of constraints
"""

from dataclasses import dataclass

import numpy as np

from slaternet.model import Agents, Array
from slaternet_adversary.plugin.calls import CheckedRound, written

_ROUNDING = 1e-9
"""A value may lie this much above a chord by rounding, of an agent's largest value."""


@dataclass(frozen=True)
class Chord:
    """A chord that a function lies above in its middle, which no convex function does."""

    who: str
    x: Array
    y: Array
    values: Array
    """At x, at y and in the middle."""

    def __str__(self) -> str:
        """Return a sentence with the numbers."""
        at_x, at_y, between = (f"{each:.6g}" for each in self.values)
        ends = f"{at_x} at x = {written(self.x)}, {at_y} at y = {written(self.y)}"
        return f"{self.who} lies above a chord: {ends}, but {between} at (x + y)/2, so it is not convex"


def chord_below(
    at: CheckedRound, method: str, agents: Agents, x: Array, y: Array, *, rounding: float = 0.0
) -> Chord | None:
    """Return the chord, of those between x and y (M, p), that a function of the agents lies above the most.

    `rounding` is the relative error of values that have fewer bits than float64.
    """
    points = np.concatenate((x, y, 0.5 * (x + y)))
    values = at.values(method, agents, np.broadcast_to(points, (len(agents), *points.shape)))
    values = values.reshape(len(agents), 3, len(x), -1)
    above = values[:, 2] - 0.5 * (values[:, 0] + values[:, 1])
    above -= max(_ROUNDING, rounding) * np.abs(values).max(axis=(1, 2), initial=0.0)[:, None]
    if not above.size or above.max() <= 0.0:
        return None
    agent, chord, row = np.unravel_index(int(np.argmax(above)), above.shape)
    name = "f" if method == "loss" else f"row {row} of g"
    return Chord(f"{name} of agent {agents[agent]} in {at.name}", x[chord], y[chord], values[agent, :, chord, row])


def differences(
    at: CheckedRound, method: str, agents: Agents, points: Array, directions: Array, step: float
) -> tuple[Array, Array, Array]:
    """Return values at points (k, s, p), (k, s, 1, rows), and differences ahead and behind, (k, s, d, rows) each."""
    k, s, p = points.shape
    around = np.concatenate((np.zeros((1, p)), step * directions, -step * directions))
    asked = (points[:, :, None] + around).reshape(k, -1, p)
    values = at.values(method, agents, asked).reshape(k, s, len(around), -1)
    here, ahead, behind = values[:, :, :1], *np.split(values[:, :, 1:], 2, axis=2)
    return here, (ahead - here) / step, (here - behind) / step


def slopes(at: CheckedRound, method: str, agents: Agents, points: Array, step: float) -> Array:
    """Return gradients at points (k, s, p) by central differences, (k, s, rows, p)."""
    _, ahead, behind = differences(at, method, agents, points, np.eye(points.shape[-1]), step)
    return (0.5 * (ahead + behind)).swapaxes(-1, -2)
