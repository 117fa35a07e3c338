"""Projections against a solver that shares no code with them, and against each other."""

import itertools
from collections.abc import Mapping
from typing import Any

import clarabel
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import block_diag
from scipy.optimize import nnls

from slaternet.numerics.sets import Box, FeasibleSet, Halfspaces, L1Ball, Simplex, make_set
from slaternet.numerics.sets.quadratic import onto_halfspaces

few = settings(max_examples=8, deadline=None)
SEEDS = st.integers(0, 9999)
SCALES = st.floats(0.01, 1.0)


class Cone:
    """{x : bounds - rows x in K}, how a conic solver is told of a set."""

    def __init__(self, rows: np.ndarray, bounds: np.ndarray, kinds: list[Any]) -> None:
        self.rows, self.bounds, self.kinds = rows, bounds, kinds

    @classmethod
    def of(cls, kind: str, p: int, numbers: Mapping[str, Any]) -> "Cone":
        match kind:
            case "box":
                upper, lower = np.broadcast_to(numbers["upper"], p), np.broadcast_to(numbers["lower"], p)
                return cls.linear(np.vstack([np.eye(p), -np.eye(p)]), np.concatenate([upper, -lower]))
            case "ball":
                rows = np.vstack([np.zeros((1, p)), -np.eye(p)])
                return cls(rows, np.append(numbers["radius"], np.zeros(p)), [clarabel.SecondOrderConeT(p + 1)])
            case "simplex":
                return cls.linear(np.vstack([-np.eye(p), np.ones((1, p))]), np.append(np.zeros(p), numbers["size"]))
            case "l1-ball":
                signs = np.array(list(itertools.product((-1.0, 1.0), repeat=p)))
                return cls.linear(signs, np.full(len(signs), numbers["radius"]))
            case "halfspaces":
                rows = np.array(numbers["normals"])
                return cls.linear(rows, np.broadcast_to(numbers["bounds"], len(rows)).astype(float))
            case "shifted":
                cone = cls.of(numbers["of"]["kind"], p, numbers["of"])
                return cls(cone.rows, cone.bounds + cone.rows @ np.broadcast_to(numbers["by"], p), cone.kinds)
            case _:
                cones = [cls.of(part["kind"], part["dimension"], part) for part in numbers["parts"]]
                rows = block_diag(*(cone.rows for cone in cones))
                bounds = np.concatenate([cone.bounds for cone in cones])
                return cls(rows, bounds, [each for cone in cones for each in cone.kinds])

    @classmethod
    def linear(cls, rows: np.ndarray, bounds: np.ndarray) -> "Cone":
        return cls(rows, bounds, [clarabel.NonnegativeConeT(len(bounds))])

    def nearest(self, v: np.ndarray, c: np.ndarray, scale: float) -> np.ndarray:
        """Return the point of c + scale (X - c) nearest to v, by an interior-point method that is sure of it."""
        chosen = clarabel.DefaultSettings()
        chosen.verbose = False
        chosen.tol_gap_abs = chosen.tol_gap_rel = chosen.tol_feas = 1e-13
        bounds = scale * self.bounds + (1.0 - scale) * (self.rows @ c)
        quadratic, rows = sparse.csc_matrix(np.eye(len(v))), sparse.csc_matrix(self.rows)
        solution = clarabel.DefaultSolver(quadratic, -v, rows, bounds, self.kinds, chosen).solve()
        assume(solution.status == clarabel.SolverStatus.Solved)
        return np.array(solution.x)


def draw(kind: str, p: int, generator: np.random.Generator) -> dict[str, Any]:
    """Return the numbers of a random set of a kind."""
    match kind:
        case "box":
            lower = generator.uniform(-3.0, 1.0, p)
            return {"lower": lower.tolist(), "upper": (lower + generator.uniform(0.5, 3.0, p)).tolist()}
        case "ball" | "l1-ball":
            return {"radius": float(generator.uniform(0.5, 4.0))}
        case "simplex":
            return {"size": float(generator.uniform(0.5, 4.0))}
        case "halfspaces":
            normals = generator.standard_normal((int(generator.integers(1, 3 * p + 2)), p))
            normals = np.vstack([normals, normals[:2], np.eye(p), -np.eye(p)])  # some of them twice
            bounds = normals @ generator.uniform(-2.0, 2.0, p) + generator.uniform(0.2, 2.0, len(normals))
            return {"normals": normals.tolist(), "bounds": bounds.tolist()}
        case "shifted":
            inner = str(generator.choice(["box", "ball", "simplex", "l1-ball", "halfspaces"]))
            return {"of": {"kind": inner, **draw(inner, p, generator)}, "by": generator.uniform(-1.0, 1.0, p).tolist()}
        case _:
            kinds = generator.choice(["box", "ball", "simplex", "l1-ball", "halfspaces", "shifted"], 3)
            sizes = [int(size) for size in generator.multinomial(p - 3, [1 / 3] * 3) + 1]
            pairs = zip(map(str, kinds), sizes, strict=True)
            return {"parts": [{"kind": one, "dimension": size, **draw(one, size, generator)} for one, size in pairs]}


def drawn(kind: str, seed: int) -> tuple[FeasibleSet, Cone, np.random.Generator]:
    generator = np.random.default_rng(seed)
    p = int(generator.integers(3, 9)) if kind == "product" else int(generator.integers(1, 8))
    numbers = draw(kind, p, generator)
    return make_set(kind, p, numbers), Cone.of(kind, p, numbers), generator


