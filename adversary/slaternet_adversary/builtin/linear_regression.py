"""The paper's numerical example: online linear regression under random linear constraints.

    f_{i,t}(x) = 1/2 |A x - theta|^2       A (rows, p) uniform on [-1, 1], theta = A 1 + standard normal noise
    g_{i,t}(x) = B x - b                   B (m, p) uniform on [0, 2], b (m,) uniform on [b, b + 1]

x = 0 satisfies every constraint with margin b, Slater's condition. With the paper's b = 0.01 hardly any feasible point
is better; b = 1 or 5 makes a livelier game.
"""

from typing import Annotated

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from slaternet.fields import checked
from slaternet.model import Agents, Array
from slaternet.streams import block_length, locate
from slaternet_adversary.api import Adversary, CannotPlay, Game, History


class Functions:
    """Every agent's functions in one round: the rows of A and B stacked, and what is subtracted from them.

    What agents are told is computed by products summed over the last axis, exact to the bit whoever is asked about.
    Scores are for the observer alone and may use BLAS.
    """

    __slots__ = ("_asked", "_rows", "_values", "matrix", "offset")

    def __init__(self, matrix: Array, offset: Array, rows: int) -> None:
        self.matrix = matrix  # (n, rows + m, p)
        self.offset = offset  # (n, rows + m)
        self._rows = rows
        self._asked = b""
        self._values = np.empty(0)

    @property
    def a(self) -> Array:
        """A, (n, rows, p)."""
        return self.matrix[:, : self._rows]

    @property
    def theta(self) -> Array:
        """theta, (n, rows)."""
        return self.offset[:, : self._rows]

    @property
    def b(self) -> Array:
        """B, (n, m, p)."""
        return self.matrix[:, self._rows :]

    @property
    def bound(self) -> Array:
        """b, (n, m)."""
        return self.offset[:, self._rows :]

    def loss(self, agents: Agents, points: Array) -> Array:
        """Return 1/2 |A x - theta|^2, (k, s)."""
        residual = self._differences(agents, points)[..., : self._rows]
        loss: Array = np.add.reduce(np.multiply(residual, residual, order="C"), axis=-1)
        loss *= 0.5
        return loss

    def constraint(self, agents: Agents, points: Array) -> Array:
        """Return B x - b, (k, s, m)."""
        return self._differences(agents, points)[..., self._rows :].copy()

    def loss_gradient(self, agents: Agents, points: Array) -> Array:
        """Return A' (A x - theta), (k, s, p)."""
        transposed = _of(self.a, agents).transpose(0, 2, 1)
        return _apply(transposed, self._differences(agents, points)[..., : self._rows])

    def constraint_gradient(self, agents: Agents, points: Array) -> Array:
        """Return B at every point, (k, s, m, p)."""
        return np.repeat(_of(self.b, agents)[:, None], points.shape[1], axis=1)

    def network_loss(self, agents: Agents, points: Array) -> Array:
        """Return the agents' average loss at points (N, p), by its quadratic form: O(k + N), not O(k N)."""
        hessian, slope, constant = self.quadratic(agents)
        loss: Array = np.einsum("np,np->n", points @ (0.5 * hessian) + slope, points)
        loss += constant
        return loss

    def network_violation(self, agents: Agents, points: Array) -> Array:
        """Return the norm of the agents' stacked [g]_+ at points (N, p)."""
        b, bound = self.linear(agents)
        violation = points @ b.T
        violation -= bound
        np.maximum(violation, 0.0, out=violation)
        norm: Array = np.sqrt(np.einsum("nm,nm->n", violation, violation))
        return norm

    def quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
        """Return (H, h, c): the agents' average loss is 1/2 x'Hx + h'x + c."""
        a = _of(self.a, agents).reshape(-1, self.matrix.shape[-1])
        theta = _of(self.theta, agents).reshape(-1)
        count = len(agents)
        return a.T @ a / count, -(theta @ a) / count, float(theta @ theta) / (2 * count)

    def linear(self, agents: Agents) -> tuple[Array, Array]:
        """Return (B, b): the agents' stacked constraints are B x - b <= 0."""
        return _of(self.b, agents).reshape(-1, self.matrix.shape[-1]), _of(self.bound, agents).reshape(-1)

    def _differences(self, agents: Agents, points: Array) -> Array:
        """Return A x - theta and B x - b side by side, (k, s, rows + m).

        Loss and constraint are asked about the same points one after the other: the product is made once for both.
        """
        asked = agents.tobytes() + points.tobytes()
        if asked != self._asked:
            self._values = _apply(_of(self.matrix, agents), points)
            self._values -= _of(self.offset, agents)[:, None]
            self._asked = asked
        return self._values


class LinearRegression(Adversary):
    """The paper's adversary: fresh functions for every agent in every round, whatever was decided."""

    rowwise = True

    @checked("adversary.options", CannotPlay)
    def __init__(
        self,
        game: Game,
        *,
        rows: PositiveInt = 4,
        constraints: PositiveInt = 2,
        b: Annotated[PositiveFloat, "a number above 0, for Slater's condition to hold"] = 0.01,
    ) -> None:
        super().__init__(game)
        self.constraints = constraints
        self._rows = rows
        self._b = b
        numbers = (rows + constraints) * (game.dimension + 1)
        self._length = block_length(numbers)
        self._drawn: tuple[int, Array, Array] | None = None

    def play(self, round: int, past: History | None = None) -> Functions:
        """Return the functions of any round; they depend on nothing but the seed."""
        del past  # oblivious
        block, offset = locate(round, self._length)
        if self._drawn is None or self._drawn[0] != block:
            self._drawn = (block, *self._draw(block))
        uniform, noise = self._drawn[1][:, offset], self._drawn[2][:, offset]
        n, p, m, rows = self.game.agents, self.game.dimension, self.constraints, self._rows
        matrix = (2.0 * uniform[:, :-m]).reshape(n, rows + m, p)
        a = matrix[:, :rows]
        a -= 1.0
        bounds = np.empty((n, rows + m))
        np.add(np.add.reduce(a.copy(), axis=-1), noise, out=bounds[:, :rows])
        np.add(uniform[:, -m:], self._b, out=bounds[:, rows:])
        return Functions(matrix, bounds, rows)

    def _draw(self, block: int) -> tuple[Array, Array]:
        """Return a block's uniform numbers, for A, B and b, and its normal ones; (n, rounds, numbers) each.

        A whole block is drawn also where the game ends inside it: a longer game begins with the same functions.
        """
        p, m = self.game.dimension, self.constraints
        uniform = np.empty((self.game.agents, self._length, (self._rows + m) * p + m))
        noise = np.empty((self.game.agents, self._length, self._rows))
        for agent in range(self.game.agents):
            generator = self.game.stream("functions", agent, block)
            generator.random(out=uniform[agent])
            generator.standard_normal(out=noise[agent])
        return uniform, noise


def _of(values: Array, agents: Agents) -> Array:
    """Return the rows of the agents named; they ascend, so as many as there are is everyone, and nothing is copied."""
    return values if len(agents) == len(values) else values.take(agents, axis=0)


def _apply(matrices: Array, points: Array) -> Array:
    """Return each agent's matrix (k, q, r) times each of its points (k, s, r), (k, s, q), without BLAS."""
    k, q, r = matrices.shape
    # Repeating the points makes the product run over long rows; a broadcast one runs over r numbers at a time.
    repeated = np.repeat(points, q, axis=1).reshape(k, -1, q, r)
    applied: Array = np.add.reduce(np.multiply(matrices[:, None], repeated, order="C"), axis=-1)
    return applied
