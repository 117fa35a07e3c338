"""Feasible sets as cones, and the conic solver: one thread, silent, with a given tolerance.

X = {x : there is w with  bound - on_x x - on_w w  in K}

K      a product of cones: "linear", entries >= 0, and "norm", the first entry at least the length of the others
w      helpers, such as w >= |x| of an l1 ball
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import clarabel
import numpy as np
from scipy import sparse

from slaternet.errors import BadSpec
from slaternet.model import Array
from slaternet.numerics.sets import Ball, Box, FeasibleSet, Halfspaces, L1Ball, Product, Shifted, Simplex

_CONES = {"linear": clarabel.NonnegativeConeT, "norm": clarabel.SecondOrderConeT}
_ANSWERED = (
    clarabel.SolverStatus.Solved,
    clarabel.SolverStatus.AlmostSolved,
    clarabel.SolverStatus.InsufficientProgress,  # its best point; the caller checks how good that is
)


@dataclass(frozen=True)
class Cones:
    """A set, row by row; `shape` names the cones in order and how many rows each has."""

    on_x: sparse.csr_matrix
    on_w: sparse.csr_matrix
    bound: Array
    shape: tuple[tuple[str, int], ...]

    @property
    def extra(self) -> int:
        """The number of helpers."""
        return int(self.on_w.shape[1])

    @functools.cached_property
    def matrix(self) -> sparse.csr_matrix:
        """The rows over (x, w)."""
        return sparse.hstack((self.on_x, self.on_w), format="csr")

    def with_rows(self, rows: Array, bounds: Array) -> "Cones":
        """Return the points of the set with rows x <= bounds; the new rows are the last."""
        on_x = sparse.vstack((self.on_x, sparse.csr_matrix(rows)), format="csr")
        on_w = sparse.vstack((self.on_w, sparse.csr_matrix((len(rows), self.extra))), format="csr")
        shape = (*self.shape, ("linear", len(rows))) if len(rows) else self.shape
        return Cones(on_x, on_w, np.concatenate((self.bound, bounds)), shape)

    def outside(self, slacks: Array) -> float:
        """Return by how much slacks leave K: 0 inside."""
        worst = 0.0
        for kind, part in self.parts(slacks):
            inside = part.min() if kind == "linear" else part[0] - np.sqrt(np.sum(part[1:] ** 2))
            worst = max(worst, -float(inside))
        return worst

    def nearest_multipliers(self, multipliers: Array) -> Array:
        """Return the nearest multipliers of K, which is its own dual cone."""
        parts = [
            np.maximum(part, 0.0) if kind == "linear" else _onto_norm(part) for kind, part in self.parts(multipliers)
        ]
        return np.concatenate(parts)

    def parts(self, rows: Array) -> Iterator[tuple[str, Array]]:
        """Cut one entry per row into cones."""
        start = 0
        for kind, height in self.shape:
            yield kind, rows[start : start + height]
            start += height


def cones(feasible: FeasibleSet) -> Cones:
    """Return a feasible set as cones."""
    match feasible:
        case Box(dimension=p):
            return _cone(np.concatenate((np.eye(p), -np.eye(p))), np.concatenate((feasible.upper, -feasible.lower)))
        case Ball(dimension=p):
            bound = np.concatenate(([feasible.radius], np.zeros(p)))
            return _cone(np.concatenate((np.zeros((1, p)), -np.eye(p))), bound, "norm")
        case Simplex(dimension=p):
            return _cone(np.concatenate((-np.eye(p), np.ones((1, p)))), np.append(np.zeros(p), feasible.size))
        case L1Ball(dimension=p):
            # x <= w, -x <= w, sum w <= radius
            unit = sparse.identity(p, format="csr")
            on_x = sparse.vstack((unit, -unit, sparse.csr_matrix((1, p))), format="csr")
            on_w = sparse.vstack((-unit, -unit, sparse.csr_matrix(np.ones((1, p)))), format="csr")
            return Cones(on_x, on_w, np.append(np.zeros(2 * p), feasible.radius), (("linear", 2 * p + 1),))
        case Halfspaces():
            return _cone(feasible.normals, feasible.bounds)
        case Product():
            parts = [cones(part) for part in feasible.parts]
            return Cones(
                sparse.block_diag([part.on_x for part in parts], format="csr"),
                sparse.block_diag([part.on_w for part in parts], format="csr"),
                np.concatenate([part.bound for part in parts]),
                tuple(cone for part in parts for cone in part.shape),
            )
        case Shifted():
            of = cones(feasible.of)
            return Cones(of.on_x, of.on_w, of.bound + of.on_x @ feasible.by, of.shape)
        case _:
            raise BadSpec(f"set.kind: {type(feasible).__name__} has no conic form; choose another kind for regret")


def _cone(matrix: Array, bound: Array, kind: str = "linear") -> Cones:
    k = len(matrix)
    return Cones(sparse.csr_matrix(matrix), sparse.csr_matrix((k, 0)), np.asarray(bound), ((kind, k),))


def _onto_norm(part: Array) -> Array:
    """Return the nearest (t, v) with t >= |v|."""
    t, length = float(part[0]), float(np.sqrt(np.sum(part[1:] ** 2)))
    if length <= t:
        return part
    if length <= -t:
        return np.zeros_like(part)
    half = 0.5 * (t + length)
    return np.concatenate(([half], part[1:] * (half / length)))


@dataclass(frozen=True)
class Solution:
    """The solver's answer; the caller checks how good it is."""

    answered: bool
    infeasible: bool
    status: str
    y: Array
    multipliers: Array


def minimise(hessian: sparse.spmatrix, slope: Array, x: Cones, tolerance: float) -> Solution:
    """Return the minimiser y of 1/2 y'Hy + h'y over the cones; `tolerance` is of feasibility and gap."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = tolerance
    shape = [_CONES[kind](rows) for kind, rows in x.shape]
    upper = sparse.triu(hessian, format="csc")
    found = clarabel.DefaultSolver(upper, slope, sparse.csc_matrix(x.matrix), x.bound, shape, settings).solve()
    infeasible = found.status == clarabel.SolverStatus.PrimalInfeasible
    return Solution(found.status in _ANSWERED, infeasible, str(found.status), np.array(found.x), np.array(found.z))
