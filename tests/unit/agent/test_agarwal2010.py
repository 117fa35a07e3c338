import math

import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet.numerics.sets import Box, FeasibleSet
from slaternet_agent.algorithms.agarwal2010 import SCHEDULES, Agarwal2010, Agarwal2010Multi
from slaternet_agent.algorithms.base import AlgorithmGame, Feedback, Schedule, Values
from slaternet_agent.algorithms.schedules import make_schedule
from slaternet_agent.testing.arena import ExamGossip

NOTHING = ExamGossip(np.empty((3, 0)), np.empty((3, 0)))
SEQUENCES = Agarwal2010.sequences


def game(rounds: int | None = 100, feasible: FeasibleSet | None = None) -> AlgorithmGame:
    return AlgorithmGame(3, 4, 2, rounds, 1, feasible or Box(4, -9, 9))


def schedule(name: str, of: AlgorithmGame, **numbers: float) -> Schedule:
    return make_schedule(name, numbers, of, SCHEDULES, SEQUENCES)


def test_two_points_give_the_step_of_the_paper() -> None:
    host = Agarwal2010(game(), schedule("convex", game()))
    rng, delta = np.random.default_rng(0), math.log(100) / 100
    state, f = host.start(np.arange(3)), rng.standard_normal((3, 2))
    decision = host.decide(state, NOTHING, 7)

    moved = host.update(state, decision, Values(f, rng.random((3, 2, 2))), 7)

    for i in range(3):
        u = (decision.points[i, 0] - decision.x[i]) / delta
        assert decision.points[i, 1] == pytest.approx(decision.x[i] - delta * u)
        assert np.linalg.norm(u) == pytest.approx(1.0)
        df = 4 / (2 * delta) * (f[i, 0] - f[i, 1]) * u
        limit = 9 * (1 - delta / 9)
        assert moved.x[i] == pytest.approx(np.clip(-0.1 * df, -limit, limit))


def test_p_plus_one_points_with_strongly_convex_steps_find_the_mean_of_the_bowls_but_for_the_bias() -> None:
    host = Agarwal2010Multi(game(), schedule("strongly-convex", game(), mu=1.0))
    bowls, state = np.random.default_rng(0).random((20, 3, 4)), host.start(np.arange(3))
    for t, bowl in enumerate(bowls, 1):
        decision = host.decide(state, NOTHING, t)
        f = 0.5 * np.sum((decision.points - bowl[:, None]) ** 2, axis=-1)
        state = host.update(state, decision, Values(f, np.zeros((3, 5, 2))), t)
        # a forward difference of 1/2 x^2 is off by delta/2 in every coordinate
        assert state.x == pytest.approx(bowls[:t].mean(axis=0) - math.log(100) / 200)


def test_p_plus_one_points_are_declared_by_the_game_s_dimension() -> None:
    host = Agarwal2010Multi(game(), schedule("convex", game()))

    assert host.feedback == Feedback(points=5)
    assert host.decide(host.start(np.arange(3)), NOTHING, 1).points.shape == (3, 5, 4)


@pytest.mark.parametrize("rounds", [1, 2, 3, 1000])
@pytest.mark.parametrize("inner", [0.01, 9.0])
def test_the_radius_is_log_t_over_t_and_never_leaves_the_set(rounds: int, inner: float) -> None:
    step = schedule("convex", game(rounds, Box(4, -inner, inner))).step(1)

    assert step.delta == pytest.approx(min(inner, math.log(max(rounds, 2)) / max(rounds, 2)))
    assert 0 < step.xi <= 1
    assert step.delta <= inner * step.xi * (1 + 1e-12)
    assert step.alpha == pytest.approx(rounds**-0.5)


def test_a_game_without_a_horizon_is_refused() -> None:
    with pytest.raises(BadSpec, match=r"^run\.rounds is missing; "):
        schedule("convex", game(None))
