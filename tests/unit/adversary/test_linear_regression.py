import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slaternet.numerics.sets import Box
from slaternet_adversary import Adversary, CannotPlay, Game
from slaternet_adversary.builtin.forms import Functions
from slaternet_adversary.builtin.linear_regression import LinearRegression
from slaternet_adversary.builtin.moving_target import MovingTarget
from slaternet_adversary.scoring import Scoring

Array = NDArray[np.float64]
N, P, ROWS, M = 100, 13, 12, 14


def adversary(seed: int = 1, agents: int = N, dimension: int = P, **options: Any) -> LinearRegression:
    game = Game(agents, dimension, seed, Box(dimension, -5, 5))
    return LinearRegression(game, **({"rows": ROWS, "constraints": M} | options))


FUNCTIONS = adversary().play(1)
WIDE = adversary(dimension=140, rows=130, constraints=2, agents=40).play(1)


def points(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).uniform(-5, 5, shape)


@pytest.mark.parametrize("functions", [FUNCTIONS, WIDE])
@pytest.mark.parametrize("method", ["loss", "constraint", "loss_gradient", "constraint_gradient"])
@given(seed=st.integers(0, 999), s=st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_an_agent_s_values_do_not_depend_on_who_is_asked_with_it(
    functions: Functions, method: str, seed: int, s: int
) -> None:
    n, _, p = functions.a.shape
    asked = points(seed, n, s, p)
    evaluate = getattr(functions, method)
    whole = evaluate(np.arange(n), asked)

    for k in (1, 2, 33):
        rows = np.random.default_rng(seed).permutation(n)[:k]
        assert evaluate(rows, asked[rows]).tobytes() == whole[rows].tobytes()


@given(seed=st.integers(0, 999))
def test_values_are_those_of_the_paper(seed: int) -> None:
    agents, asked = np.array([7, 0, 99]), points(seed, 3, 2, P)
    loss, constraint = FUNCTIONS.loss(agents, asked), FUNCTIONS.constraint(agents, asked)

    for row, i in enumerate(agents):
        for s in range(2):
            residual = FUNCTIONS.a[i] @ asked[row, s] - FUNCTIONS.theta[i]
            assert loss[row, s] == pytest.approx(0.5 * residual @ residual)
            assert constraint[row, s] == pytest.approx(FUNCTIONS.b[i] @ asked[row, s] - FUNCTIONS.bound[i])


@given(seed=st.integers(0, 999))
def test_gradients_are_the_slopes_of_the_values(seed: int) -> None:
    agents, x, step = np.array([3, 42]), points(seed, 2, 1, P), 1e-5
    moved = np.concatenate((x + step * np.eye(P), x - step * np.eye(P)), axis=1)
    loss, constraint = FUNCTIONS.loss(agents, moved), FUNCTIONS.constraint(agents, moved)

    assert FUNCTIONS.loss_gradient(agents, x)[:, 0] == pytest.approx(
        (loss[:, :P] - loss[:, P:]) / (2 * step), rel=1e-4, abs=1e-4
    )
    assert FUNCTIONS.constraint_gradient(agents, x)[:, 0].transpose(0, 2, 1) == pytest.approx(
        (constraint[:, :P] - constraint[:, P:]) / (2 * step), rel=1e-4, abs=1e-4
    )


@pytest.mark.parametrize("agents", [np.arange(N), np.array([5]), np.arange(10, 60, 3)])
@given(seed=st.integers(0, 999))
def test_scores_are_those_of_every_agent_at_every_point(agents: NDArray[np.intp], seed: int) -> None:
    x = points(seed, 9, P)
    everywhere = np.tile(x, (len(agents), 1, 1))
    losses, constraints = FUNCTIONS.loss(agents, everywhere), FUNCTIONS.constraint(agents, everywhere)
    stacked = np.maximum(constraints, 0.0).transpose(1, 0, 2).reshape(9, -1)

    assert FUNCTIONS.network_loss(agents, x) == pytest.approx(losses.mean(axis=0))
    assert FUNCTIONS.network_violation(agents, x) == pytest.approx(np.linalg.norm(stacked, axis=1))


@given(seed=st.integers(0, 999))
def test_the_comparator_is_given_the_same_functions(seed: int) -> None:
    agents, x = np.arange(20, 50), points(seed, P)
    hessian, slope, constant = FUNCTIONS.quadratic(agents)
    b, bound = FUNCTIONS.linear(agents)
    everywhere = np.tile(x, (len(agents), 1, 1))

    assert 0.5 * x @ hessian @ x + slope @ x + constant == pytest.approx(FUNCTIONS.loss(agents, everywhere).mean())
    assert b @ x - bound == pytest.approx(FUNCTIONS.constraint(agents, everywhere).ravel())


def test_functions_depend_on_seed_agent_and_round_alone() -> None:
    played, length = adversary(), 4096 // ((ROWS + M) * (P + 1))
    assert length > 1
    rounds = [1, 2, length, length + 1, 3 * length]
    in_order = {t: played.play(t) for t in range(1, max(rounds) + 1)}

    for t in rounds:
        fresh, smaller = adversary().play(t), adversary(agents=5).play(t)
        for name in ("a", "theta", "b", "bound"):
            assert getattr(fresh, name).tobytes() == getattr(in_order[t], name).tobytes()
            assert getattr(smaller, name).tobytes() == getattr(in_order[t], name)[:5].tobytes()
    assert len({in_order[t].a.tobytes() for t in rounds} | {adversary(seed=2).play(1).a.tobytes()}) == len(rounds) + 1


def test_the_distributions_are_those_of_the_paper() -> None:
    played = adversary(agents=100, dimension=10, rows=4, constraints=2, b=0.01)
    rounds = [played.play(t) for t in range(1, 41)]
    a, b, bound = (np.array([getattr(each, name) for each in rounds]) for name in ("a", "b", "bound"))
    noise = np.array([each.theta - each.a.sum(axis=-1) for each in rounds])

    for drawn, low, high in ((a, -1.0, 1.0), (b, 0.0, 2.0), (bound, 0.01, 1.01)):
        assert low <= drawn.min() < low + 0.01 < high - 0.01 < drawn.max() <= high
        assert drawn.mean() == pytest.approx((low + high) / 2, abs=0.02)
        assert drawn.std() == pytest.approx((high - low) / np.sqrt(12), rel=0.02)
    assert noise.mean() == pytest.approx(0.0, abs=0.04)
    assert noise.std() == pytest.approx(1.0, abs=0.03)


def test_zero_satisfies_every_constraint_with_the_promised_margin() -> None:
    g = adversary(b=0.25).play(3).constraint(np.arange(N), np.zeros((N, 1, P)))

    assert g.max() <= -0.25


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rows": 0}, "adversary.options.rows must be above 0, not 0"),
        ({"constraints": 1.5}, "adversary.options.constraints must be a whole number, not 1.5"),
        ({"b": 0}, "adversary.options.b must be a number above 0, for Slater's condition to hold, not 0"),
        ({"b": "x"}, "adversary.options.b must be a number above 0, for Slater's condition to hold, not 'x'"),
    ],
)
def test_a_wrong_option_is_named_with_its_remedy(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CannotPlay) as error:
        adversary(**options)

    assert str(error.value) == sentence


@pytest.mark.parametrize("agents", [np.arange(6), np.array([1, 4])])
def test_a_score_by_residuals_is_the_score_by_the_quadratic_form(agents: NDArray[np.intp]) -> None:
    p = 800  # p x p numbers are more than a piece of a score, and more than all residuals
    functions, x = adversary(agents=6, dimension=p, rows=3).play(1), points(1, 7, p)
    hessian, slope, constant = functions.quadratic(agents)
    expected = 0.5 * np.einsum("np,pq,nq->n", x, hessian, x) + x @ slope + constant

    assert functions.network_loss(agents, x) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("make", [LinearRegression, MovingTarget])
def test_a_round_and_its_score_take_memory_for_rows_not_for_a_matrix_of_all_coordinates(make: type[Adversary]) -> None:
    n, p = 3, 5000
    plugin, x = make(Game(n, p, 1, Box(p, -5, 5))), points(1, n, p)
    tracemalloc.start()
    try:
        functions = plugin.play(1, None)
        functions.loss(np.arange(n), x[:, None])
        scoring = Scoring(functions, 1, x, np.zeros(p), plugin.constraints)
        while scoring.step() is None:
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 8 * p * p / 10
