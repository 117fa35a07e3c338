import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet.model import Array, ValueAndGradient
from slaternet.numerics.sets import Ball, Box, FeasibleSet
from slaternet_agent.algorithms.base import AlgorithmGame, Values
from slaternet_agent.algorithms.schedules import make_schedule
from slaternet_agent.algorithms.zinkevich2003 import SCHEDULES, Zinkevich2003
from slaternet_agent.testing.arena import ExamGossip

NOTHING = ExamGossip(np.empty((3, 0)), np.empty((3, 0)))


def algorithm(feasible: FeasibleSet, schedule: str, **numbers: float) -> Zinkevich2003:
    game = AlgorithmGame(3, feasible.dimension, 2, None, 1, feasible)
    return Zinkevich2003(game, make_schedule(schedule, numbers, game, SCHEDULES, Zinkevich2003.sequences))


def told(gradient: Array) -> Values:
    return Values(np.empty((3, 0)), np.empty((3, 0, 2)), loss=ValueAndGradient(np.zeros(3), gradient))


def test_with_the_strongly_convex_steps_the_decision_is_the_mean_of_the_bowls_so_far() -> None:
    host, bowls = algorithm(Box(4, -9, 9), "strongly-convex", mu=1.0), np.random.default_rng(0).random((20, 3, 4))
    state = host.start(np.arange(3))
    for t, bowl in enumerate(bowls, 1):
        x = host.decide(state, NOTHING, t).x
        state = host.update(state, host.decide(state, NOTHING, t), told(x - bowl), t)
        assert host.decide(state, NOTHING, t + 1).x == pytest.approx(bowls[:t].mean(axis=0))


def test_a_step_goes_against_the_gradient_and_back_to_the_set() -> None:
    host = algorithm(Ball(2, 1.0), "convex", alpha0=3.0)
    state = host.start(np.arange(3))

    moved = host.update(state, host.decide(state, NOTHING, 4), told(np.array([[1.0, 0], [0, -0.1], [-3, 4]])), 4)

    assert moved.x == pytest.approx(np.array([[-1.0, 0.0], [0.0, 0.15], [0.6, -0.8]]))


def test_nothing_is_asked_about_and_nothing_gossiped() -> None:
    host = algorithm(Box(4, -1, 1), "convex")
    state = host.start(np.arange(3))

    assert host.decide(state, NOTHING, 1).points.shape == (3, 0, 4)
    assert host.outgoing(state, 1).shape == (3, host.width) == (3, 0)
    assert not host.feedback.constraint_gradient


def test_the_modulus_must_be_given_and_positive() -> None:
    with pytest.raises(BadSpec, match=r"^algorithm\.mu is missing; "):
        algorithm(Box(4, -1, 1), "strongly-convex")
    with pytest.raises(BadSpec, match=r"^algorithm\.mu must be above 0"):
        algorithm(Box(4, -1, 1), "strongly-convex", mu=0)
