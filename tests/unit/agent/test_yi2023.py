import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.agent_games import PAPER, Array, Mixed, game, made

from slaternet.errors import BadSpec
from slaternet.model import ValueAndGradient
from slaternet.numerics.sets import Box
from slaternet_agent.algorithms import Values
from slaternet_agent.algorithms.schedules import Step, make_schedule
from slaternet_agent.algorithms.yi2023 import Yi2023, Yi2023Full

BOX, T = Box(12, -5, 5), 7
ALPHA, BETA, GAMMA, DELTA, NEXT = 1 / 7, 7**-0.5, 7**-0.5, 0.01 / 8, 1 / 9


def clipped(values: Array) -> Array:
    return np.maximum(values, 0.0)


@pytest.mark.parametrize("linearised", [True, False])
def test_a_step_from_two_points_is_that_of_algorithm_two(linearised: bool) -> None:
    of, rng = game(BOX, 3, constraints=4), np.random.default_rng(0)
    host = made("yi2023", of, dual_linearised=linearised)
    x, q = rng.standard_normal((3, 12)), rng.random((3, 4))
    f, g = 1e-4 * rng.standard_normal((3, 2)), 0.001 * rng.standard_normal((3, 2, 4))
    state = type(host.start(np.arange(3)))(np.arange(3), x, q)

    decision = host.decide(state, Mixed(x, x), T)
    after = host.update(state, decision, Values(f, g), T)

    for i in range(3):
        u = (decision.points[i, 1] - x[i]) / DELTA
        jacobian = 12 / DELTA * np.outer(u, clipped(g[i, 1]) - clipped(g[i, 0]))
        risen = clipped((1 - BETA * GAMMA) * q[i] + GAMMA * clipped(g[i, 0]))
        w = 12 / DELTA * (f[i, 1] - f[i, 0]) * u + jacobian @ (q[i] if linearised else risen)
        z = np.clip(x[i] - ALPHA * w, -5 * (1 - NEXT), 5 * (1 - NEXT))
        linear = clipped((1 - BETA * GAMMA) * q[i] + GAMMA * (clipped(g[i, 0]) + jacobian.T @ (z - x[i])))
        assert after.z[i] == pytest.approx(z, rel=1e-9, abs=1e-9)
        assert after.q[i] == pytest.approx(linear if linearised else risen, rel=1e-9, abs=1e-9)
    assert np.mean(np.abs(after.z) < 5 * (1 - NEXT)) > 0.5  # the step was seen, not only the boundary
    assert np.count_nonzero(after.q) > 3


@pytest.mark.parametrize("linearised", [True, False])
def test_a_step_with_gradients_is_that_of_algorithm_one(linearised: bool) -> None:
    of, rng = game(BOX, 3, constraints=4), np.random.default_rng(1)
    host = made("yi2023-full", of, dual_linearised=linearised, c=0.25, kappa=0.5)
    x, q = rng.standard_normal((3, 12)), rng.random((3, 4))
    df, g, dg = rng.standard_normal((3, 12)), rng.standard_normal((3, 4)), rng.standard_normal((3, 4, 12))
    state = type(host.start(np.arange(3)))(np.arange(3), x, q)

    decision = host.decide(state, Mixed(x, x), 16)
    nothing = np.empty((3, 0)), np.empty((3, 0, 4))
    after = host.update(
        state, decision, Values(*nothing, ValueAndGradient(np.zeros(3), df), ValueAndGradient(g, dg)), 16
    )

    assert decision.points.shape == (3, 0, 12)
    for i in range(3):
        active = dg[i] * (g[i] > 0)[:, None]
        risen = clipped((1 - 1 / 16) * q[i] + clipped(g[i]) / 4)
        z = np.clip(x[i] - (df[i] + active.T @ (q[i] if linearised else risen)) / 2, -5, 5)
        linear = clipped((1 - 1 / 16) * q[i] + (clipped(g[i]) + active @ (z - x[i])) / 4)
        assert after.z[i] == pytest.approx(z, abs=1e-12)
        assert after.q[i] == pytest.approx(linear if linearised else risen, abs=1e-12)


def test_a_quiet_round_lets_the_dual_fade_and_not_vanish() -> None:
    host, q = made("yi2023", game(BOX, 2)), np.array([[1.0, 3.0], [0.0, 0.5]])
    state = type(host.start(np.arange(2)))(np.arange(2), np.zeros((2, 12)), q)

    decision = host.decide(state, Mixed(state.z, state.z), T)
    after = host.update(state, decision, Values(np.zeros((2, 2)), np.full((2, 2, 2), -1.0)), T)

    assert after.q == pytest.approx((1 - BETA * GAMMA) * q, rel=1e-12)


def test_schedules_are_those_of_the_sources() -> None:
    of = game(PAPER, 4, rounds=None)
    table2 = make_schedule("table2", {}, of, Yi2023.schedules, Yi2023.sequences)
    convex = make_schedule("convex", {"c": 0.25, "kappa": 0.75}, of, Yi2023.schedules, Yi2023.sequences)
    exact = make_schedule("convex", {}, of, Yi2023Full.schedules, Yi2023Full.sequences)

    assert table2.step(4) == Step(alpha=0.25, beta=0.5, gamma=0.5, xi=0.2, delta=0.002, next_xi=1 / 6)
    assert convex.step(15).xi == 0.5
    assert (convex.step(16).alpha, convex.step(16).beta, convex.step(16).gamma) == (0.5, 0.125, 0.5)
    assert convex.step(15).delta == 2.5
    assert (exact.step(4).alpha, exact.step(4).beta, exact.step(4).gamma) == (0.5, 0.5, 0.5)


@given(beta=st.floats(0.001, 0.9), rise=st.floats(0, 3), seed=st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_the_dual_stays_below_the_bound_over_beta(beta: float, rise: float, seed: int) -> None:
    of, rng = game(BOX, 2, constraints=3), np.random.default_rng(seed)
    numbers: dict[str, object] = {"alpha": 0.01, "beta": beta, "gamma": 1, "xi": 0.5, "delta": 0.01}
    host = made("yi2023", of, schedule="explicit", dual_linearised=False, **numbers)
    state = host.start(np.arange(2))
    for t in range(1, 20):
        decision = host.decide(state, Mixed(state.z, state.z), t)
        state = host.update(state, decision, Values(rng.random((2, 2)), rise * rng.random((2, 2, 3))), t)

        assert np.all(state.q <= rise / beta * (1 + 1e-12))


def test_a_reading_that_is_no_truth_value_is_refused() -> None:
    with pytest.raises(BadSpec, match=r"^algorithm\.dual_linearised must be true or false, not 'yes'$"):
        made("yi2023", game(PAPER, 2), dual_linearised="yes")
