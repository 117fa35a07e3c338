"""Where two algorithms must coincide, and what holds for all of them."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tests.support.agent_games import DISTRIBUTED, PAPER, Agents, Array, Heard, Mixed, game, made, played, seen_by

from slaternet.model import ValueAndGradient
from slaternet.numerics.sets import Ball, Box, FeasibleSet, Simplex
from slaternet_adversary.builtin.forms import Functions
from slaternet_agent.algorithms import Algorithm, Decision, Values
from slaternet_agent.algorithms.estimators import forward
from slaternet_agent.algorithms.replica import Central
from slaternet_agent.algorithms.schedules import Schedule, Step
from slaternet_agent.algorithms.state_vector import pack
from slaternet_agent.algorithms.yi2024 import Yi2024
from slaternet_agent.algorithms.yuan2022 import Yuan2022Full

N, M = 100, 12
MIX_FIRST = ("zhang2024", "yi2023", "yi2023-full", "yi2024")


def seen_at_random(host: Algorithm, rng: np.random.Generator, k: int, m: int, p: int) -> Values:
    """Return what nobody asked about; small, so that few steps end at the boundary, where all bits look alike."""
    s = host.feedback.points
    loss = ValueAndGradient(rng.standard_normal(k), 0.1 * rng.standard_normal((k, p)))
    constraint = ValueAndGradient(0.05 * rng.standard_normal((k, m)), rng.standard_normal((k, m, p)))
    return Values(
        1e-4 * rng.standard_normal((k, s)),
        1e-3 * rng.standard_normal((k, s, m)),
        loss if host.feedback.loss_gradient else None,
        constraint if host.feedback.constraint_gradient else None,
    )


def rows_of(tangent: ValueAndGradient | None, rows: Agents) -> ValueAndGradient | None:
    return None if tangent is None else ValueAndGradient(tangent.value[rows], tangent.gradient[rows])


def remembered(state: Any) -> list[Array]:
    return [getattr(state, each.name) for each in dataclasses.fields(state) if each.name != "agents"]


@pytest.mark.parametrize("name", DISTRIBUTED)
@given(seed=st.integers(0, 999), t=st.integers(1, 60))
@settings(max_examples=5, deadline=None)
def test_an_agent_s_rounds_do_not_depend_on_its_batch(name: str, seed: int, t: int) -> None:
    rng, of = np.random.default_rng(seed), game(Box(13, -5, 5), N, constraints=M)
    host = made(name, of)
    matrix = np.where(rng.random((N, N)) < 0.3, rng.random((N, N)), 0.0) + np.eye(N)
    matrix /= matrix.sum(axis=1, keepdims=True)
    sent = 2.0 * rng.standard_normal((N, host.width))
    seen = [seen_at_random(host, rng, N, M, 13) for _ in range(2)]

    def play(rows: Agents) -> list[Array]:
        state, bits = host.start(rows), []
        for later, each in enumerate(seen):
            own = Values(each.f[rows], each.g[rows], rows_of(each.loss, rows), rows_of(each.constraint, rows))
            decision = host.decide(state, Heard(csr_array(matrix[rows]), sent), t + later)
            state = host.update(state, decision, own, t + later)
            memo = decision.memo if host.memo_width else decision.x
            bits += [decision.x, decision.points, memo, host.outgoing(state, t + later + 1), *remembered(state)]
        return bits

    whole = play(np.arange(N))
    for k in (1, 2, 33):
        rows = rng.permutation(N)[:k]
        equal = [own.tobytes() == each[rows].tobytes() for own, each in zip(play(rows), whole, strict=True)]
        assert all(equal), equal


@pytest.mark.parametrize("name", DISTRIBUTED)
def test_one_agent_alone_is_the_one_learner_of_its_game(name: str) -> None:
    of = game(PAPER, 1, constraints=3, rounds=40)
    central = made(name, of, mode="central")
    assert isinstance(central, Central)

    alone = [each.decision.x for each in played(made(name, of), of, 40, b=1.0)]
    learner = [each.decision.x for each in played(central, of, 40, b=1.0)]

    assert np.array_equal(alone, learner)


def averaged(functions: Functions, n: int, x: Array) -> tuple[Array, Array, Array]:
    """Return the gradient of the average loss, and the value and gradient of everyone's constraints."""
    agents = np.arange(n)
    everywhere = np.tile(x, (n, 1, 1))
    gradient = functions.loss_gradient(agents, everywhere)[:, 0].mean(axis=0)
    values = functions.constraint(agents, everywhere)[:, 0].reshape(-1)
    return gradient, values, functions.constraint_gradient(agents, everywhere)[:, 0].reshape(-1, x.size)


