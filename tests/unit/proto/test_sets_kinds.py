import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet.numerics.sets import Ball, Box, make_set
from slaternet.spec import Spec

SQUARE = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0], [0, -1, 0], [0, 0, -1]]
BALL = {"kind": "ball", "dimension": 1, "radius": 1}


@pytest.mark.parametrize(
    ("kind", "numbers", "sentence"),
    [
        ("boxx", {}, 'set.kind = "boxx" is not known; did you mean box?'),
        ("box", {"lower": -1}, 'set.upper is missing; kind "box" needs it'),
        ("box", {"lower": -1, "uper": 1}, 'set.uper is not an option of kind "box"; did you mean upper?'),
        ("box", {"lower": "a", "upper": 1}, "set.lower must be a finite number or a list, not 'a'"),
        ("box", {"lower": -(10**400), "upper": 1}, "set.lower must be a finite number or a list, not -1000"),
        ("box", {"lower": -1, "upper": [1, 2]}, "set.upper has 2 numbers; give one for each of the 3 coordinates"),
        (
            "box",
            {"lower": 1, "upper": [2, 1, 2]},
            "set.lower must be below set.upper = 1 in coordinate 1; move them apart",
        ),
        ("box", {"lower": [-1, -1, -1e-12], "upper": [1, 1, 1e-12]}, "set has no interior to speak of, r(X) = 1e-12"),
        ("box", {"lower": 1e9, "upper": 1e9 + 1}, "set lies 1.73205e+09 away from 0, too far for float64"),
        (
            "box",
            {"lower": -1e200, "upper": 1e200},
            "set has R(X) = inf; choose units in which it lies between 1e-100 and 1e+100",
        ),
        ("ball", {"radius": 1e-120}, "set has R(X) = 1e-120; choose units in which it lies between"),
        ("ball", {"radius": 0}, "set.radius must be above 0, not 0"),
        ("ball", {"radius": float("inf")}, "set.radius must be a finite number, not inf"),
        ("ball", {"radius": True}, "set.radius must be a finite number, not True"),
        ("simplex", {"size": -2}, "set.size must be above 0, not -2"),
        ("l1-ball", {"radius": [1]}, "set.radius must be a finite number, not [1]"),
        ("l1-ball", {"radius": 0.0}, "set.radius must be above 0, not 0"),
        (
            "halfspaces",
            {"normals": 3, "bounds": 1},
            "set.normals must be a list of rows with one number for each coordinate, not 3",
        ),
        (
            "halfspaces",
            {"normals": [], "bounds": 1},
            "set.normals must be a list of rows with one number for each coordinate, not []",
        ),
        (
            "halfspaces",
            {"normals": [[1, 2]], "bounds": 1},
            "set.normals[0] has 2 numbers; give one for each of the 3 coordinates",
        ),
        (
            "halfspaces",
            {"normals": [1, 2, 3], "bounds": 1},
            "set.normals[0] must be a list, not 1",
        ),
        ("halfspaces", {"normals": [[1, "b", 3]], "bounds": 1}, "set.normals[0][1] must be a finite number, not 'b'"),
        (
            "halfspaces",
            {"normals": SQUARE, "bounds": [1, 2]},
            "set.bounds has 2 numbers; give one for each of the 6 rows",
        ),
        (
            "halfspaces",
            {"normals": [*SQUARE, [0, 0, 0]], "bounds": 1},
            "set.normals[6] has length 0; leave the row out",
        ),
        (
            "halfspaces",
            {"normals": SQUARE * 250, "bounds": 1},
            "set.normals has 4500 numbers, and 4096 can be worked with",
        ),
        (
            "halfspaces",
            {"normals": SQUARE, "bounds": 0},
            "set.normals and set.bounds leave no interior; raise set.bounds",
        ),
        ("halfspaces", {"normals": SQUARE, "bounds": -1}, "set.normals and set.bounds leave no interior; raise"),
        (
            "halfspaces",
            {"normals": SQUARE, "bounds": [1, 1, 1, 1, 1, -1]},
            "set.normals and set.bounds leave no interior",
        ),
        (
            "halfspaces",
            {"normals": SQUARE[:5], "bounds": 1},
            "set.normals let coordinate 2 fall without end; add a row",
        ),
        (
            "halfspaces",
            {"normals": SQUARE[3:], "bounds": -1},
            "set.normals let coordinate 0 rise without end; add a row",
        ),
        (
            "halfspaces",
            {"normals": [[1, 1, 1]], "bounds": 0},
            "set.normals let coordinate 0 fall without end; add a row",
        ),
        ("halfspaces", {"normals": SQUARE, "bounds": [1, 1, 1e-10, 1, 1, 1e-10]}, "set has no interior to speak of"),
        ("product", {"parts": 3}, "set.parts must be a list of tables with kind, dimension and numbers, not 3"),
        ("product", {"parts": []}, "set.parts must be a list of tables with kind, dimension and numbers, not []"),
        ("product", {"parts": [BALL, 2]}, "set.parts[1] must be a table, not 2"),
        ("product", {"parts": [{"dimension": 3}]}, "set.parts[0].kind is missing; choose from ball, box, halfspaces,"),
        (
            "product",
            {"parts": [{"kind": "ball"}]},
            "set.parts[0].dimension must be a whole number, not None",
        ),
        (
            "product",
            {"parts": [BALL | {"dimension": 0}]},
            "set.parts[0].dimension must be above 0, not 0",
        ),
        ("product", {"parts": [BALL, BALL]}, "set.parts have 2 coordinates together, but 3 are needed; make"),
        ("product", {"parts": [BALL | {"dimension": 3, "radius": 0}]}, "set.parts[0].radius must be above 0, not 0"),
        ("product", {"parts": [BALL, BALL | {"dimension": 2, "kind": 5}]}, 'set.parts[1].kind = "5" is not known'),
        ("product", {"parts": [BALL, BALL | {"dimension": 2, "radius": 1e-10}]}, "set has no interior to speak of"),
        (
            "shifted",
            {"of": "ball", "by": 1},
            "set.of must be a table such as {kind = \"ball\", radius = 1}, not 'ball'",
        ),
        (
            "shifted",
            {"of": {"kind": "ball"}, "by": 1},
            'set.of.radius is missing; kind "ball" needs it',
        ),
        (
            "shifted",
            {"of": {"kind": "ball", "radius": 1}, "by": [1]},
            "set.by has 1 numbers; give one for each of the 3",
        ),
        ("shifted", {"of": {"kind": "ball", "radius": 1}, "by": 1e9}, "set lies 1.73205e+09 away from 0, too far for"),
        ("shifted", {"of": BALL, "by": 1}, 'set.of.dimension is not an option of kind "ball"; choose from radius'),
    ],
)
def test_a_wrong_set_is_named_with_its_remedy(kind: str, numbers: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadSpec) as error:
        make_set(kind, 3, numbers)

    assert str(error.value).startswith(sentence)
    assert ";" in str(error.value) or " must be " in str(error.value)


