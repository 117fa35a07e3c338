from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from tests.support.full_programme import full_optimum

from slaternet.errors import BadSpec, PluginFailed
from slaternet.model import Agents, Array
from slaternet.numerics.sets import FeasibleSet, make_set
from slaternet.spec import Spec
from slaternet_adversary import Adversary, Game, History, Round
from slaternet_lab.functions.replay import RoundFunctions, replay
from slaternet_lab.hindsight.comparator import offline, optima, programme
from slaternet_lab.hindsight.programme import Optimum
from slaternet_lab.hindsight.rows import Rows
from slaternet_lab.specs.shipped import shipped

LIVELY = Spec.parse(shipped("paper-short").text, source="paper-short").replace(
    **{"run.rounds": 100, "adversary.options.b": 1.0}
)
P = 4


@dataclass
class Bowls(Round):
    """f_i = 1/2 |x - centre_i|^2 under constraints of any shape, known by values and gradients."""

    centres: Array  # (n, p)
    g: Callable[[Array], Array]  # (k, s, p) -> (k, s)
    slope: Callable[[Array], Array]  # (k, s, p) -> (k, s, p)

    def loss(self, agents: Agents, points: Array) -> Array:
        away = points - self.centres[agents][:, None]
        return 0.5 * np.sum(away * away, axis=-1)

    def loss_gradient(self, agents: Agents, points: Array) -> Array:
        return points - self.centres[agents][:, None]

    def constraint(self, agents: Agents, points: Array) -> Array:
        return self.g(points)[..., None]

    def constraint_gradient(self, agents: Agents, points: Array) -> Array:
        return self.slope(points)[:, :, None]


class Tub(Adversary):
    """Makes games of any rounds; `play` is not used."""

    constraints = 1

    def play(self, round: int, past: History | None) -> Round:
        raise RuntimeError("out of water")


def tub(feasible: FeasibleSet, agents: int = 3) -> Tub:
    return Tub(Game(agents, feasible.dimension, 1, feasible))


def best(feasible: FeasibleSet, rounds: list[Round], agents: int = 3) -> Optimum:
    functions = [RoundFunctions(each, t, tub(feasible, agents)) for t, each in enumerate(rounds, 1)]
    built = programme(feasible, functions[0])
    for each in functions:
        built.add(each)
    return built.optimum()


def disc(centres: Array, radius: float) -> Bowls:
    return Bowls(centres, lambda x: np.sum(x * x, axis=-1) - radius**2, lambda x: 2.0 * x)


def flat(centres: Array, normal: Array, bound: float) -> Bowls:
    return Bowls(centres, lambda x: x @ normal - bound, lambda x: np.broadcast_to(normal, x.shape))


@dataclass
class Exact(Bowls):
    """The same bowls under one row for every agent, told as matrices."""

    normal: Array
    bound: float

    def quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
        chosen = self.centres[agents]
        return np.eye(chosen.shape[1]), -chosen.mean(axis=0), 0.5 * float(np.mean(np.sum(chosen * chosen, axis=1)))

    def linear(self, agents: Agents) -> tuple[Array, Array]:
        return np.tile(self.normal, (len(agents), 1)), np.full(len(agents), self.bound)


def exact(centres: Array, normal: Array, bound: float) -> Exact:
    known = flat(centres, normal, bound)
    return Exact(centres, known.g, known.slope, normal, bound)


SETS = {
    "box": {"lower": [-0.2, -0.5, -0.1, -3.0], "upper": 0.4},
    "ball": {"radius": 0.9},
    "simplex": {"size": 1.1},
    "l1-ball": {"radius": 0.8},
    "halfspaces": {
        "normals": np.concatenate((np.eye(P), -np.ones((1, P)))).tolist(),
        "bounds": [0.3, 0.4, 0.5, 0.6, 1.0],
    },
    "shifted": {"of": {"kind": "ball", "radius": 0.7}, "by": [0.3, -0.2, 0.1, 0.0]},
    "product": {
        "parts": [
            {"kind": "l1-ball", "dimension": 2, "radius": 0.5},
            {"kind": "shifted", "dimension": 2, "of": {"kind": "simplex", "size": 0.8}, "by": -0.3},
        ]
    },
}


