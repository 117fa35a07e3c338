"""Gradient estimates from values: the points to ask about, and the estimate from the answers.

    u        (k, p)         uniform on the unit sphere, one direction per agent and round
    delta                   exploration radius
    slope    (k,) (k, m)    along u, from values (k, s) or (k, s, m); the estimate of v's gradient is slope * u

    estimate       points                    made of the values v at the points
    forward        x, x + delta u            slope     (p / delta) (v_1 - v_0)
    symmetric      x + delta u, x - delta u  slope     (p / (2 delta)) (v_0 - v_1)
    one point      x + delta u               slope     (p / delta) v_0
    coordinates    x, x + delta e_j          gradient  (v_j - v_0) / delta, for j = 1 .. p; no direction

One direction serves the loss and every row of the constraints, so an estimate is kept as its slope along u. All slopes
are C-contiguous.
"""

import numpy as np

from slaternet.model import Agents, Array
from slaternet.numerics.pieces import pieces
from slaternet.numerics.randomness import block_length, streams
from slaternet_agent.algorithms.game import AlgorithmGame


class Directions:
    """The exploration directions of a game, drawn in blocks of rounds; the last block used is kept."""

    def __init__(self, game: AlgorithmGame) -> None:
        self._game = game
        self._length = block_length(game.dimension)
        self._kept: dict[bytes, tuple[int, Array]] = {}  # one block per set of agents

    def at(self, agents: Agents, t: int) -> Array:
        """Return the unit vectors of round t, (k, p), read-only; independent between agents and rounds."""
        block, offset = divmod(t - 1, self._length)
        key = agents.tobytes()
        kept = self._kept.get(key)
        if kept is None or kept[0] != block:
            kept = self._kept[key] = (block, self._draw(agents, block))
        u: Array = kept[1][offset]
        return u

    def _draw(self, agents: Agents, block: int) -> Array:
        """Return a block of directions, (rounds, k, p)."""
        length, p = self._length, self._game.dimension
        u = np.empty((length, len(agents), p))
        for part in pieces(len(agents), length * p):
            normal = np.empty((part.stop - part.start, length, p))
            addresses = ((int(agent), block) for agent in agents[part])
            for row, generator in enumerate(streams(self._game.seed, "direction", addresses)):
                generator.standard_normal(out=normal[row])
            norm = np.sqrt(np.add.reduce(normal * normal, axis=-1))
            np.divide(normal, norm[..., None], out=u[:, part].transpose(1, 0, 2))
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


def symmetric_points(x: Array, u: Array, delta: float) -> Array:
    """Return x + delta u and x - delta u for each agent, (k, 2, p)."""
    points = np.empty((x.shape[0], 2, x.shape[1]))
    step = delta * u
    np.add(x, step, out=points[:, 0])
    np.subtract(x, step, out=points[:, 1])
    return points


def symmetric(values: Array, dimension: int, delta: float) -> Array:
    """Return the slopes (p / (2 delta)) (v(x + delta u) - v(x - delta u)) of values (k, 2) or (k, 2, m)."""
    slope: Array = np.subtract(values[:, 0], values[:, 1], order="C")
    slope *= dimension / (2.0 * delta)
    return slope


def sphere_point(x: Array, u: Array, delta: float) -> Array:
    """Return x + delta u for each agent, (k, 1, p)."""
    return (x + delta * u)[:, None, :]


def one_point(values: Array, dimension: int, delta: float) -> Array:
    """Return the slopes (p / delta) v(x + delta u) of values (k, 1) or (k, 1, m), C-contiguous."""
    slope: Array = np.multiply(values[:, 0], dimension / delta, order="C")
    return slope


def coordinate_points(x: Array, delta: float) -> Array:
    """Return x, then x + delta e_j for j = 1 .. p, for each agent, (k, p + 1, p)."""
    agents, dimension = x.shape
    points = np.empty((agents, dimension + 1, dimension))
    points[:] = x[:, None, :]
    axes = np.arange(dimension)
    points[:, 1 + axes, axes] += delta
    return points


def coordinates(values: Array, delta: float) -> Array:
    """Return the gradients (v(x + delta e_j) - v(x)) / delta of values (k, p + 1), (k, p), C-contiguous."""
    gradient: Array = np.subtract(values[:, 1:], values[:, :1], order="C")
    gradient /= delta
    return gradient