def by_hand_yi2024(functions: Functions, n: int, x: Array, t: int, dual: Array) -> tuple[Array, Array]:
    df, g, dg = averaged(functions, n, x)
    return np.clip(x - 1 / t * (df + dg.T @ (0.15 * t / 2 * np.maximum(g, 0.0))), -5, 5), dual


def by_hand_yi2023_full(functions: Functions, n: int, x: Array, t: int, dual: Array) -> tuple[Array, Array]:
    df, g, dg = averaged(functions, n, x)
    root, active = t**-0.5, dg * (g > 0)[:, None]
    moved = np.clip(x - root * (df + active.T @ dual), -5, 5)
    return moved, np.maximum((1 - 1 / t) * dual + root * (np.maximum(g, 0.0) + active @ (moved - x)), 0.0)


def by_hand_yuan2022_full(functions: Functions, n: int, x: Array, t: int, dual: Array) -> tuple[Array, Array]:
    df, g, dg = averaged(functions, n, x)
    lam = (12**0.5 if t > 1 else 0.0) * np.maximum(g, 0.0)
    return np.clip(x - 1 / (2 * 2 * n * 12**0.5) * (df + dg.T @ lam), -5, 5), dual


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [("yi2024", by_hand_yi2024), ("yi2023-full", by_hand_yi2023_full), ("yuan2022-full", by_hand_yuan2022_full)],
)
def test_one_learner_for_all_is_the_one_written_by_hand(name: str, by_hand: Callable[..., Any]) -> None:
    n, of = 5, game(PAPER, 5, rounds=12)
    x, dual = np.zeros(10), np.zeros(2 * n)

    for each in played(made(name, of, mode="central"), of, 12, b=1.0):
        assert each.decision.x == pytest.approx(np.tile(x, (n, 1)), abs=1e-10)
        x, dual = by_hand(each.functions, n, x, each.t, dual)
    assert 0.1 < np.abs(x).max() < 5


def test_algorithm_one_with_exact_gradients_is_yi2024_with_half_the_square() -> None:
    """With the exact gradients in place of the estimates, and neither shrinkage nor exploration."""
    of = game(PAPER, 20, rounds=60)
    numbers: dict[str, object] = {"schedule": "convex", "c": 0.75, "gamma0": 0.1, "psi": "half-square"}
    agents, z = np.arange(20), np.zeros((20, 10))

    for each in played(made("yi2024", of, **numbers), of, 60):
        assert each.sent == pytest.approx(z, abs=1e-9)
        x, alpha = each.decision.x, each.t**-0.75
        g = each.functions.constraint(agents, x[:, None])[:, 0]
        dg = each.functions.constraint_gradient(agents, x[:, None])[:, 0]
        q = 0.1 / alpha * np.maximum(g, 0.0)
        w = each.functions.loss_gradient(agents, x[:, None])[:, 0] + np.einsum("kmp,km->kp", dg, q)
        z = np.clip(x - alpha * w, -5, 5)


