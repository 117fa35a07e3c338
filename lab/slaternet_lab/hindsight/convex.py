"""The best fixed decision in hindsight for convex functions of which only values and gradients are known.

    minimise  sum_t f_t(x)    over x in X with g_t(x) <= 0 for all t

Sequential quadratic programming (SLSQP) on X and a few constraints; those violated most at its answer are added until
there are none. The multipliers of the certificate are found afterwards, by non-negative least squares.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from slaternet.errors import BadSpec
from slaternet.model import Array
from slaternet.numerics.sets import FeasibleSet
from slaternet_adversary.plugin.calls import name_of
from slaternet_lab.functions.cones import cones
from slaternet_lab.functions.replay import RoundFunctions
from slaternet_lab.hindsight.programme import Certificate, Optimum

_TOLERANCE = 1e-9
"""Of R(X): largest value of a constraint, over the length of its gradient, that counts as feasible."""
_HOPELESS = 1e-6
"""Of R(X): a violation that no further work removes."""
_ITERATIONS = 500

Working = NDArray[np.intp]
"""Constraints at work, (k, 2): index of the round from 0, row of its g; sorted."""


class ConvexProgramme:
    """The programme of the rounds added so far; `optimum` may be asked for at any time."""

    def __init__(self, feasible: FeasibleSet) -> None:
        self._x = cones(feasible)
        self._feasible = feasible
        self._functions: list[RoundFunctions] = []
        self._working: Working = np.empty((0, 2), dtype=np.intp)
        self._start = feasible.centre
        self._unit = 1.0  # of the average loss: its slope at the centre
        self._last: tuple[Array, Array, Array] | None = None

    def add(self, functions: RoundFunctions) -> None:
        """Add the next round; BadSpec where its gradients are unknown."""
        if lacking := functions.lacking:
            raise BadSpec(
                f"the adversary plugin {name_of(functions.plugin)} does not tell its gradients, which regret "
                f"needs; give its rounds {lacking}, or quadratic and linear"
            )
        self._functions.append(functions)

    def value(self, x: Array) -> float:
        """Return sum_t f_t(x)."""
        return sum(each.loss(x)[0] for each in self._functions)

    def optimum(self) -> Optimum:
        """Return the best point of X_T; BadSpec where there is none."""
        count = max(20, 3 * self._feasible.dimension)
        self._unit = float(np.abs(self._average(self._feasible.centre)[1]).max()) or 1.0
        while True:
            point = self._solve()
            self._start = point[: self._feasible.dimension]
            missed, largest = self._violated(self._start, count)
            working = np.unique(np.concatenate((self._working, missed)), axis=0)
            if len(working) == len(self._working):
                break
            self._working, self._last = working, None
        certificate = self._certify(point)
        if certificate.infeasibility > _HOPELESS:
            raise BadSpec(
                f"no point of the set was found that is feasible in all rounds from 1 to {len(self._functions)}, and "
                "without one regret is undefined; weaken the adversary's constraints or play fewer rounds"
            )
        return Optimum(len(self._functions), self._start, self.value(self._start), -largest, certificate)

    def _solve(self) -> Array:
        """Return a minimiser (x, w) over X and the constraints at work."""
        constraints = [{"type": "ineq", "fun": self._inside, "jac": self._inside_slopes}]
        if len(self._working):
            values, slopes = (lambda y: -self._at_work(y)[0]), (lambda y: -self._at_work(y)[1])
            constraints.append({"type": "ineq", "fun": values, "jac": slopes})

        def scaled(y: Array) -> tuple[float, Array]:
            value, slope = self._average(y)
            return value / self._unit, slope / self._unit

        start = np.concatenate((self._start, np.zeros(self._x.extra)))
        options = {"ftol": 1e-15, "maxiter": _ITERATIONS}
        found = optimize.minimize(scaled, start, jac=True, method="SLSQP", constraints=constraints, options=options)
        return np.asarray(found.x)

    def _average(self, y: Array) -> tuple[float, Array]:
        """Return the average loss and its gradient over (x, w)."""
        total, slope = 0.0, np.zeros_like(y)
        for each in self._functions:
            value, gradient = each.loss(y[: self._feasible.dimension])
            total += value
            slope[: len(gradient)] += gradient
        return total / len(self._functions), slope / len(self._functions)

    def _at_work(self, y: Array) -> tuple[Array, Array]:
        """Return the constraints at work, (k,), and their gradients over (x, w), (k, p + extra)."""
        if self._last is not None and np.array_equal(self._last[0], y):  # values and slopes are asked for in turn
            return self._last[1:]
        x = y[: self._feasible.dimension]
        values, slopes = np.empty(len(self._working)), np.zeros((len(self._working), len(y)))
        for round in np.unique(self._working[:, 0]):
            mine = self._working[:, 0] == round
            values[mine], slopes[mine, : len(x)] = self._functions[round].rows(self._working[mine, 1], x)
        self._last = y.copy(), values, slopes
        return values, slopes

    def _inside(self, y: Array) -> Array:
        """Return numbers that are all >= 0 where y lies in X, smooth in y."""
        slacks = self._x.bound - self._x.matrix @ y
        parts = [
            part if kind == "linear" else [part[0] ** 2 - part[1:] @ part[1:]] for kind, part in self._x.parts(slacks)
        ]
        return np.concatenate(parts)

    def _inside_slopes(self, y: Array) -> Array:
        slacks, matrix = self._x.bound - self._x.matrix @ y, self._x.matrix.toarray()
        slopes, start = [], 0
        for kind, part in self._x.parts(slacks):
            rows = -matrix[start : start + len(part)]
            slopes.append(rows if kind == "linear" else 2.0 * (part[0] * rows[:1] - part[None, 1:] @ rows[1:]))
            start += len(part)
        return np.concatenate(slopes)

    def _violated(self, x: Array, count: int) -> tuple[Working, float]:
        """Return the constraints that x violates most, at most `count`, and the largest value of all."""
        found, sizes, largest = [np.empty((0, 2), dtype=np.intp)], [np.empty(0)], -np.inf
        for index, each in enumerate(self._functions):
            values = each.constraints(x[None])[0]
            largest = max(largest, float(values.max(initial=-np.inf)))
            rows = np.flatnonzero(values > 0.0)
            if len(rows):
                lengths = np.sqrt(np.sum(each.rows(rows, x)[1] ** 2, axis=1))
                distances = values[rows] / np.where(lengths > 0.0, lengths, 1.0)
                missed = distances > _TOLERANCE * self._feasible.outer
                found.append(np.column_stack((np.full(len(rows), index), rows))[missed])
                sizes.append(distances[missed])
        order = np.argsort(-np.concatenate(sizes), kind="stable")[:count]
        return np.concatenate(found)[order], largest

    def _certify(self, y: Array) -> Certificate:
        _, gradient = self._average(y)
        values, slopes = self._at_work(y)
        # every face of X like a constraint: <= 0 inside
        values, slopes = np.concatenate((values, -self._inside(y))), np.concatenate((slopes, -self._inside_slopes(y)))
        lengths = np.sqrt(np.sum(slopes**2, axis=1))
        lengths[lengths == 0.0] = 1.0
        values, slopes = values / lengths, slopes / lengths[:, None]
        slacks = np.abs(values)
        outer, steepness = self._feasible.outer, max(self._unit, float(np.abs(gradient).max()))
        equations = np.concatenate((slopes.T, slacks[None] / outer))
        multipliers, _ = optimize.nnls(equations, np.append(-gradient, 0.0))
        return Certificate(
            float(np.abs(slopes.T @ multipliers + gradient).max()) / steepness,
            float(np.maximum(values, 0.0).max()) / outer,
            float(slacks @ multipliers) / (steepness * outer),
        )
