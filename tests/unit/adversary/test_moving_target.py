import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet.numerics.sets import Box
from slaternet_adversary import CannotPlay, Game
from slaternet_adversary.builtin.moving_target import MovingTarget

N, P = 7, 12
AGENTS = np.arange(N)


def game(seed: int = 1) -> Game:
    return Game(N, P, seed, Box(P, -5, 5))


def points(seed: int, s: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-5, 5, (N, s, P))


@given(t=st.integers(1, 2000), mu=st.floats(0.1, 10))
def test_every_loss_is_a_bowl_of_curvature_mu_about_a_target_near_the_given_one(t: int, mu: float) -> None:
    round = MovingTarget(game(), mu=mu, target=2.0, drift=0.0, noise=0.5).play(t)
    at = points(t)

    gradient = round.loss_gradient(AGENTS, at)
    target = at - gradient / mu  # of mu/2 |x - theta|^2

    assert np.abs(target - target[:, :1]).max() < 1e-9  # the same for every point
    assert np.abs(target - 2.0).max() <= 0.5 + 1e-9
    assert round.loss(AGENTS, at) == pytest.approx(mu / 2 * ((at - target) ** 2).sum(-1), rel=1e-9, abs=1e-9)


def test_the_target_goes_to_and_fro() -> None:
    still = MovingTarget(game(), drift=0.0, noise=0.0)
    moving = MovingTarget(game(), drift=2.0, period=8, noise=0.0)
    at = points(1)

    def target(adversary: MovingTarget, t: int) -> float:
        return float((at - adversary.play(t).loss_gradient(AGENTS, at))[0, 0, 0])

    assert {round(target(still, t), 9) for t in range(1, 9)} == {1.0}
    assert [round(target(moving, t), 9) for t in range(1, 9)] == [2.0, 3.0, 2.0, 1.0, 0.0, -1.0, 0.0, 1.0]


@given(t=st.integers(1, 2000))
def test_zero_satisfies_every_constraint_with_margin_b(t: int) -> None:
    slack = -MovingTarget(game(), b=1.5, constraints=3).play(t).constraint(AGENTS, np.zeros((N, 1, P)))

    assert slack.shape == (N, 1, 3)
    assert slack.min() >= 1.5
    assert slack.max() <= 2.5


def test_rounds_may_be_asked_for_in_any_order() -> None:
    one, other, at = MovingTarget(game()), MovingTarget(game()), points(1)

    forwards = [one.play(t).loss(AGENTS, at) for t in range(1, 400, 50)]
    backwards = [other.play(t).loss(AGENTS, at) for t in reversed(range(1, 400, 50))]

    assert all(np.array_equal(a, b) for a, b in zip(forwards, reversed(backwards), strict=True))


@pytest.mark.parametrize("method", ["loss", "constraint", "loss_gradient", "constraint_gradient"])
@given(seed=st.integers(0, 999), mu=st.floats(0.1, 10))
@settings(max_examples=25, deadline=None)
def test_values_are_to_the_bit_those_of_a_matrix_that_is_a_multiple_of_the_identity(
    method: str, seed: int, mu: float
) -> None:
    functions = MovingTarget(game(seed), mu=mu, constraints=2).play(seed + 1)
    dense, some, at = functions.stacked(), AGENTS[::2], points(seed)
    at[0, 0] = 0.0

    assert np.array_equal(dense.a, np.tile(math.sqrt(mu) * np.eye(P), (N, 1, 1)))
    assert getattr(functions, method)(some, at[some]).tobytes() == getattr(dense, method)(some, at[some]).tobytes()


@pytest.mark.parametrize("p", [P, 500])
def test_scores_and_closed_forms_are_those_of_the_matrices_whichever_is_smaller(p: int) -> None:
    functions = MovingTarget(Game(5, p, 1, Box(p, -5, 5)), mu=2.5).play(3)
    dense, some, x = functions.stacked(), np.array([0, 2, 3]), np.random.default_rng(1).uniform(-5, 5, (9, p))

    assert functions.network_loss(some, x) == pytest.approx(dense.network_loss(some, x), rel=1e-12)
    (hessian, slope, constant), expected = functions.quadratic(some), dense.quadratic(some)
    assert np.allclose(hessian, expected[0], rtol=1e-12)
    assert np.allclose(slope, expected[1], rtol=1e-12)
    assert constant == pytest.approx(expected[2], rel=1e-12)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"mu": 0}, "adversary.options.mu must be above 0, not 0"),
        ({"b": -1}, "adversary.options.b must be above 0, not -1"),
        ({"noise": "loud"}, "adversary.options.noise must be a finite number, not 'loud'"),
        ({"constraints": 0}, "adversary.options.constraints must be above 0, not 0"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(CannotPlay) as error:
        MovingTarget(game(), **options)  # type: ignore[arg-type]

    assert str(error.value) == sentence