def test_a_set_is_made_from_its_numbers() -> None:
    box = make_set("box", 2, {"lower": [-1, -2], "upper": 3})

    assert box.project(np.array([[-9.0, -9.0], [9.0, 1.0]])).tolist() == [[-1.0, -2.0], [3.0, 1.0]]
    assert make_set("ball", 2, {"radius": 5}).project(np.array([[30.0, 40.0]])).tolist() == [[3.0, 4.0]]
    assert make_set("simplex", 2, {"size": 2}).project(np.array([[3.0, 2.0], [-1.0, 1.0]])).tolist() == [
        [1.5, 0.5],
        [0.0, 1.0],
    ]
    assert make_set("l1-ball", 2, {"radius": 2}).project(np.array([[-3.0, 2.0]])).tolist() == [[-1.5, 0.5]]
    halves = make_set("halfspaces", 2, {"normals": [[1, 1], [-1, 0], [0, -1]], "bounds": [2, 1, 1]})
    assert halves.project(np.array([[3.0, 3.0], [-4.0, -4.0]])) == pytest.approx(np.array([[1.0, 1.0], [-1.0, -1.0]]))


def test_the_parts_of_a_product_take_their_coordinates_in_order() -> None:
    parts = [{"kind": "box", "dimension": 2, "lower": -1, "upper": 1}, {"kind": "ball", "dimension": 3, "radius": 2}]
    product = make_set("product", 5, {"parts": parts})
    v = np.random.default_rng(0).standard_normal((9, 5)) * 3.0

    assert (product.inner, product.outer) == (1.0, np.sqrt(np.sqrt(2.0) ** 2 + 4.0))
    assert np.array_equal(product.project(v, 0.7)[:, :2], Box(2, -1, 1).project(v[:, :2], 0.7))
    assert np.array_equal(product.project(v, 0.7)[:, 2:], Ball(3, 2).project(v[:, 2:], 0.7))


def test_a_set_shifted_onto_0_is_shrunk_about_0() -> None:
    shifted = make_set("shifted", 2, {"of": {"kind": "ball", "radius": 2}, "by": [1, 0]})

    assert (shifted.inner, shifted.outer) == (1.0, 3.0)
    assert shifted.project(np.array([[9.0, 0.0], [-9.0, 0.0]]), 0.5).tolist() == [[1.5, 0.0], [-0.5, 0.0]]


def test_sets_within_sets_survive_a_spec_and_its_text() -> None:
    text = """
        [run]
        agents = 2
        rounds = 3
        dimension = 4
        [set]
        kind = "product"
        parts = [
            {kind = "simplex", dimension = 2, size = 1},
            {kind = "shifted", dimension = 2, of = {kind = "l1-ball", radius = 1}, by = [3, 0.5]},
        ]
        [algorithm]
        name = "zhang2024"
        schedule = "table2"
        [graph]
        name = "complete"
        [adversary]
        plugin = "linear-regression"
    """
    spec = Spec.parse(text, source="nested.toml")
    again = Spec.parse(spec.to_toml(), source="nested.toml")

    assert again == spec
    assert again.feasible_set().centre == pytest.approx([0.2928932188, 0.2928932188, 3.0, 0.5])
