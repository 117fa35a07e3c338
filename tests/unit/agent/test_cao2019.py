import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet.numerics.sets import Box
from slaternet_agent.algorithms.agarwal2010 import Agarwal2010
from slaternet_agent.algorithms.base import AlgorithmGame, Values
from slaternet_agent.algorithms.cao2019 import SCHEDULES, Cao2019, Cao2019State
from slaternet_agent.algorithms.schedules import make_schedule
from slaternet_agent.testing.arena import ExamGossip

NOTHING = ExamGossip(np.empty((3, 0)), np.empty((3, 0)))
EXPLICIT = {"alpha": [0.3, -0.5], "beta": 0.2, "gamma": [0.5, -0.5], "xi": [0.5, -0.5], "delta": [0.1, -0.5]}


def game(rounds: int | None = 100) -> AlgorithmGame:
    return AlgorithmGame(3, 12, 2, rounds, 1, Box(12, -5, 5))


def explicit() -> Cao2019:
    return Cao2019(game(), make_schedule("explicit", EXPLICIT, game(), SCHEDULES, Cao2019.sequences))


def test_a_step_is_that_of_the_paper() -> None:
    host, t, rng = explicit(), 7, np.random.default_rng(0)
    state = Cao2019State(np.arange(3), rng.standard_normal((3, 12)), rng.random((3, 2)))
    f, g = 0.01 * rng.standard_normal((3, 2)), 0.01 * rng.standard_normal((3, 2, 2))
    decision = host.decide(state, NOTHING, t)

    after = host.update(state, decision, Values(f, g), t)

    alpha, gamma, delta, limit = 0.3 * t**-0.5, 0.5 * t**-0.5, 0.1 * t**-0.5, 5 * (1 - 0.5 * (t + 1) ** -0.5)
    for i in range(3):
        u = (decision.points[i, 0] - decision.points[i, 1]) / (2 * delta)
        df = 12 / (2 * delta) * (f[i, 0] - f[i, 1]) * u
        dg = 12 / (2 * delta) * np.outer(u, g[i, 0] - g[i, 1])
        assert after.x[i] == pytest.approx(np.clip(state.x[i] - alpha * (df + dg @ state.lam[i]), -limit, limit))
        risen = (1 - 0.2 * gamma) * state.lam[i] + gamma * g[i].mean(axis=0)
        assert after.lam[i] == pytest.approx(np.maximum(risen, 0.0))
    assert np.abs(after.x).max() < limit  # the step was seen, not only the boundary


def test_the_dual_remembers_and_good_rounds_make_up_for_bad_ones() -> None:
    host, state = explicit(), explicit().start(np.arange(3))

    def after(state: Cao2019State, value: float, t: int) -> Cao2019State:
        seen = Values(np.zeros((3, 2)), np.full((3, 2, 2), value))
        return host.update(state, host.decide(state, NOTHING, t), seen, t)

    bad = after(state, 1.0, 1)
    assert np.all(after(bad, 0.0, 2).lam > 0.0)
    assert np.all(after(bad, -9.0, 2).lam == 0.0)


def test_while_no_constraint_binds_it_is_agarwal_s_algorithm() -> None:
    rng, agents = np.random.default_rng(0), np.arange(3)
    steps = {name: EXPLICIT[name] for name in Agarwal2010.sequences}
    host, other = explicit(), Agarwal2010(game(), make_schedule("explicit", steps, game(), {}, Agarwal2010.sequences))
    mine, yours = host.start(agents), other.start(agents)
    for t in range(1, 20):
        seen = Values(0.01 * rng.standard_normal((3, 2)), -rng.random((3, 2, 2)))
        mine = host.update(mine, host.decide(mine, NOTHING, t), seen, t)
        yours = other.update(yours, other.decide(yours, NOTHING, t), seen, t)
        assert mine.x.tobytes() == yours.x.tobytes()


def test_the_schedules_are_a_known_horizon_and_none() -> None:
    fixed = make_schedule("convex", {"gradient_bound": 0.05}, game(100), SCHEDULES, Cao2019.sequences)
    free = make_schedule("anytime", {"gradient_bound": 0.05}, game(None), SCHEDULES, Cao2019.sequences)

    for step, eta, xi in ((fixed.step(3), 0.1, 0.1), (free.step(25), 0.2, 26**-0.5)):
        assert (step.alpha, step.gamma) == pytest.approx((eta, eta))
        assert (step.xi, step.delta) == pytest.approx((xi, 5 * xi))
        assert step.beta == pytest.approx(2 * 144 * 0.05**2 * eta)
    assert list(SCHEDULES) == ["convex", "anytime"]
    with pytest.raises(BadSpec, match=r"^run\.rounds is missing; "):
        make_schedule("convex", {}, game(None), SCHEDULES, Cao2019.sequences)


def test_the_dual_never_turns_over_however_large_the_gradients() -> None:
    step = make_schedule("convex", {"gradient_bound": 1e3}, game(), SCHEDULES, Cao2019.sequences).step(1)

    assert step.beta * step.gamma == pytest.approx(1.0)
