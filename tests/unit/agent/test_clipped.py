"""Clipped gossip against a loop over agents, and what clipping promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tests.support.agent_games import PAPER, Array, Heard, game, made, played

from slaternet_agent.algorithms.estimators import Directions
from slaternet_agent.algorithms.gossiping import State
from slaternet_coordinator.graphs.erdos_renyi import Paper

N, P = 20, 10


def clip(v: Array, tau: float) -> Array:
    length = float(np.sqrt(sum(each * each for each in v)))
    return v if length <= tau else tau / length * v


@pytest.mark.parametrize(("tau", "power"), [(0.5, 0.0), (3.0, 0.5), (100.0, 0.0)])
def test_a_game_is_the_one_of_a_loop_over_agents(tau: float, power: float) -> None:
    of = game(PAPER, N, rounds=10)
    directions, graph, clippings = Directions(of), Paper(N, of.seed), 0
    z = np.zeros((N, P))

    for each in played(made("clipped", of, tau=tau, power=power), of, 10, b=1.0):
        t, functions = each.t, each.functions
        w, u = graph.matrix(t).dense(), directions.at(np.arange(N), t)
        alpha, gamma, delta, next_xi = 1 / t, 0.15 * t, 0.01 / t, 1 / (t + 1)
        assert each.sent == pytest.approx(z, rel=1e-6, abs=1e-6)
        new = np.zeros((N, P))
        for i in range(N):
            x = z[i].copy()
            for j in range(N):
                moved = clip(z[j] - z[i], tau / t**power)
                clippings += bool(w[i, j] and np.any(moved != z[j] - z[i]))
                x = x + w[i, j] * moved
            assert each.decision.x[i] == pytest.approx(x, rel=1e-6, abs=1e-6)
            points = np.stack((x, x + delta * u[i]))[None]
            f, g = functions.loss(np.array([i]), points)[0], functions.constraint(np.array([i]), points)[0]
            q = gamma * np.maximum(g[0], 0.0)
            step = P / delta * (f[1] - f[0] + q @ (g[1] - g[0])) * u[i]
            new[i] = np.clip(x - alpha * step, -5 * (1 - next_xi), 5 * (1 - next_xi))
        z = new
    assert (clippings > 0) == (tau < 100)


def test_a_radius_that_is_never_reached_is_algorithm_one_up_to_rounding() -> None:
    of = game(PAPER, N, rounds=30)
    plain = [each.decision.x for each in played(made("zhang2024", of), of, 30, b=5.0)]
    clipped = [each.decision.x for each in played(made("clipped", of, tau=1e6), of, 30, b=5.0)]

    assert np.array(clipped) == pytest.approx(np.array(plain), rel=1e-5, abs=1e-5)


@given(seed=st.integers(0, 9999), tau=st.sampled_from([1e-3, 0.3, 2.0]))
@settings(max_examples=30, deadline=None)
def test_a_neighbour_moves_an_agent_by_its_weight_times_the_radius_at_most(seed: int, tau: float) -> None:
    rng, of = np.random.default_rng(seed), game(PAPER, 6, rounds=9)
    host = made("clipped", of, tau=tau)
    matrix = rng.random((6, 6)) + np.eye(6)
    matrix /= matrix.sum(axis=1, keepdims=True)
    sent = 4.0 * (2.0 * rng.random((6, P)) - 1.0)
    lied = sent.copy()
    lied[2] = 4.0 * np.sign(rng.standard_normal(P))
    state = State(np.arange(6), sent)

    honest, misled = (host.decide(state, Heard(csr_array(matrix), rows), 9).x for rows in (sent, lied))

    moved = np.sqrt(np.sum((misled - honest) ** 2, axis=1))
    others = np.arange(6) != 2
    assert np.all(moved[others] <= 2.0 * matrix[others, 2] * tau * (1 + 1e-9))
