import math

import numpy as np
import pytest

from slaternet.model import ValueAndGradient
from slaternet.numerics.sets import Box
from slaternet_agent.algorithms.base import AlgorithmGame, Schedule, Values
from slaternet_agent.algorithms.mahdavi2012 import (
    BANDIT_SCHEDULES,
    SCHEDULES,
    Mahdavi2012,
    Mahdavi2012Bandit,
    Mahdavi2012State,
)
from slaternet_agent.algorithms.schedules import make_schedule
from slaternet_agent.algorithms.zinkevich2003 import Zinkevich2003
from slaternet_agent.testing.arena import ExamGossip

GAME = AlgorithmGame(3, 12, 2, 400, 1, Box(12, -5, 5))
NOTHING = ExamGossip(np.empty((3, 0)), np.empty((3, 0)))
STEPS = {"alpha": 0.1, "beta": 0.2, "gamma": 0.3, "xi": 0.1, "delta": 0.05}


def explicit(kind: type[Mahdavi2012] | type[Mahdavi2012Bandit] | type[Zinkevich2003]) -> Schedule:
    steps = {name: STEPS[name] for name in kind.sequences}
    return make_schedule("explicit", steps, GAME, kind.schedules, kind.sequences)


def tangents(rng: np.random.Generator) -> tuple[ValueAndGradient, ValueAndGradient]:
    loss = ValueAndGradient(rng.random(3), rng.standard_normal((3, 12)))
    return loss, ValueAndGradient(rng.standard_normal((3, 2)), rng.standard_normal((3, 2, 12)))


def test_a_step_with_gradients_is_that_of_the_paper() -> None:
    host, rng = Mahdavi2012(GAME, explicit(Mahdavi2012)), np.random.default_rng(0)
    state = Mahdavi2012State(np.arange(3), rng.standard_normal((3, 12)), rng.random((3, 2)))
    loss, constraint = tangents(rng)
    decision = host.decide(state, NOTHING, 1)

    after = host.update(state, decision, Values(np.empty((3, 0)), np.empty((3, 0, 2)), loss, constraint), 1)

    assert decision.points.shape == (3, 0, 12)
    for i in range(3):
        gradient = loss.gradient[i] + state.lam[i] @ constraint.gradient[i]
        assert after.x[i] == pytest.approx(state.x[i] - 0.1 * gradient)
        assert after.lam[i] == pytest.approx(np.maximum((1 - 0.06) * state.lam[i] + 0.3 * constraint.value[i], 0.0))


def test_while_no_constraint_binds_it_is_online_gradient_descent() -> None:
    host, other = Mahdavi2012(GAME, explicit(Mahdavi2012)), Zinkevich2003(GAME, explicit(Zinkevich2003))
    rng, mine, yours = np.random.default_rng(0), host.start(np.arange(3)), other.start(np.arange(3))
    for t in range(1, 20):
        loss, constraint = tangents(rng)
        slack = ValueAndGradient(-np.abs(constraint.value), constraint.gradient)
        seen = Values(np.empty((3, 0)), np.empty((3, 0, 2)), loss, slack)
        mine = host.update(mine, host.decide(mine, NOTHING, t), seen, t)
        yours = other.update(yours, other.decide(yours, NOTHING, t), seen, t)
        assert mine.x.tobytes() == yours.x.tobytes()


def test_a_bandit_step_uses_the_gradient_of_the_loss_and_two_values_of_the_worst_constraint() -> None:
    host, rng = Mahdavi2012Bandit(GAME, explicit(Mahdavi2012Bandit)), np.random.default_rng(0)
    state = Mahdavi2012State(np.arange(3), rng.standard_normal((3, 12)), rng.random((3, 1)))
    loss, g = tangents(rng)[0], 0.01 * rng.standard_normal((3, 2, 2))
    decision = host.decide(state, NOTHING, 1)

    after = host.update(state, decision, Values(rng.random((3, 2)), g, loss), 1)

    assert decision.anchor is None  # the gradient is taken at the decision
    for i in range(3):
        u = (decision.points[i, 0] - decision.points[i, 1]) / 0.1
        plus, minus = g[i].max(axis=1)
        gradient = loss.gradient[i] + state.lam[i] * 12 / 0.1 * (plus - minus) * u
        assert after.x[i] == pytest.approx(np.clip(state.x[i] - 0.1 * gradient, -4.5, 4.5))
        assert after.lam[i] == pytest.approx(np.maximum(0.94 * state.lam[i] + 0.3 * (plus + minus) / 2, 0.0))


def test_the_steps_of_the_paper_follow_from_the_bounds() -> None:
    numbers = {"gradient_bound": 2.0, "value_bound": 30.0}
    step = make_schedule("convex", numbers, GAME, SCHEDULES, Mahdavi2012.sequences).step(5)

    eta = 5 * math.sqrt(12) / (math.sqrt(3 * 4 + 4 * 900) * 20)
    assert (step.alpha, step.gamma) == pytest.approx((eta, eta))
    weight = step.beta / eta
    assert weight >= 3 * 4 + 2 * eta**2 * weight**2  # the paper's condition on its delta


def test_the_bandit_steps_keep_both_points_in_the_set() -> None:
    numbers = {"gradient_bound": 0.1}
    step = make_schedule("convex", numbers, GAME, BANDIT_SCHEDULES, Mahdavi2012Bandit.sequences).step(5)

    assert (step.alpha, step.xi, step.delta) == pytest.approx((0.05, 0.05, 0.25))
    weight = step.beta / step.alpha
    assert weight >= 2 * (144 * 0.01 + step.alpha**2 * weight**2)
