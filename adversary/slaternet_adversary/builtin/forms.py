"""The functions and random numbers that the built-in adversaries are made of.

Functions        losses that are squares of linear residuals, under linear constraints
Separable        losses that are a sum over coordinates, a parabola each, under linear constraints
Quadratics       losses that are any quadratic form, under linear constraints
Targets          losses that are squared distances from a target of one's own, under linear constraints
Part             a part of a whole, as an option
Constraints      how many constraints an agent has, as an option
check_size       refuses functions that would not fit into memory
RandomNumbers    uniform and normal numbers for every row and round
along            a day's course, through the entries of a table
ladder           a number for each coordinate, from cheap to dear
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet.numerics.pieces import pieces
from slaternet.numerics.randomness import block_length, locate, streams
from slaternet_adversary.api import CannotPlay, Game

Part = Annotated[float, Field(ge=0, lt=1), "at least 0 and below 1"]
Constraints = Annotated[int, Field(gt=0, le=LIMITS.constraints)]


class Functions:
    """Every agent's functions in one round: the rows of A and B stacked, and what is subtracted from them.

    Values are products summed over the last axis, so that an agent's bits do not depend on the others in a question.
    Scores are for the observer alone and may use BLAS.
    """

    __slots__ = ("_asked", "_linear", "_rows", "_values", "a", "b", "bound", "matrix", "offset", "theta")

    def __init__(self, matrix: Array, offset: Array, rows: int) -> None:
        self.matrix = matrix  # (n, rows + m, p)
        self.offset = offset  # (n, rows + m)
        self.a, self.b = matrix[:, :rows], matrix[:, rows:]  # (n, rows, p), (n, m, p)
        self.theta, self.bound = offset[:, :rows], offset[:, rows:]  # (n, rows), (n, m)
        self._rows = rows
        self._asked = b""
        self._values = np.empty(0)
        self._linear: tuple[Array, Array] | None = None

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
        return _apply(self.a.transpose(0, 2, 1), agents, self._differences(agents, points)[..., : self._rows])

    def constraint_gradient(self, agents: Agents, points: Array) -> Array:
        """Return B at every point, (k, s, m, p)."""
        return np.repeat(_of(self.b, agents)[:, None], points.shape[1], axis=1)

    def network_loss(self, agents: Agents, points: Array) -> Array:
        """Return the agents' average loss at points (N, p): by its quadratic form in O(k + N), not O(k N).

        Where the p x p matrix of that form is larger than a piece of a score and than all residuals, by the residuals.
        """
        p, count = points.shape[1], len(points) * len(agents) * self._rows
        if p * p > max(count, LIMITS.chunk_bytes // 8):
            return self._residual_loss(agents, points)
        hessian, slope, constant = self.quadratic(agents)
        loss: Array = np.einsum("np,np->n", points @ (0.5 * hessian) + slope, points)
        loss += constant
        return loss

    def _residual_loss(self, agents: Agents, points: Array) -> Array:
        """Return the same without the matrix of the quadratic form, a few points at a time."""
        a, theta = self._squares(agents)
        loss = np.empty(len(points))
        step = max(1, LIMITS.chunk_bytes // (8 * len(a)))
        for first in range(0, len(points), step):
            residual = points[first : first + step] @ a.T
            residual -= theta
            loss[first : first + step] = np.einsum("nr,nr->n", residual, residual)
        loss /= 2 * len(agents)
        return loss

    def _squares(self, agents: Agents) -> tuple[Array, Array]:
        """Return (A, theta): the agents' summed loss is 1/2 |A x - theta|^2."""
        return _of(self.a, agents).reshape(-1, self.matrix.shape[-1]), _of(self.theta, agents).reshape(-1)

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
        check_size(self.matrix.shape[-1] ** 2)
        (a, theta), count = self._squares(agents), len(agents)
        return a.T @ a / count, -(theta @ a) / count, float(theta @ theta) / (2 * count)

    def linear(self, agents: Agents) -> tuple[Array, Array]:
        """Return (B, b): the agents' stacked constraints are B x - b <= 0."""
        if self._linear is not None and len(agents) == len(self.matrix):
            return self._linear
        linear = _of(self.b, agents).reshape(-1, self.matrix.shape[-1]), _of(self.bound, agents).reshape(-1)
        if len(agents) == len(self.matrix):
            self._linear = linear  # a score asks for it piece by piece, and it may be a copy
        return linear

    def _differences(self, agents: Agents, points: Array) -> Array:
        """Return A x - theta and B x - b side by side, (k, s, rows + m).

        Loss and constraint are asked at the same points one after the other: the product is computed once for both.
        """
        asked = agents.tobytes() + points.tobytes()
        if asked != self._asked:
            self._values = _apply(self.matrix, agents, points)
            self._values -= _of(self.offset, agents)[:, None]
            self._asked = asked
        return self._values