def test_doco_ltc_is_algorithm_one_with_the_dual_s_step_of_the_round_before() -> None:
    """One agent, gradients, a ball, constraints that stay; x_1 is feasible, for DOCO-LTC starts with the dual 0."""
    of, rng = game(Ball(6, 2.0), 1, constraints=3, rounds=None), np.random.default_rng(4)
    dg, bound = rng.standard_normal((1, 3, 6)), rng.random((1, 3))
    later = Yi2024(of, Schedule(lambda s: Step(alpha=0.5 / s, gamma=0.2 * (s - 1.0))), psi="half-square")
    first = Yuan2022Full(of, Schedule(lambda s: Step(alpha=0.5 / s, gamma=0.2 * s)))
    targets = 4.0 * rng.standard_normal(6) + rng.standard_normal((50, 6))

    def trajectory(host: Algorithm) -> tuple[list[Array], int]:
        state, path, violated = host.start(np.arange(1)), [], 0
        for t, target in enumerate(targets, start=1):
            decision = host.decide(state, Mixed(host.outgoing(state, t), host.outgoing(state, t)), t)
            g = np.sum(dg * decision.x[:, None], axis=-1) - bound
            nothing = np.empty((1, 0)), np.empty((1, 0, 3))
            seen = Values(*nothing, ValueAndGradient(np.zeros(1), decision.x - target), ValueAndGradient(g, dg))
            state = host.update(state, decision, seen, t)
            path.append(decision.x)
            violated += bool(np.any(g > 0))
        return path, violated

    (ours, violated), (theirs, _) = trajectory(later), trajectory(first)
    assert violated > 5
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("name", MIX_FIRST)
def test_mixing_keeps_the_mean(name: str) -> None:
    of = game(PAPER, 100, rounds=12)

    for each in played(made(name, of), of, 12):
        assert each.decision.x.mean(axis=0) == pytest.approx(each.sent.mean(axis=0), abs=1e-13)


@pytest.mark.parametrize("feasible", [Box(12, -1, 4), Ball(12, 0.3), Simplex(12, 2.0)], ids=["box", "ball", "simplex"])
@pytest.mark.parametrize("name", DISTRIBUTED)
@given(seed=st.integers(0, 999), t=st.integers(1, 50), size=st.sampled_from([1e-3, 1.0, 1e6]))
@settings(max_examples=5, deadline=None)
def test_whatever_is_played_and_asked_lies_in_the_set(
    name: str, feasible: FeasibleSet, seed: int, t: int, size: float
) -> None:
    of, rng = game(feasible, 8, constraints=3), np.random.default_rng(seed)
    host = made(name, of)
    state = host.start(np.arange(8))
    for now in (t, t + 1, t + 2):
        decision = host.decide(state, Heard(csr_array(np.eye(8)), host.outgoing(state, now)), now)
        anchor = decision.x if decision.anchor is None else decision.anchor
        for asked in (decision.x, decision.points, anchor):
            assert np.all(feasible.contains(asked))
        state = host.update(state, decision, scaled(seen_at_random(host, rng, 8, 3, 12), size), now)


def scaled(seen: Values, size: float) -> Values:
    tangents = [
        None if each is None else ValueAndGradient(size * each.value, size * each.gradient)
        for each in (seen.loss, seen.constraint)
    ]
    return Values(size * seen.f, size * seen.g, *tangents)


@pytest.mark.parametrize("name", DISTRIBUTED)
def test_a_state_is_rebuilt_from_what_is_journalled(name: str) -> None:
    of, agents = game(PAPER, 6, rounds=10), np.arange(6)
    adopter = made(name, of)
    rebuilt = adopter.start(agents)
    rounds = list(played(made(name, of), of, 10))

    for each in rounds:
        asked = each.decision
        anchor = asked.x if asked.anchor is None else asked.anchor
        memo = asked.memo if adopter.memo_width else np.empty(0)
        journalled = Decision(asked.x.copy(), asked.points.copy(), anchor.copy(), memo.copy())
        rebuilt = adopter.update(rebuilt, journalled, seen_by(adopter, each.functions, agents, journalled), each.t)

    assert pack(rebuilt).tobytes() == pack(rounds[-1].state).tobytes()


@given(x=st.floats(-3, 3), delta=st.floats(0.01, 1))
def test_on_a_line_the_mean_of_forward_differences_is_the_central_one(x: float, delta: float) -> None:
    def value(v: float) -> float:
        return v * v * v - 2.0 * v

    estimates = [forward(np.array([[value(x), value(x + delta * u)]]), 1, delta)[0] * u for u in (1.0, -1.0)]

    central = (value(x + delta) - value(x - delta)) / (2 * delta)
    assert math.fsum(estimates) / 2 == pytest.approx(central, rel=1e-9, abs=1e-9)
