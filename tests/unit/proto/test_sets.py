import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet.numerics.sets import Ball, Box, FeasibleSet, Halfspaces, L1Ball, Product, Shifted, Simplex


def polyhedron(dimension: int, rows: int, middle: float) -> Halfspaces:
    """Return a random polyhedron around (middle, ..., middle), inside a box of half width 4."""
    generator = np.random.default_rng(rows)
    normals = np.vstack([np.eye(dimension), -np.eye(dimension), generator.standard_normal((rows, dimension))])
    slack = np.concatenate([np.full(2 * dimension, 4.0), generator.uniform(1.0, 3.0, rows)])
    return Halfspaces(dimension, normals.tolist(), (np.sum(middle * normals, axis=1) + slack).tolist())


SETS: dict[str, FeasibleSet] = {
    "the paper's box": Box(13, -5, 5),
    "box": Box(13, [-1.0 - 0.1 * i for i in range(13)], [0.5 + 0.3 * i for i in range(13)]),
    "box without 0": Box(13, [1.0 - 0.1 * i for i in range(13)], [1.5 + 0.3 * i for i in range(13)]),
    "ball": Ball(13, 2.5),
    "simplex": Simplex(13, 4),
    "l1 ball": L1Ball(13, 3),
    "halfspaces": polyhedron(13, 9, 0.0),
    "halfspaces without 0": polyhedron(13, 9, 7.0),
    "product": Product([Simplex(3, 2), Ball(5, 1.5), Box(1, 2, 3), polyhedron(4, 3, 0.0)]),
    "shifted to 0": Shifted(Simplex(13, 20), -0.5),
    "shifted away": Shifted(L1Ball(13, 3), [0.1 * i for i in range(13)]),
    "wide box": Box(200, -5, 5),
    "wide ball": Ball(200, 2.5),
    "wide simplex": Simplex(200, 4),
    "wide l1 ball": L1Ball(200, 3),
}
EXACT = [name for name in SETS if "halfspaces" not in name and name != "product"]
SCALES = st.floats(0.0, 1.0)

every_set = pytest.mark.parametrize("feasible", SETS.values(), ids=SETS)
few = settings(max_examples=10, deadline=None)


def about(feasible: FeasibleSet, seed: int, *shape: int) -> np.ndarray:
    """Return points in and around the set."""
    normal = np.random.default_rng(seed).standard_normal((*shape, feasible.dimension))
    return np.asarray(feasible.centre + 1.5 * feasible.outer / np.sqrt(feasible.dimension) * normal)


@every_set
@few
@given(seed=st.integers(0, 999), scale=SCALES)
def test_a_projection_is_the_nearest_point_of_the_shrunken_set(feasible: FeasibleSet, seed: int, scale: float) -> None:
    v = about(feasible, seed, 5)
    c = feasible.centre
    nearest = feasible.project(v, scale)
    others = c + scale * (feasible.project(about(feasible, seed + 1000, 5)) - c)

    # y is the projection of v on a convex set exactly if <v - y, w - y> <= 0 for every w of the set.
    assert np.all(np.sum((v - nearest) * (others - nearest), axis=-1) <= 1e-11 * feasible.outer**2)
    if scale > 1e-3:
        assert np.all(feasible.contains(c + (nearest - c) / scale, 1e-12 / scale))


@every_set
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 999), scale=SCALES)
def test_a_projected_row_does_not_depend_on_its_batch(feasible: FeasibleSet, seed: int, scale: float) -> None:
    v = about(feasible, seed, 150)
    whole = feasible.project(v, scale)

    for k in (1, 2, 33):
        rows = np.arange(seed % 60, seed % 60 + k)
        assert feasible.project(v[rows], scale).tobytes() == whole[rows].tobytes()
    assert feasible.project(v.reshape(3, 50, -1), scale).tobytes() == whole.tobytes()
    assert feasible.project(np.asfortranarray(v), scale).tobytes() == whole.tobytes()
    assert feasible.project(v[7], scale).tobytes() == whole[7].tobytes()


@every_set
def test_the_radii_are_those_of_balls_inside_and_around_the_set(feasible: FeasibleSet) -> None:
    u = np.random.default_rng(0).standard_normal((200, feasible.dimension))
    u /= np.sqrt(np.sum(u * u, axis=-1))[:, None]

    assert np.all(feasible.contains(feasible.centre + feasible.inner * u))
    far = feasible.project(feasible.centre + 1e6 * u) - feasible.centre
    assert np.all(np.sqrt(np.sum(far * far, axis=-1)) <= feasible.outer * (1 + 1e-12))


@pytest.mark.parametrize("name", [*EXACT, "halfspaces", "halfspaces without 0", "product"])
def test_no_larger_ball_about_the_centre_is_inside(name: str) -> None:
    feasible = SETS[name]
    # A polyhedron's nearest side is met along its normal, a facet of the simplex and of the l1 ball along a diagonal.
    normals = getattr(feasible, "normals", np.eye(feasible.dimension))
    diagonal = np.full((1, feasible.dimension), 1 / np.sqrt(feasible.dimension))
    ways = np.vstack([normals, -normals, diagonal])

    assert not np.all(feasible.contains(feasible.centre + 1.001 * feasible.inner * ways))