class Separable(Functions):
    """Every agent's functions in one round.

    f_i(x) = sum_j (1/2 curvature_ij x_j^2 + slope_ij x_j) + constant_i,     g_i(x) = B_i x - b_i
    """

    __slots__ = ("constant", "curvature", "slope")

    def __init__(self, curvature: Array, slope: Array, constant: Array, matrix: Array, bound: Array) -> None:
        super().__init__(matrix, bound, rows=0)  # B (n, m, p) and b (n, m)
        self.curvature = curvature  # (n, p), not negative
        self.slope = slope  # (n, p)
        self.constant = constant  # (n,)

    def loss(self, agents: Agents, points: Array) -> Array:
        """Return f_i, (k, s)."""
        terms = np.multiply(0.5 * self.curvature[agents][:, None], points, order="C")
        terms += self.slope[agents][:, None]
        terms *= points
        loss: Array = np.add.reduce(terms, axis=-1)
        loss += self.constant[agents][:, None]
        return loss

    def loss_gradient(self, agents: Agents, points: Array) -> Array:
        """Return curvature x + slope, coordinate by coordinate, (k, s, p)."""
        gradient: Array = np.multiply(self.curvature[agents][:, None], points, order="C")
        gradient += self.slope[agents][:, None]
        return gradient

    def network_loss(self, agents: Agents, points: Array) -> Array:
        """Return the agents' average loss at points (N, p): O(k + N), not O(k N)."""
        curvature, slope, constant = self._average(agents)
        loss: Array = np.einsum("np,np->n", points * (0.5 * curvature) + slope, points)
        loss += constant
        return loss

    def quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
        """Return (H, h, c): the agents' average loss is 1/2 x'Hx + h'x + c."""
        check_size(self.matrix.shape[-1] ** 2)
        curvature, slope, constant = self._average(agents)
        return np.diag(curvature), slope, constant

    def _average(self, agents: Agents) -> tuple[Array, Array, float]:
        curvature, slope, constant = self.curvature[agents], self.slope[agents], self.constant[agents]
        return curvature.mean(axis=0), slope.mean(axis=0), float(constant.mean())


