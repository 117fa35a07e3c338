from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slaternet.numerics.sets import Box
from slaternet_adversary import Adversary, Game
from slaternet_adversary.builtin.data_center import DataCenter
from slaternet_adversary.builtin.economic_dispatch import EconomicDispatch
from slaternet_adversary.builtin.forms import Quadratics, RandomNumbers, Separable, along, ladder
from slaternet_adversary.builtin.resource_fair import ResourceFair

Array = NDArray[np.float64]
N, P = 40, 13
GAME = Game(N, P, 1, Box(P, 0, 1))
ADVERSARIES: list[Callable[[Game], Adversary]] = [EconomicDispatch, DataCenter, ResourceFair]


def quadratics() -> Quadratics:
    """Return losses with dense Hessians, and constraints of another number of rows."""
    draw = np.random.default_rng(3)
    root = draw.uniform(-1, 1, (N, P, P))
    constraints = draw.uniform(-1, 1, (N, 2, P)), draw.uniform(1, 2, (N, 2))
    return Quadratics(root @ root.transpose(0, 2, 1), draw.uniform(-1, 1, (N, P)), draw.uniform(0, 1, N), *constraints)


ROUNDS = [*(make(GAME).play(7, None) for make in ADVERSARIES), quadratics()]
each_round = pytest.mark.parametrize(
    "functions", ROUNDS, ids=["economic-dispatch", "data-center", "resource-fair", "quadratics"]
)
each_adversary = pytest.mark.parametrize("make", ADVERSARIES)


def points(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).uniform(0, 1, shape)


@each_round
@pytest.mark.parametrize("method", ["loss", "constraint", "loss_gradient", "constraint_gradient"])
@given(seed=st.integers(0, 999), s=st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_an_agent_s_values_do_not_depend_on_who_is_asked_with_it(
    functions: Separable, method: str, seed: int, s: int
) -> None:
    asked, evaluate = points(seed, N, s, P), getattr(functions, method)
    whole = evaluate(np.arange(N), asked)

    for k in (1, 2, 33):
        rows = np.sort(np.random.default_rng(seed).permutation(N)[:k])
        assert evaluate(rows, asked[rows]).tobytes() == whole[rows].tobytes()


@each_round
def test_a_point_given_to_everyone_at_once_has_the_values_it_has_alone(functions: Separable) -> None:
    x, agents = points(1, 5, P), np.arange(N)
    copied, shared = np.tile(x, (N, 1, 1)), np.broadcast_to(x, (N, 5, P))

    assert functions.loss(agents, shared).tobytes() == functions.loss(agents, copied).tobytes()
    assert functions.constraint(agents, shared).tobytes() == functions.constraint(agents, copied).tobytes()


@each_round
@given(seed=st.integers(0, 999))
@settings(max_examples=15, deadline=None)
def test_gradients_are_the_slopes_of_the_values(functions: Separable, seed: int) -> None:
    agents, x, step = np.array([3, 22]), points(seed, 2, 1, P), 1e-5
    moved = np.concatenate((x + step * np.eye(P), x - step * np.eye(P)), axis=1)
    loss, constraint = functions.loss(agents, moved), functions.constraint(agents, moved)

    assert functions.loss_gradient(agents, x)[:, 0] == pytest.approx((loss[:, :P] - loss[:, P:]) / (2 * step), abs=1e-8)
    assert functions.constraint_gradient(agents, x)[:, 0].transpose(0, 2, 1) == pytest.approx(
        (constraint[:, :P] - constraint[:, P:]) / (2 * step), abs=1e-8
    )


@each_round
@given(seed=st.integers(0, 999))
@settings(max_examples=15, deadline=None)
def test_losses_lie_below_their_chords_and_constraints_on_them(functions: Separable, seed: int) -> None:
    agents, ends = np.arange(N), points(seed, N, 2, P)
    middle = ends.mean(axis=1, keepdims=True)

    assert (functions.loss(agents, middle)[:, 0] < functions.loss(agents, ends).mean(axis=1)).all()
    assert functions.constraint(agents, middle)[:, 0] == pytest.approx(functions.constraint(agents, ends).mean(axis=1))


@each_round
@pytest.mark.parametrize("agents", [np.arange(N), np.array([5]), np.arange(10, 30, 3)])
def test_scores_and_comparator_are_those_of_every_agent_at_every_point(
    functions: Separable, agents: NDArray[np.intp]
) -> None:
    x = points(2, 9, P)
    everywhere = np.tile(x, (len(agents), 1, 1))
    losses, constraints = functions.loss(agents, everywhere).mean(axis=0), functions.constraint(agents, everywhere)
    stacked = constraints.transpose(1, 0, 2).reshape(9, -1)
    hessian, slope, constant = functions.quadratic(agents)
    b, bound = functions.linear(agents)

    assert functions.network_loss(agents, x) == pytest.approx(losses)
    assert functions.network_violation(agents, x) == pytest.approx(np.linalg.norm(np.maximum(stacked, 0), axis=1))
    assert np.einsum("ni,ij,nj->n", x, hessian, x) / 2 + x @ slope + constant == pytest.approx(losses)
    assert x @ b.T - bound == pytest.approx(stacked)


@each_adversary
def test_a_new_instance_plays_the_same_functions_and_another_seed_others(make: Callable[[Game], Adversary]) -> None:
    at, agents = points(3, N, 2, P), np.arange(N)

    def values(game: Game, t: int) -> list[bytes]:
        round = make(game).play(t, None)
        return [round.loss(agents, at).tobytes(), round.constraint(agents, at).tobytes()]

    played = make(GAME)
    rounds = {t: played.play(t, None) for t in range(1, 400)}
    for t in (1, 2, 255, 256, 257, 399):
        assert values(GAME, t) == [rounds[t].loss(agents, at).tobytes(), rounds[t].constraint(agents, at).tobytes()]
    assert not set(values(GAME, 1)) & set(values(Game(N, P, 2, GAME.set), 1))


def test_a_course_goes_in_straight_lines_through_its_table_over_and_over() -> None:
    table = np.array([0.0, 1.0, 0.0, -1.0])

    assert along(table, np.arange(9) / 8).tolist() == [0.0, 0.5, 1.0, 0.5, 0.0, -0.5, -1.0, -0.5, 0.0]
    assert along(table, np.array([-0.25, 1.25, 7.5])).tolist() == [-1.0, 1.0, 0.0]
    assert along(table, np.nextafter(1.0, 0.0)) == pytest.approx(0.0)


@pytest.mark.parametrize("p", [1, 2, 7])
def test_a_ladder_rises_in_equal_steps_about_1(p: int) -> None:
    steps = ladder(p)

    assert steps.mean() == pytest.approx(1.0)
    assert steps.min() >= 0.5
    assert steps.max() <= 1.5
    assert np.diff(steps) == pytest.approx(np.full(p - 1, 1 / p))


def test_a_row_s_numbers_depend_on_seed_row_and_round_alone() -> None:
    many, few = RandomNumbers(GAME, "numbers", 9, 30), RandomNumbers(GAME, "numbers", 4, 30)
    in_order = [few.uniform(t).tobytes() for t in range(1, 300)]

    assert [many.uniform(t)[:4].tobytes() for t in range(299, 0, -1)] == in_order[::-1]
    assert len(set(in_order)) == 299
    drawn = np.array([many.uniform(t) for t in range(1, 300)])
    assert 0.0 <= drawn.min() < 0.001 < 0.999 < drawn.max() < 1.0
    assert drawn.mean() == pytest.approx(0.5, abs=0.01)