@pytest.mark.parametrize("b", [0.01, 1.0, 5.0])
def test_the_optimum_is_that_of_the_programme_with_all_rows_solved_by_another_solver(b: float) -> None:
    spec = LIVELY.replace(**{"adversary.options.b": b})

    assert offline(spec).value == pytest.approx(full_optimum(spec, 100), rel=1e-10)


def test_every_prefix_has_its_own_optimum_and_certificate() -> None:
    found = list(optima(LIVELY, [1, 7, 30, 100]))

    assert [each.rounds for each in found] == [1, 7, 30, 100]
    for each in found:
        assert each.value == pytest.approx(full_optimum(LIVELY, each.rounds), rel=1e-10)
        assert each.certificate.residual < 1e-10
        assert abs(each.slack) < 1e-9  # some row binds
        assert each.value == pytest.approx(sum(f.loss(each.point)[0] for f in replay(LIVELY, each.rounds)), rel=1e-12)


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("make", [exact, flat])
def test_the_optimum_of_bowls_is_the_projection_of_their_mean(kind: str, make: Callable[..., Bowls]) -> None:
    feasible = make_set(kind, P, SETS[kind])
    centres = np.random.default_rng(3).normal(0.5, 1.0, (5, 3, P))

    found = best(feasible, [make(each, np.ones(P), 100.0) for each in centres])

    mean = centres.mean(axis=(0, 1))
    np.testing.assert_allclose(found.point, feasible.project(mean), atol=1e-7)
    assert found.value == pytest.approx(0.5 * np.sum((found.point - centres) ** 2) / 3, rel=1e-12)
    assert found.certificate.residual < 1e-7
    assert found.slack == pytest.approx(100.0 - found.point.sum())


@pytest.mark.parametrize("kind", SETS)
def test_a_row_that_binds_inside_any_set_is_kept_and_nothing_feasible_is_better(kind: str) -> None:
    feasible, generator = make_set(kind, P, SETS[kind]), np.random.default_rng(4)
    centres, normals = generator.normal(1.0, 1.0, (5, 3, P)), generator.uniform(0.2, 2.0, (5, P))
    bounds = normals @ feasible.centre + 0.1

    found = best(feasible, [exact(*each) for each in zip(centres, normals, bounds, strict=True)])

    points = feasible.project(feasible.centre + generator.normal(0.0, 0.3, (20000, P)))
    points = points[np.all(points @ normals.T <= bounds, axis=1)]
    values = [0.5 * np.sum((x - centres) ** 2) / 3 for x in points]
    assert len(points) > 100
    assert found.value <= min(values)
    assert found.slack == pytest.approx(0.0, abs=1e-9)
    assert feasible.contains(found.point)
    assert found.certificate.residual < 1e-9


def test_gradients_alone_lead_to_the_same_optimum_as_matrices() -> None:
    generator = np.random.default_rng(5)
    feasible = make_set("box", P, {"lower": -1.0, "upper": 1.0})
    data = [(generator.normal(1.0, 1.0, (3, P)), generator.uniform(0.0, 2.0, P), 0.5) for _ in range(40)]

    known, unknown = best(feasible, [exact(*each) for each in data]), best(feasible, [flat(*each) for each in data])

    assert unknown.value == pytest.approx(known.value, rel=1e-9)
    assert unknown.certificate.residual < 1e-7


def test_a_curved_constraint_binds_where_geometry_says() -> None:
    centres = np.full((3, P), 2.0)

    found = best(make_set("box", P, {"lower": -5.0, "upper": 5.0}), [disc(centres, 3.0), disc(centres, 1.0)])

    np.testing.assert_allclose(found.point, np.full(P, 0.5), atol=1e-7)  # (2, 2, 2, 2) brought to length 1
    assert found.slack == pytest.approx(0.0, abs=1e-8)
    assert found.certificate.residual < 1e-7


