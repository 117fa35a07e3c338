"""Gradient estimates from values: where to ask, and what to make of the answers.

    u        (k, p)      uniform on the unit sphere, one direction per agent and round
    delta                exploration radius
    points   (k, 2, p)   x and x + delta u
    slope    (k, ...)    (p / delta) (v(x + delta u) - v(x)); the estimate of v's gradient is slope * u

One direction serves the loss and every row of the constraints, so an estimate is kept as its slope along u.
"""

import numpy as np

from slaternet.model import Agents, Array
from slaternet.streams import block_length, locate
from slaternet_agent.algorithms.base import Game


class Directions:
    """The exploration directions of a game, drawn in blocks of rounds and kept for the block last asked for."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._length = block_length(game.dimension)
        self._kept: dict[bytes, tuple[int, Array]] = {}  # one block per set of agents

    def at(self, agents: Agents, t: int) -> Array:
        """Return the unit vectors of round t, (k, p), read-only; independent between agents and rounds."""
        block, offset = locate(t, self._length)
        key = agents.tobytes()
        kept = self._kept.get(key)
        if kept is None or kept[0] != block:
            kept = self._kept[key] = (block, self._draw(agents, block))
        u: Array = kept[1][offset]
        return u

    def _draw(self, agents: Agents, block: int) -> Array:
        """Return a block of directions, (rounds, k, p)."""
        normal = np.empty((len(agents), self._length, self._game.dimension))
        for row, agent in enumerate(agents):
            self._game.stream("direction", int(agent), block).standard_normal(out=normal[row])
        norm = np.sqrt(np.add.reduce(normal * normal, axis=-1))
        u = np.empty((self._length, len(agents), self._game.dimension))
        np.divide(normal, norm[..., None], out=u.transpose(1, 0, 2))
        u.setflags(write=False)
        return u


def forward_points(x: Array, u: Array, delta: float) -> Array:
    """Return x and x + delta u for each agent, (k, 2, p)."""
    points = np.empty((x.shape[0], 2, x.shape[1]))
    points[:, 0] = x
    np.add(x, delta * u, out=points[:, 1])
    return points


def forward(values: Array, dimension: int, delta: float) -> Array:
    """Return the slopes (p / delta) (v(x + delta u) - v(x)) of values (k, 2) or (k, 2, m), C-contiguous."""
    slope: Array = np.subtract(values[:, 1], values[:, 0], order="C")
    slope *= dimension / delta
    return slope
