import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.errors import BadSpec
from slaternet.sets import Ball, Box, FeasibleSet, make_set

SETS: list[FeasibleSet] = [
    Box(13, -5, 5),
    Box(13, [-1.0 - 0.1 * i for i in range(13)], [0.5 + 0.3 * i for i in range(13)]),
    Ball(13, 2.5),
    Box(200, -5, 5),
    Ball(200, 2.5),
]
SCALES = st.floats(0.0, 1.0)


def normal(seed: int, *shape: int) -> np.ndarray:
    return 4.0 * np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("feasible", SETS)
@given(seed=st.integers(0, 999), scale=SCALES)
def test_a_projection_is_the_nearest_point_of_the_shrunken_set(feasible: FeasibleSet, seed: int, scale: float) -> None:
    v = normal(seed, 5, feasible.dimension)
    nearest = feasible.project(v, scale)
    others = scale * feasible.project(normal(seed + 1000, 5, feasible.dimension))

    # y is the projection of v on a convex set exactly if <v - y, w - y> <= 0 for every w of the set.
    assert np.all(np.sum((v - nearest) * (others - nearest), axis=-1) <= 1e-9)
    assert np.all(feasible.contains(nearest / scale if scale > 1e-6 else nearest))


@pytest.mark.parametrize("feasible", SETS)
@given(seed=st.integers(0, 999), scale=SCALES)
def test_a_projected_row_does_not_depend_on_its_batch(feasible: FeasibleSet, seed: int, scale: float) -> None:
    v = normal(seed, 100, feasible.dimension)
    whole = feasible.project(v, scale)

    for k in (1, 2, 33):
        rows = np.arange(seed % 60, seed % 60 + k)
        assert feasible.project(v[rows], scale).tobytes() == whole[rows].tobytes()


@pytest.mark.parametrize("feasible", SETS)
def test_the_radii_are_those_of_balls_inside_and_around_the_set(feasible: FeasibleSet) -> None:
    u = normal(0, 200, feasible.dimension)
    u /= np.sqrt(np.sum(u * u, axis=-1))[:, None]

    assert np.all(feasible.contains(feasible.inner * u))
    assert not np.all(feasible.contains(1.001 * feasible.inner * np.eye(feasible.dimension))) or not np.all(
        feasible.contains(-1.001 * feasible.inner * np.eye(feasible.dimension))
    )
    far = feasible.project(1e6 * normal(1, 200, feasible.dimension))
    assert np.all(np.sqrt(np.sum(far * far, axis=-1)) <= feasible.outer * (1 + 1e-12))


@pytest.mark.parametrize("feasible", SETS)
def test_a_projection_never_returns_a_negative_zero(feasible: FeasibleSet) -> None:
    zeros = -np.zeros((3, feasible.dimension))

    for scale in (0.0, 0.5, 1.0):
        assert not np.any(np.signbit(feasible.project(zeros, scale)))


@pytest.mark.parametrize("feasible", SETS)
def test_shrinking_to_nothing_leaves_the_centre(feasible: FeasibleSet) -> None:
    assert np.array_equal(feasible.project(normal(3, 4, feasible.dimension), 0.0), np.tile(feasible.centre, (4, 1)))


def test_the_paper_s_box_has_the_radii_of_the_paper() -> None:
    box = Box(10, -5, 5)

    assert (box.inner, box.outer) == (5.0, np.sqrt(250.0))


def test_membership_allows_rounding_and_no_more() -> None:
    for feasible in (Box(2, -5, 5), Ball(2, 5)):
        step = feasible.outer * 1e-9
        points = np.array([[5.0 + 0.9 * step, 0.0], [5.0 + 1.1 * step, 0.0], [np.nan, 0.0], [0.0, np.inf]])
        assert feasible.contains(points).tolist() == [True, False, False, False]
        assert feasible.contains(points.reshape(2, 2, 2)).shape == (2, 2)


@pytest.mark.parametrize(
    ("kind", "numbers", "sentence"),
    [
        ("boxx", {}, 'set.kind = "boxx" is not known; did you mean box?'),
        ("box", {"lower": -1}, 'set.upper is missing; add it to [set], kind "box" needs lower and upper'),
        ("box", {"lower": -1, "uper": 1}, 'set.uper is not a number of kind "box"; did you mean upper?'),
        ("box", {"lower": "a", "upper": 1}, "set.lower must be a finite number, not 'a'"),
        ("box", {"lower": -1, "upper": [1, 2]}, "set.upper has 2 numbers; give one for each of the 3 coordinates"),
        ("box", {"lower": 1, "upper": 2}, "set.lower must be below 0 in every coordinate; shift the problem"),
        ("box", {"lower": -1, "upper": [1, 0, 1]}, "set.upper must be above 0 in every coordinate; shift the problem"),
        ("ball", {"radius": 0}, "set.radius must be above 0, not 0"),
        ("ball", {"radius": float("inf")}, "set.radius must be a finite number, not inf"),
        ("ball", {"radius": True}, "set.radius must be a finite number, not True"),
    ],
)
def test_a_wrong_set_is_named_with_its_remedy(kind: str, numbers: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadSpec) as error:
        make_set(kind, 3, numbers)

    assert str(error.value).startswith(sentence)


def test_a_set_is_made_from_its_numbers() -> None:
    box = make_set("box", 2, {"lower": [-1, -2], "upper": 3})

    assert box.project(np.array([[-9.0, -9.0], [9.0, 1.0]])).tolist() == [[-1.0, -2.0], [3.0, 1.0]]
    assert make_set("ball", 2, {"radius": 5}).project(np.array([[30.0, 40.0]])).tolist() == [[3.0, 4.0]]