@pytest.mark.parametrize("name", EXACT)
def test_some_point_of_the_set_is_as_far_from_the_centre_as_the_outer_radius(name: str) -> None:
    feasible = SETS[name]
    signs = np.sign(np.random.default_rng(1).standard_normal((4, feasible.dimension)))
    # Far along an axis lie the vertices of the simplex and of the l1 ball, far along a diagonal the corners of a box.
    axes = np.vstack([np.eye(feasible.dimension), -np.eye(feasible.dimension), signs])
    if isinstance(feasible, Box):
        axes = np.vstack([axes, np.where(feasible.upper > -feasible.lower, 1.0, -1.0)])
    far = feasible.project(feasible.centre + 1e4 * feasible.outer * axes) - feasible.centre

    assert np.max(np.sqrt(np.sum(far * far, axis=-1))) == pytest.approx(feasible.outer, rel=1e-9)


@every_set
def test_a_projection_never_returns_a_negative_zero(feasible: FeasibleSet) -> None:
    zeros = np.vstack([-np.zeros((2, feasible.dimension)), -np.eye(feasible.dimension)])

    for scale in (0.0, 0.5, 1.0):
        nearest = feasible.project(zeros, scale)
        assert not np.any(np.signbit(nearest) & (nearest == 0.0))


@every_set
def test_shrinking_to_nothing_leaves_the_centre(feasible: FeasibleSet) -> None:
    assert np.array_equal(feasible.project(about(feasible, 3, 4), 0.0), np.tile(feasible.centre, (4, 1)))


@every_set
def test_a_projection_leaves_its_argument_alone_and_returns_a_new_array(feasible: FeasibleSet) -> None:
    v = np.vstack([about(feasible, 4, 4), feasible.centre[None]])
    before = v.copy()
    nearest = feasible.project(v)
    nearest += 1.0

    assert np.array_equal(v, before)


@every_set
def test_a_row_of_any_size_is_projected_into_the_set(feasible: FeasibleSet) -> None:
    for size in (1e3, 1e9, 1e15):
        assert feasible.encloses(feasible.project(size * about(feasible, 5, 20)))


@every_set
def test_membership_allows_rounding_and_no_more(feasible: FeasibleSet) -> None:
    c = feasible.centre
    edge = feasible.project(about(feasible, 6, 50))
    edge = edge[~feasible.contains(c + (edge - c) * 1.000001)]

    assert len(edge)
    assert feasible.encloses(c + (edge - c) * (1 + 1e-12))
    assert not feasible.contains(c + (edge - c) * (1 + 1e-4)).any()
    assert feasible.contains(edge.reshape(1, len(edge), -1)).shape == (1, len(edge))


@every_set
def test_no_point_with_nan_or_infinity_is_a_member(feasible: FeasibleSet) -> None:
    points = np.tile(feasible.centre, (4, 1))
    points[0, 0], points[1, -1], points[2, 0] = np.nan, np.inf, -np.inf

    assert feasible.contains(points).tolist() == [False, False, False, True]
    assert not feasible.encloses(points)


def test_the_tolerance_of_membership_is_of_the_outer_radius() -> None:
    for feasible in (Box(2, -5, 5), Ball(2, 5), Shifted(Ball(2, 5), 0.0), Product([Box(1, -5, 5), Ball(1, 7)])):
        step = feasible.outer * 1e-9
        points = np.array([[5.0 + 0.9 * step, 0.0], [5.0 + 1.1 * step, 0.0], [np.nan, 0.0], [0.0, np.inf]])
        assert feasible.contains(points).tolist() == [True, False, False, False]
        assert feasible.contains(points.reshape(2, 2, 2)).shape == (2, 2)


def test_the_paper_s_box_has_the_radii_of_the_paper() -> None:
    box = Box(10, -5, 5)

    assert (box.inner, box.outer) == (5.0, np.sqrt(250.0))


@pytest.mark.parametrize(
    ("feasible", "centre"),
    [
        (Box(2, -1, 3), [0.0, 0.0]),
        (Box(2, 1, [3, 5]), [2.0, 3.0]),
        (Box(2, [-1, 0], 2), [0.5, 1.0]),
        (Box(2, [-1e-12, -1], 2), [0.9999999999995, 0.5]),  # 0 is inside by rounding only
        (Ball(2, 1), [0.0, 0.0]),
        (Simplex(4, 3), [0.5] * 4),
        (L1Ball(2, 1), [0.0, 0.0]),
        (Halfspaces(2, [[1, 0], [0, 1], [-1, 0], [0, -1]], [3, 2, 1, 1]), [0.0, 0.0]),
        (Halfspaces(2, [[1, 0], [0, 1], [-1, 0], [0, -1]], [3, 2, -1, 0]), [2.0, 1.0]),
        (Product([Box(1, 1, 3), Ball(2, 1)]), [2.0, 0.0, 0.0]),
        (Shifted(Ball(2, 1), 0.5), [0.0, 0.0]),
        (Shifted(Ball(2, 1), [3, 0]), [3.0, 0.0]),
        (Shifted(Box(2, 1, 3), -2), [0.0, 0.0]),
        (Shifted(Box(2, 1, 3), [-2, 5]), [0.0, 7.0]),
    ],
)
def test_the_centre_is_0_where_0_is_inside_and_found_otherwise(feasible: FeasibleSet, centre: list[float]) -> None:
    assert feasible.centre.tolist() == centre
