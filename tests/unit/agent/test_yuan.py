"""DOCO-LTC: yuan2022, yuan2022-full and yuan2021."""

from typing import Any

import numpy as np
import pytest
from tests.support.agent_games import Array, Mixed, game, made, played

from slaternet.errors import BadSpec
from slaternet.model import ValueAndGradient
from slaternet.numerics.sets import Ball, Box
from slaternet_agent.algorithms import Algorithm, Decision, Values
from slaternet_agent.algorithms.schedules import Step, breaches, make_schedule
from slaternet_agent.algorithms.yuan2021 import Yuan2021
from slaternet_agent.algorithms.yuan2022 import Yuan2022, Yuan2022Full

FAMILY = ("yuan2022", "yuan2022-full", "yuan2021")
BALL, N, M, ROUNDS = Ball(12, 2.0), 3, 4, 64
RNG = np.random.default_rng(0)
Y, DF = 0.3 * RNG.standard_normal((N, 12)), RNG.standard_normal((N, 12))
F, G, DG = RNG.standard_normal((N, 2)), RNG.standard_normal((N, M)), RNG.standard_normal((N, M, 12))


def one_round(name: str, t: int, mixed: Array = Y) -> tuple[Algorithm, Decision, Any]:
    """Play round t after gossip that ended at `mixed`."""
    host = made(name, game(BALL, N, constraints=M, rounds=ROUNDS))
    s = host.feedback.points
    decision = host.decide(host.start(np.arange(N)), Mixed(mixed, mixed), t)
    loss = ValueAndGradient(np.zeros(N), DF) if host.feedback.loss_gradient else None
    seen = Values(np.ascontiguousarray(F[:, :s]), np.zeros((N, s, M)), loss, ValueAndGradient(G, DG))
    return host, decision, host.update(host.start(np.arange(N)), decision, seen, t)


def direction(decision: Decision, x: Array) -> Array:
    offset = decision.points[:, 0] - x
    return offset / np.linalg.norm(offset, axis=1)[:, None]


@pytest.mark.parametrize("t", [1, 2, 9])
@pytest.mark.parametrize("name", FAMILY)
def test_a_step_is_that_of_doco_ltc(name: str, t: int) -> None:
    _, decision, after = one_round(name, t)

    x = decision.x if decision.anchor is None else decision.anchor
    growth, delta = ROUNDS**0.5, ROUNDS ** (-0.5 / 3) if name == "yuan2022" else ROUNDS**-0.5
    beta, dual = 1 / (2 * M * growth), (growth if t > 1 else 0.0) * np.maximum(G, 0.0)
    match name:
        case "yuan2022-full":
            slope = DF
        case "yuan2022":
            slope = 12 / delta * F[:, :1] * direction(decision, x)
        case _:
            slope = 12 / (2 * delta) * (F[:, :1] - F[:, 1:]) * direction(decision, x)
    assert np.linalg.norm(x, axis=1).max() < 1.5  # inside, so that projecting changed nothing
    assert x == pytest.approx(Y)
    assert after.z == pytest.approx(x - beta * (slope + np.einsum("km,kmp->kp", dual, DG)), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", FAMILY)
def test_it_projects_after_mixing_with_the_shrinkage_of_the_round(name: str) -> None:
    _, decision, _ = one_round(name, 3, mixed=100 * Y)

    x = decision.x if decision.anchor is None else decision.anchor
    xi = {"yuan2022": ROUNDS ** (-0.5 / 3) / 2, "yuan2022-full": 0.0, "yuan2021": ROUNDS**-0.5 / 2}[name]
    assert np.linalg.norm(x, axis=1) == pytest.approx(np.full(N, 2 * (1 - xi)))
    assert np.all(BALL.contains(decision.points))


def test_the_point_played_is_the_decision_and_the_gradients_are_taken_beside_it() -> None:
    _, decision, _ = one_round("yuan2022", 3)

    assert decision.anchor is not None
    assert decision.x.tobytes() == decision.points[:, 0].tobytes()
    assert np.linalg.norm(decision.x - decision.anchor, axis=1) == pytest.approx(np.full(N, 0.5))


@pytest.mark.parametrize("name", ["yuan2022-full", "yuan2021"])
def test_others_are_scored_where_they_take_the_gradients(name: str) -> None:
    assert one_round(name, 3)[1].anchor is None


def test_it_starts_at_the_centre_and_gossips_the_step() -> None:
    host, _, after = one_round("yuan2022-full", 1)

    assert np.array_equal(host.outgoing(host.start(np.arange(N)), 1), np.zeros((N, 12)))
    assert host.outgoing(after, 2) is after.z


def test_symmetric_differences_of_a_quadratic_are_exact_on_average() -> None:
    of = game(Box(10, -5, 5), 4, rounds=8)
    host = made("yuan2021", of)

    for each in played(host, of, 8):
        x, points = each.decision.x, each.decision.points
        u = direction(each.decision, x)
        f = each.functions.loss(np.arange(4), points)
        exact = each.functions.loss_gradient(np.arange(4), x[:, None])[:, 0]
        slope = (f[:, 0] - f[:, 1]) / np.linalg.norm(points[:, 0] - points[:, 1], axis=1)
        assert slope == pytest.approx(np.sum(exact * u, axis=1), rel=1e-9, abs=1e-9)


def test_schedules_are_those_of_the_theorems() -> None:
    of = game(Box(10, -5, 5), 4, constraints=2, rounds=1000)

    def step(kind: type[Algorithm], name: str, **numbers: object) -> Step:
        return make_schedule(name, numbers, of, kind.schedules, kind.sequences).step(10)

    first, third = step(Yuan2022Full, "convex", c=0.5, a=3, gradient_bound=2), step(Yuan2022, "convex", c=0.75)
    second, fourth = (step(kind, "strongly-convex", mu=0.5, gradient_bound=2) for kind in (Yuan2022Full, Yuan2022))
    two = step(Yuan2021, "convex", delta0=0.1)
    assert (first.alpha, first.gamma) == pytest.approx((1 / (3 * 2 * 4 * 1000**0.5), 1000**0.5))
    assert (third.delta, third.xi) == pytest.approx((1000**-0.25, 1000**-0.25 / 5))
    assert (second.alpha, second.gamma) == pytest.approx((0.2, 0.5 * 10 / (2 * 2 * 4)))
    assert (fourth.alpha, fourth.gamma, fourth.delta, fourth.xi) == pytest.approx((0.2, 0.3125, 0.1, 0.02))
    assert two.delta == pytest.approx(0.1 * 1000**-0.5)


@pytest.mark.parametrize("kind", [Yuan2022, Yuan2021])
def test_a_set_smaller_than_the_exploration_shrinks_to_its_centre_at_most(kind: type[Algorithm]) -> None:
    tiny = Ball(3, 1e-3)
    schedule = make_schedule("convex", {}, game(tiny, 4), kind.schedules, kind.sequences)

    assert schedule.step(1).xi == 1.0
    assert breaches(schedule, tiny, 100) == []


@pytest.mark.parametrize("name", FAMILY)
def test_steps_for_a_horizon_need_one(name: str) -> None:
    with pytest.raises(BadSpec, match=r"^run\.rounds is missing; "):
        made(name, game(BALL, N, rounds=None))


def test_exact_steps_for_strong_convexity_need_no_horizon() -> None:
    host = made("yuan2022-full", game(BALL, N, rounds=None), schedule="strongly-convex", mu=1.0)

    assert host.width == 12
