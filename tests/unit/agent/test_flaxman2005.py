import math

import numpy as np
import pytest

from slaternet.numerics.sets import Ball, Box, FeasibleSet
from slaternet_agent.algorithms.base import AlgorithmGame, Schedule, Values
from slaternet_agent.algorithms.flaxman2005 import SCHEDULES, Flaxman2005
from slaternet_agent.algorithms.schedules import make_schedule
from slaternet_agent.testing.arena import ExamGossip

NOTHING = ExamGossip(np.empty((3, 0)), np.empty((3, 0)))


def parts(feasible: FeasibleSet, rounds: int, **numbers: float) -> tuple[Flaxman2005, Schedule]:
    game = AlgorithmGame(3, feasible.dimension, 2, rounds, 1, feasible)
    schedule = make_schedule("convex", numbers, game, SCHEDULES, Flaxman2005.sequences)
    return Flaxman2005(game, schedule), schedule


def test_what_is_asked_about_is_what_is_scored() -> None:
    host, schedule = parts(Ball(4, 5.0), 100)
    decision = host.decide(host.start(np.arange(3)), NOTHING, 3)

    assert decision.points.shape == (3, 1, 4)
    assert decision.points[:, 0].tobytes() == decision.x.tobytes()
    assert np.linalg.norm(decision.x, axis=1) == pytest.approx(schedule.step(3).delta)  # y is still the centre


def test_the_steps_are_those_of_the_paper() -> None:
    _, schedule = parts(Ball(4, 5.0), 10_000, value_bound=2.0, gradient_bound=3.0)
    step = schedule.step(9)

    delta = 10_000**-0.25 * math.sqrt(5 * 4 * 2 * 5 / (3 * (3 * 5 + 2)))
    assert step.delta == pytest.approx(delta)
    assert step.xi == pytest.approx(delta / 5)
    assert step.alpha * 4 / step.delta == pytest.approx(5 / (2 * math.sqrt(10_000)))  # nu


def test_a_step_follows_the_value_played() -> None:
    host, schedule = parts(Box(4, -5, 5), 10_000)
    state, step = host.start(np.arange(3)), schedule.step(2)
    decision, f = host.decide(state, NOTHING, 2), np.array([[0.3], [-0.2], [0.0]])

    moved = host.update(state, decision, Values(f, np.zeros((3, 1, 2))), 2)

    u = decision.x / step.delta
    assert moved.y == pytest.approx(-math.sqrt(100) * 0.01 * f * u)  # nu = R/(C sqrt T), R = 10


def test_a_short_game_explores_no_farther_than_the_set() -> None:
    host, schedule = parts(Ball(4, 0.1), 1, value_bound=100.0)

    assert schedule.step(1).xi == 1.0
    assert np.linalg.norm(host.decide(host.start(np.arange(3)), NOTHING, 1).x, axis=1) == pytest.approx(0.1)
