import numpy as np
import pytest

from slaternet.numerics.sets import Box
from slaternet_agent.algorithms.base import AlgorithmGame
from slaternet_agent.algorithms.estimators import (
    Directions,
    coordinate_points,
    coordinates,
    forward,
    forward_points,
    one_point,
    sphere_point,
    symmetric,
    symmetric_points,
)


def game(dimension: int, seed: int = 1) -> AlgorithmGame:
    return AlgorithmGame(
        agents=100, dimension=dimension, constraints=2, rounds=None, seed=seed, set=Box(dimension, -5, 5)
    )


@pytest.mark.parametrize("dimension", [1, 12, 130])
def test_directions_have_length_one(dimension: int) -> None:
    u = Directions(game(dimension)).at(np.arange(100), 7)

    assert u.shape == (100, dimension)
    assert np.abs(np.sum(u * u, axis=-1) - 1.0).max() < 1e-14


@pytest.mark.parametrize("dimension", [12, 130])
def test_a_direction_does_not_depend_on_its_batch(dimension: int) -> None:
    whole = Directions(game(dimension)).at(np.arange(100), 300)

    for rows in (np.array([41]), np.array([3, 99]), np.arange(60, 93)):
        assert Directions(game(dimension)).at(rows, 300).tobytes() == whole[rows].tobytes()


def test_directions_may_be_asked_for_in_any_order_and_by_any_host() -> None:
    one, other = np.arange(3), np.arange(3, 6)
    shared = Directions(game(12))
    asked = [(one, 1), (other, 900), (one, 900), (other, 1), (one, 1)]

    for agents, t in asked:
        assert shared.at(agents, t).tobytes() == Directions(game(12)).at(agents, t).tobytes()


def test_directions_of_agents_rounds_and_seeds_all_differ() -> None:
    rounds = [1, 2, 256, 257, 342]
    drawn = np.concatenate([Directions(game(12, seed)).at(np.arange(20), t) for seed in (1, 2) for t in rounds])

    assert len(np.unique(drawn, axis=0)) == 2 * len(rounds) * 20


def test_directions_are_uniform_on_the_sphere() -> None:
    directions, agents = Directions(game(4)), np.arange(100)
    u = np.concatenate([directions.at(agents, t) for t in range(1, 201)])

    assert np.abs(u.mean(axis=0)).max() < 4 * 0.5 / np.sqrt(len(u))
    assert np.abs(4 * u.T @ u / len(u) - np.eye(4)).max() < 0.05


def test_the_forward_estimator_is_exact_for_linear_functions_on_average() -> None:
    slope = np.array([3.0, -1.0, 2.0, 0.5])
    directions, x, delta = Directions(game(4)), np.zeros((100, 4)), 0.01
    estimates = []
    for t in range(1, 201):
        u = directions.at(np.arange(100), t)
        values = forward_points(x, u, delta) @ slope
        estimates.append(forward(values, 4, delta)[:, None] * u)
    mean = np.concatenate(estimates).mean(axis=0)

    assert np.abs(mean - slope).max() < 0.15


def test_the_points_are_the_decision_and_one_step_along_the_direction() -> None:
    x, u = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])

    assert forward_points(x, u, 0.5).tolist() == [[[1.0, 2.0], [1.0, 2.5]], [[3.0, 4.0], [3.5, 4.0]]]


def test_slopes_have_one_row_per_constraint_and_no_memory_of_the_layout() -> None:
    values = np.random.default_rng(0).standard_normal((33, 2, 3))
    slopes = forward(values, 10, 0.1)

    assert np.allclose(slopes, 100.0 * (values[:, 1] - values[:, 0]))
    assert forward(np.asfortranarray(values), 10, 0.1).flags.c_contiguous
    assert forward(np.asfortranarray(values), 10, 0.1).tobytes() == slopes.tobytes()
    assert forward(values[5:6], 10, 0.1).tobytes() == slopes[5:6].tobytes()


def test_symmetric_points_lie_on_both_sides_and_a_sphere_point_on_one() -> None:
    x, u = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])

    assert symmetric_points(x, u, 0.5).tolist() == [[[1.0, 2.5], [1.0, 1.5]], [[3.5, 4.0], [2.5, 4.0]]]
    assert sphere_point(x, u, 0.5).tolist() == [[[1.0, 2.5]], [[3.5, 4.0]]]


def test_coordinate_points_are_the_decision_and_one_step_along_each_axis() -> None:
    points = coordinate_points(np.array([[1.0, 2.0], [3.0, 4.0]]), 0.5)

    assert points[0].tolist() == [[1.0, 2.0], [1.5, 2.0], [1.0, 2.5]]
    assert points[1].tolist() == [[3.0, 4.0], [3.5, 4.0], [3.0, 4.5]]


def test_symmetric_differences_are_exact_for_quadratics_along_the_direction() -> None:
    x, u = np.random.default_rng(0).standard_normal((9, 4)), Directions(game(4)).at(np.arange(9), 1)
    values = np.sum(symmetric_points(x, u, 0.25) ** 2, axis=-1)

    assert np.allclose(symmetric(values, 4, 0.25), 4 * np.sum(2 * x * u, axis=-1), rtol=1e-12)


def test_the_one_point_estimator_is_exact_for_linear_functions_on_average() -> None:
    slope = np.array([3.0, -1.0, 2.0, 0.5])
    directions, x = Directions(game(4)), np.zeros((100, 4))
    estimates = []
    for t in range(1, 201):
        u = directions.at(np.arange(100), t)
        estimates.append(one_point(sphere_point(x, u, 0.1) @ slope, 4, 0.1)[:, None] * u)

    assert np.abs(np.concatenate(estimates).mean(axis=0) - slope).max() < 0.15


def test_coordinate_differences_are_the_gradient_of_a_linear_function() -> None:
    slope = np.array([3.0, -1.0, 2.0, 0.5])
    values = coordinate_points(np.random.default_rng(0).standard_normal((9, 4)), 0.125) @ slope

    assert np.allclose(coordinates(values, 0.125), slope, rtol=1e-12)


def test_every_slope_forgets_the_layout_and_the_batch_of_its_values() -> None:
    values = np.random.default_rng(0).standard_normal((33, 2, 3))
    for estimate in (symmetric, one_point):
        slopes = estimate(values, 10, 0.1)
        assert slopes.shape == (33, 3)
        assert estimate(np.asfortranarray(values), 10, 0.1).flags.c_contiguous
        assert estimate(np.asfortranarray(values), 10, 0.1).tobytes() == slopes.tobytes()
        assert estimate(values[5:6], 10, 0.1).tobytes() == slopes[5:6].tobytes()
    assert coordinates(values[5:6, :, 0], 0.1).tobytes() == coordinates(values[:, :, 0], 0.1)[5:6].tobytes()