def around(feasible: FeasibleSet, generator: np.random.Generator, k: int, spread: float = 1.0) -> np.ndarray:
    return feasible.centre + spread * feasible.outer * generator.standard_normal((k, feasible.dimension))


every_kind = pytest.mark.parametrize("kind", ["box", "ball", "simplex", "l1-ball", "halfspaces", "shifted", "product"])


@every_kind
@few
@given(seed=SEEDS, scale=SCALES, spread=st.sampled_from([0.5, 1.0, 10.0]))
def test_a_projection_is_the_one_of_a_conic_solver(kind: str, seed: int, scale: float, spread: float) -> None:
    feasible, cone, generator = drawn(kind, seed)
    v = around(feasible, generator, 4, spread)
    theirs = np.array([cone.nearest(row, feasible.centre, scale) for row in v])

    assert np.max(np.abs(feasible.project(v, scale) - theirs)) <= 1e-8 * max(1.0, feasible.outer) * max(1.0, spread)


@every_kind
@few
@given(seed=SEEDS, scale=SCALES)
def test_shrinking_is_about_the_centre(kind: str, seed: int, scale: float) -> None:
    feasible, _, generator = drawn(kind, seed)
    v, c = around(feasible, generator, 8), feasible.centre
    expected = c + scale * (feasible.project(c + (v - c) / scale) - c)

    assert np.max(np.abs(feasible.project(v, scale) - expected)) <= 1e-11 * feasible.outer


@every_kind
@few
@given(seed=SEEDS, scale=SCALES)
def test_a_projection_stays_where_it_is_and_lies_in_the_set(kind: str, seed: int, scale: float) -> None:
    feasible, _, generator = drawn(kind, seed)
    nearest = feasible.project(around(feasible, generator, 8, 3.0), scale)

    assert np.max(np.abs(feasible.project(nearest, scale) - nearest)) <= 1e-11 * feasible.outer
    assert feasible.encloses(nearest, 1e-12)
    assert np.max(np.abs(feasible.project(feasible.centre, scale) - feasible.centre)) <= 1e-14 * feasible.outer


@every_kind
@few
@given(seed=SEEDS, scale=SCALES)
def test_a_step_as_long_as_the_shrinkage_allows_stays_in_the_set(kind: str, seed: int, scale: float) -> None:
    feasible, _, generator = drawn(kind, seed)
    x = feasible.project(around(feasible, generator, 8, 3.0), scale)
    u = generator.standard_normal(x.shape)
    u /= np.sqrt(np.sum(u * u, axis=1))[:, None]

    assert feasible.encloses(x + feasible.inner * (1.0 - scale) * u, 1e-11)


@pytest.mark.parametrize("p", [1, 2, 3, 6])
def test_a_polyhedron_is_projected_on_like_the_set_it_describes(p: int) -> None:
    signs = [list(each) for each in itertools.product((-1, 1), repeat=p)]
    sides = [*np.eye(p).tolist(), *(-np.eye(p)).tolist()]
    v = np.random.default_rng(p).standard_normal((200, p)) * 3.0
    v[:80] = np.round(v[:80])  # ties, and points that lie right opposite an edge
    pairs: list[tuple[FeasibleSet, FeasibleSet]] = [
        (L1Ball(p, 2), Halfspaces(p, signs, 2)),
        (Simplex(p, 2), Halfspaces(p, [*(-np.eye(p)).tolist(), [1] * p], [0] * p + [2])),
        (Box(p, 1, 3), Halfspaces(p, sides, [3] * p + [-1] * p)),
    ]

    for plain, polyhedron in pairs:
        assert polyhedron.inner == pytest.approx(plain.inner, rel=1e-11)
        assert polyhedron.outer >= plain.outer * (1 - 1e-12)
        for scale in (1.0, 0.5, 1e-3):
            assert np.max(np.abs(polyhedron.project(v, scale) - plain.project(v, scale))) <= 1e-11


def test_nearly_parallel_sides_do_not_lose_the_nearest_point() -> None:
    generator = np.random.default_rng(3)
    normals = generator.standard_normal((12, 4))
    for gap in (1e-3, 1e-6, 1e-9, 1e-12, 0.0):
        twins = np.vstack([normals, normals + gap * generator.standard_normal(normals.shape), np.eye(4), -np.eye(4)])
        feasible = Halfspaces(4, twins.tolist(), 1)
        v = around(feasible, generator, 30)
        nearest = feasible.project(v)

        assert feasible.encloses(nearest, 1e-12)
        # y is nearest exactly if v - y is a sum of non-negative multiples of the normals of the sides it lies on.
        for row, y in zip(v, nearest, strict=True):
            on = np.abs(feasible.normals @ y - feasible.bounds) <= 1e-12
            assert nnls(feasible.normals[on].T, row - y)[1] <= 1e-11 if on.any() else np.array_equal(row, y)


def test_a_row_that_cannot_be_finished_is_pulled_into_the_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slaternet.numerics.sets.quadratic._STEPS", 0)
    normals = np.vstack([np.eye(3), -np.eye(3)])
    bounds = np.full(6, 2.0)

    pulled = onto_halfspaces(np.array([[8.0, 4.0, 0.0], [1.0, 1.0, 1.0]]), normals, bounds, np.sqrt(12.0))

    assert pulled.tolist() == [[2.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