class Quadratics(Functions):
    """Every agent's functions in one round.

    f_i(x) = 1/2 x'H_i x + h_i'x + c_i,     g_i(x) = B_i x - b_i
    """

    __slots__ = ("constant", "hessian", "slope")

    def __init__(self, hessian: Array, slope: Array, constant: Array, matrix: Array, bound: Array) -> None:
        super().__init__(matrix, bound, rows=0)  # B (n, m, p) and b (n, m)
        self.hessian = hessian  # H (n, p, p), symmetric
        self.slope = slope  # h (n, p)
        self.constant = constant  # c (n,)

    def loss(self, agents: Agents, points: Array) -> Array:
        """Return f_i, (k, s)."""
        terms = _apply(self.hessian, agents, points)
        terms *= 0.5
        terms += self.slope[agents][:, None]
        terms *= points
        loss: Array = np.add.reduce(terms, axis=-1)
        loss += self.constant[agents][:, None]
        return loss

    def loss_gradient(self, agents: Agents, points: Array) -> Array:
        """Return H x + h, (k, s, p)."""
        gradient = _apply(self.hessian, agents, points)
        gradient += self.slope[agents][:, None]
        return gradient

    def network_loss(self, agents: Agents, points: Array) -> Array:
        """Return the agents' average loss at points (N, p)."""
        hessian, slope, constant = self.quadratic(agents)
        loss: Array = np.einsum("np,np->n", points @ (0.5 * hessian) + slope, points)
        loss += constant
        return loss

    def quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
        """Return (H, h, c): the agents' average loss is 1/2 x'Hx + h'x + c."""
        average = _of(self.hessian, agents).mean(axis=0), self.slope[agents].mean(axis=0)
        return *average, float(self.constant[agents].mean())


class Targets(Functions):
    """Every agent's functions in one round: A is the same multiple of the identity for all, and is not stored.

    f_i(x) = 1/2 |root x - theta_i|^2,     g_i(x) = B_i x - b_i

    Values have the bits of the same functions with their matrices.
    """

    __slots__ = ("_root", "_targets")

    def __init__(self, root: float, targets: Array, matrix: Array, bound: Array) -> None:
        super().__init__(matrix, bound, rows=0)  # B (n, m, p) and b (n, m)
        self._root = root
        self._targets = targets  # theta (n, p)

    def loss(self, agents: Agents, points: Array) -> Array:
        """Return f_i, (k, s)."""
        residual = self._residual(agents, points)
        residual *= residual
        loss: Array = np.add.reduce(residual, axis=-1)
        loss *= 0.5
        return loss

    def loss_gradient(self, agents: Agents, points: Array) -> Array:
        """Return root (root x - theta), (k, s, p)."""
        gradient = self._residual(agents, points)
        gradient *= self._root
        gradient += 0.0  # as in a sum with zeros, no zero has a sign
        return gradient

    def network_loss(self, agents: Agents, points: Array) -> Array:
        """Return the agents' average loss at points (N, p): O(k + N), not O(k N)."""
        if self._small:
            return self.stacked().network_loss(agents, points)
        slope, constant = self._average(agents)
        loss: Array = np.einsum("np,np->n", points * (0.5 * self._root**2) + slope, points)
        loss += constant
        return loss

    def quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
        """Return (H, h, c): the agents' average loss is 1/2 x'Hx + h'x + c."""
        if self._small:
            return self.stacked().quadratic(agents)
        check_size(self.matrix.shape[-1] ** 2)
        return self._root**2 * np.eye(self.matrix.shape[-1]), *self._average(agents)

    def stacked(self) -> Functions:
        """Return the same functions with their matrices, n (p + m) p numbers."""
        n, m, p = self.matrix.shape
        check_size(n * (p + m) * p)
        matrix = np.empty((n, p + m, p))
        matrix[:, :p] = self._root * np.eye(p)
        matrix[:, p:] = self.matrix
        return Functions(matrix, np.concatenate((self._targets, self.offset), axis=1), p)

    @property
    def _small(self) -> bool:
        """Whether scores come from the matrices, whose sums are rounded a little differently."""
        n, m, p = self.matrix.shape
        return int(n * (p + m) * p) <= LIMITS.chunk_bytes // 8

    def _average(self, agents: Agents) -> tuple[Array, float]:
        targets = _of(self._targets, agents)
        return -self._root * targets.mean(axis=0), float(np.vdot(targets, targets)) / (2 * len(agents))

    def _residual(self, agents: Agents, points: Array) -> Array:
        residual: Array = np.multiply(self._root, points, order="C")
        residual -= _of(self._targets, agents)[:, None]
        return residual


