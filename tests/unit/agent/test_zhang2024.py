import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array
from tests.support.agent_games import Array, Mixed

from slaternet.numerics.sets import Ball, Box, FeasibleSet
from slaternet_agent.algorithms.base import AlgorithmGame, Decision, Values
from slaternet_agent.algorithms.gossiping import State
from slaternet_agent.algorithms.schedules import make_schedule
from slaternet_agent.algorithms.zhang2024 import Zhang2024

N, M = 100, 12


def algorithm(feasible: FeasibleSet, agents: int = N, constraints: int = M) -> Zhang2024:
    game = AlgorithmGame(agents, feasible.dimension, constraints, None, 3, feasible)
    return Zhang2024(game, make_schedule("table2", {}, game))


@pytest.mark.parametrize("feasible", [Box(12, -5, 5), Ball(13, 4.0), Box(150, -1, 2)])
@given(seed=st.integers(0, 999), t=st.integers(1, 600))
@settings(max_examples=25, deadline=None)
def test_an_agent_s_round_does_not_depend_on_its_batch(feasible: FeasibleSet, seed: int, t: int) -> None:
    rng = np.random.default_rng(seed)
    x = feasible.project(3.0 * rng.standard_normal((N, feasible.dimension)), 0.9)
    # Small values, so that few steps end at the boundary, where all bits look alike.
    seen = Values(1e-4 * rng.standard_normal((N, 2)), 0.02 / np.sqrt(t) * rng.standard_normal((N, 2, M)))

    def play(rows: NDArray[np.intp]) -> tuple[Decision, Array]:
        host = algorithm(feasible)
        decision = host.decide(host.start(rows), Mixed(x[rows], x), t)
        return decision, host.update(host.start(rows), decision, Values(seen.f[rows], seen.g[rows]), t).z

    whole, z = play(np.arange(N))
    for k in (1, 2, 33):
        rows = rng.permutation(N)[:k]
        decision, own = play(rows)
        assert decision.points.tobytes() == whole.points[rows].tobytes()
        assert own.tobytes() == z[rows].tobytes()


@given(seed=st.integers(0, 999), dimension=st.sampled_from([12, 37]))
def test_a_mixed_row_does_not_depend_on_its_batch(seed: int, dimension: int) -> None:
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((N, N)) < 0.3, rng.random((N, N)), 0.0)
    z = rng.standard_normal((N, dimension))
    whole = csr_array(dense) @ z

    for k in (1, 2, 33):
        rows = rng.permutation(N)[:k]
        assert (csr_array(dense[rows]) @ z).tobytes() == whole[rows].tobytes()


def test_a_step_is_that_of_the_paper() -> None:
    feasible, t = Box(12, -5, 5), 7
    host = algorithm(feasible, agents=3, constraints=2)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 12))
    f, g = 1e-4 * rng.standard_normal((3, 2)), 0.01 * rng.standard_normal((3, 2, 2))

    decision = host.decide(host.start(np.arange(3)), Mixed(x, x), t)
    z = host.update(host.start(np.arange(3)), decision, Values(f, g), t).z

    alpha, gamma, delta, next_xi = 1 / 7, 0.15 * 7, 0.01 / 7, 1 / 8
    for i in range(3):
        u = (decision.points[i, 1] - decision.points[i, 0]) / delta
        q = gamma * np.maximum(g[i, 0], 0.0)
        df = 12 / delta * (f[i, 1] - f[i, 0]) * u
        dg = 12 / delta * np.outer(u, g[i, 1] - g[i, 0])
        expected = np.clip(x[i] - alpha * (df + dg @ q), -5 * (1 - next_xi), 5 * (1 - next_xi))
        assert np.linalg.norm(u) == pytest.approx(1.0)
        assert z[i] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert np.mean(np.abs(z) < 5 * (1 - next_xi)) > 0.5  # the step was seen, not only the boundary


@given(seed=st.integers(0, 999), t=st.integers(1, 50))
@settings(max_examples=25, deadline=None)
def test_every_point_asked_about_lies_in_the_set(seed: int, t: int) -> None:
    for feasible in (Box(12, -5, 5), Ball(12, 5.0)):
        game = AlgorithmGame(N, 12, 1, None, seed, feasible)
        host = Zhang2024(game, make_schedule("theorem1", {"gamma0": 0.1}, game))
        rng = np.random.default_rng(seed)
        state = host.start(np.arange(N))
        for now in (t, t + 1):
            decision = host.decide(state, Mixed(state.z, state.z), now)
            assert np.all(feasible.contains(decision.points))
            state = host.update(state, decision, Values(rng.standard_normal((N, 2)), rng.random((N, 2, 1))), now)


def test_an_update_needs_of_a_decision_only_what_is_journalled() -> None:
    host, rows = algorithm(Box(12, -5, 5)), np.arange(N)
    rng = np.random.default_rng(0)
    seen = Values(rng.standard_normal((N, 2)), rng.standard_normal((N, 2, M)))
    decision = host.decide(host.start(rows), Mixed(rng.random((N, 12)), np.empty((0, 12))), 9)
    journalled = Decision(decision.x.copy(), decision.points.copy())
    adopter = algorithm(Box(12, -5, 5))

    rebuilt = adopter.update(adopter.start(rows), journalled, seen, 9)

    assert rebuilt.z.tobytes() == host.update(host.start(rows), decision, seen, 9).z.tobytes()


def test_the_game_begins_at_the_centre_and_gossips_z() -> None:
    host = algorithm(Box(12, -5, 5))
    state = host.start(np.array([4, 9]))

    assert np.array_equal(state.z, np.zeros((2, 12)))
    assert host.outgoing(State(state.agents, state.z + 1.0), 1).tolist() == np.ones((2, 12)).tolist()
    assert host.width == 12