@pytest.mark.parametrize("make", [exact, flat])
def test_a_game_without_a_point_feasible_in_all_rounds_has_no_regret(make: Callable[..., Bowls]) -> None:
    feasible, centres, normal = make_set("ball", P, {"radius": 2.0}), np.zeros((3, P)), np.eye(P)[0]

    with pytest.raises(BadSpec, match=r"feasible in all rounds from 1 to 2.* regret is undefined"):
        best(feasible, [make(centres, normal, -1.0), make(centres, -normal, -1.0)])


def test_a_plugin_without_gradients_is_told_what_to_add() -> None:
    class Mute:
        def loss(self, agents: Agents, points: Array) -> Array:
            return np.sum(points, axis=-1)

        def constraint(self, agents: Agents, points: Array) -> Array:
            return points[..., :1]

    with pytest.raises(BadSpec, match=r"plugin Tub does not tell its gradients.* give its rounds loss_gradient"):
        best(make_set("ball", P, {"radius": 1.0}), [Mute()])


def test_losses_that_are_not_convex_are_not_passed_over() -> None:
    class Saddle(Exact):
        def quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
            return np.diag([1.0, -1.0, 1.0, 1.0]), np.ones(P), 0.0

    known = exact(np.zeros((3, P)), np.ones(P), 1.0)
    saddle = Saddle(known.centres, known.g, known.slope, known.normal, known.bound)

    with pytest.raises(BadSpec, match="do not sum to a convex function"):
        best(make_set("ball", P, {"radius": 1.0}), [saddle])


def test_what_a_plugin_raises_is_said_to_be_the_plugins() -> None:
    spec = LIVELY.replace(adversary={"plugin": f"{__file__}:Tub", "isolation": "none"})

    with pytest.raises(
        PluginFailed, match=r"plugin Tub failed: play of round 1 raised RuntimeError: out of water, at "
    ):
        offline(spec)


def test_functions_chosen_by_decisions_need_them() -> None:
    spec = LIVELY.replace(adversary={"plugin": f"{__file__}:Follower", "isolation": "none"})

    with pytest.raises(BadSpec, match=r"record.decisions = true"):
        offline(spec)

    decisions = np.random.default_rng(6).uniform(-0.2, 0.2, (100, 20, 10))
    expected = decisions[:2].mean(axis=(0, 1)) * 2.0 / 3.0  # nothing yet in round 1
    np.testing.assert_allclose(offline(spec, 3, decisions).point, expected, atol=1e-9)


class Follower(Tub):
    """Bowls about what was decided last."""

    history = 1

    def play(self, round: int, past: History | None) -> Round:
        assert past is not None
        assert past.decisions.shape == (min(1, round - 1), 20, 10)
        centres = past.decisions[-1] if len(past.decisions) else np.zeros((20, 10))
        return exact(centres, np.ones(10), 100.0)


def test_the_rows_missed_most_are_found_in_memory_and_on_disk() -> None:
    generator = np.random.default_rng(7)
    matrix, bound = generator.normal(size=(500, 3)), generator.normal(size=500)
    matrix[17] = 0.0  # a row that says nothing about x keeps its own scale
    rows = Rows(3, block_bytes=40 * 5 * 8, in_memory=4)
    for first in range(0, 500, 70):
        rows.add(matrix[first : first + 70], bound[first : first + 70])
    x = np.array([0.3, -0.2, 0.9])

    found, distance, largest = rows.farthest(x, 12, 0.1)

    lengths = np.where(np.arange(500) == 17, 1.0, np.sqrt(np.sum(matrix**2, axis=1)))
    distances = (matrix @ x - bound) / lengths
    assert found.tolist() == np.argsort(-distances)[:12].tolist()
    assert distance == pytest.approx(distances.max())
    assert largest == pytest.approx((matrix @ x - bound).max())
    units, bounds = rows.take(found)
    np.testing.assert_allclose(units @ x - bounds, distances[found])