class RandomNumbers:
    """For every row (an agent, a site) and round: numbers uniform on [0, 1), and standard normal ones.

    They are drawn in whole blocks of rounds, so that a longer game begins with the same numbers.
    """

    def __init__(self, game: Game, purpose: str, rows: int, uniform: int, normal: int = 0) -> None:
        self._seed = game.seed
        self._purpose = purpose
        length = block_length(uniform + normal)
        check_size(rows * (uniform + normal))
        self._shape = rows, length, uniform, normal
        self._drawn: tuple[Array, ...] = ()
        self._block = -1

    def uniform(self, round: int) -> Array:
        """Return the uniform numbers of a round, (rows, uniform); they depend on the seed alone."""
        return self._at(round)[0]

    def normal(self, round: int) -> Array:
        """Return the normal numbers of a round, (rows, normal)."""
        return self._at(round)[1]

    def _at(self, round: int) -> tuple[Array, Array]:
        block, offset = locate(round, self._shape[1])
        if block != self._block:
            self._drawn = ()  # not two blocks at a time
            self._drawn, self._block = self._draw(block), block
        uniform, normal = self._drawn
        return uniform[offset], normal[offset]

    def _draw(self, block: int) -> tuple[Array, Array]:
        """Return the numbers of a block, (length, rows, uniform) and (length, rows, normal).

        A generator fills one row of all rounds, a game reads all rows of one round: some rows at a time are turned.
        """
        rows, length, *widths = self._shape
        drawn = tuple(np.empty((length, rows, width)) for width in widths)
        for part in pieces(rows, length * sum(widths)):
            turned = [np.empty((part.stop - part.start, length, width)) for width in widths]
            addresses = ((row, block) for row in range(part.start, part.stop))
            for place, generator in enumerate(streams(self._seed, self._purpose, addresses)):
                generator.random(out=turned[0][place])
                generator.standard_normal(out=turned[1][place])
            for whole, numbers in zip(drawn, turned, strict=True):
                whole[:, part] = numbers.swapaxes(0, 1)
        return drawn[0], drawn[1]


def check_size(numbers: int) -> None:
    """Refuse, before they take any memory, functions that would take too much of it."""
    if numbers > LIMITS.function_numbers:
        raise CannotPlay(
            f"the functions of a round would take {numbers} numbers, more than {LIMITS.function_numbers}; lower "
            "run.agents, run.dimension, or the rows and constraints in adversary.options"
        )


def along(table: Array, turns: Array | float) -> Array:
    """Return a periodic course after so many turns: straight lines through the entries of the table.

    Not sines, whose last bit differs between machines.
    """
    place = np.asarray(turns, dtype=np.float64) % 1.0 * len(table)
    entry = np.floor(place)
    here = entry.astype(np.intp) % len(table)
    value: Array = table[here] + (place - entry) * (table[(here + 1) % len(table)] - table[here])
    return value


def ladder(p: int) -> Array:
    """Return p numbers in equal steps between 1/2 and 3/2, (p,); their average is 1."""
    return (np.arange(p) + 0.5) / p + 0.5


def _of(values: Array, agents: Agents) -> Array:
    """Return the rows of the agents, without a copy where it is all of them (agents ascend)."""
    return values if len(agents) == len(values) else values.take(agents, axis=0)


def _apply(matrices: Array, agents: Agents, points: Array) -> Array:
    """Return each agent's matrix (q, r) times each of its points (k, s, r), (k, s, q), without BLAS."""
    everyone, (q, r), (k, s, _) = len(agents) == len(matrices), matrices.shape[1:], points.shape
    applied = np.empty((k, s, q))
    for part in pieces(k, s * q * r):
        chosen, asked = matrices[part if everyone else agents[part]], points[part]
        # Repeating the points makes the product run over long rows; a broadcast one runs over r numbers at a time.
        repeated = np.repeat(asked, q, axis=1).reshape(len(asked), s, q, r)
        np.add.reduce(np.multiply(chosen[:, None], repeated, order="C"), axis=-1, out=applied[part])
    return applied
