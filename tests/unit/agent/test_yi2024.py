import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests.support.agent_games import Mixed, game, made

from slaternet.errors import BadSpec
from slaternet.model import ValueAndGradient
from slaternet.numerics.sets import Box
from slaternet_agent.algorithms import Values
from slaternet_agent.algorithms.schedules import Step, make_schedule
from slaternet_agent.algorithms.yi2024 import Yi2024

BOX = Box(3, -1, 2)
PSI = {"square": 1.0, "half-square": 0.5}


@pytest.mark.parametrize("psi", PSI)
@given(seed=st.integers(0, 999))
@settings(max_examples=5, deadline=None)
def test_a_step_minimises_the_linear_model_plus_the_divergence(psi: str, seed: int) -> None:
    of, rng, t = game(BOX, 1), np.random.default_rng(seed), 4
    host = made("yi2024", of, psi=psi, gamma0=0.3)
    x = rng.uniform(-1, 2, (1, 3))
    df, g, dg = rng.standard_normal((1, 3)), rng.standard_normal((1, 2)), rng.standard_normal((1, 2, 3))
    state = host.start(np.arange(1))

    decision = host.decide(state, Mixed(x, x), t)
    nothing = np.empty((1, 0)), np.empty((1, 0, 2))
    z = host.update(state, decision, Values(*nothing, ValueAndGradient(np.zeros(1), df), ValueAndGradient(g, dg)), t).z

    w = df[0] + dg[0].T @ (0.3 * t / 2 * np.maximum(g[0], 0.0))
    model = minimize(
        lambda v: 2 / t * w @ v + PSI[psi] * np.sum((v - x[0]) ** 2), x[0], bounds=[(-1, 2)] * 3, tol=1e-14
    )
    assert z[0] == pytest.approx(model.x, abs=1e-5)


def test_schedules_are_those_of_the_sources() -> None:
    def step(name: str, t: int, **numbers: object) -> Step:
        return make_schedule(name, numbers, game(BOX, 2, rounds=None), Yi2024.schedules, Yi2024.sequences).step(t)

    table2, convex = step("table2", 4), step("convex", 16, c=0.25, gamma0=0.1, alpha0=3)
    strong = step("strongly-convex", 5, mu=0.5, gamma0=0.1)
    assert (table2.alpha, table2.gamma) == (0.5, 0.3)
    assert (convex.alpha, convex.gamma) == (1.5, 0.1 / 1.5)
    assert (strong.alpha, strong.gamma) == (0.4, 0.25)


@pytest.mark.parametrize("psi", ["entropy", 2, ["square"]])
def test_an_unknown_psi_is_refused_with_the_known_ones(psi: object) -> None:
    with pytest.raises(BadSpec, match=r'^algorithm\.psi must be "square" or "half-square", not '):
        made("yi2024", game(BOX, 2), psi=psi)
