from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet.numerics.sets import Box
from slaternet_adversary import CannotPlay, Game
from slaternet_adversary.builtin.economic_dispatch import EconomicDispatch

N, P, DAY = 12, 5, 96
AGENTS = np.arange(N)
QUIET: dict[str, Any] = {"swing": 0.0, "volatility": 0.0, "noise": 0.0, "renewable": 0.0, "roam": 0.0}


def adversary(agents: int = N, **options: Any) -> EconomicDispatch:
    return EconomicDispatch(Game(agents, P, 1, Box(P, 0, 1)), **options)


def at(x: float) -> np.ndarray:
    """Return all generators at one output, for every area."""
    return np.full((N, 1, P), x)


DEFAULT = adversary()


@given(t=st.integers(1, 5000))
@settings(max_examples=50, deadline=None)
def test_all_generators_at_one_level_leave_every_constraint_the_margin(t: int) -> None:
    g = DEFAULT.play(t).constraint(AGENTS, np.tile(DEFAULT.slater_point, (N, 1, 1)))

    assert DEFAULT.slater_point == pytest.approx(np.full(P, 0.4 + 0.03 + 0.05))
    assert g.max() <= -0.05 + 1e-12


@given(t=st.integers(1, 5000), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_costs_are_fuel_at_its_price(t: int, seed: int) -> None:
    x = np.random.default_rng(seed).uniform(0, 1, (N, 2, P))
    round = adversary(curvature=3.0, price=2.0, swing=0.1, volatility=0.2).play(t)

    prices = round.loss_gradient(AGENTS, at(0.0))[:, 0]
    standard = 2.0 * (0.5 + (np.arange(P) + 0.5) / P)

    assert (np.abs(prices / standard - 1.0) <= 0.1 + 0.2 + 1e-12).all()
    assert round.loss(AGENTS, x) == pytest.approx((prices[:, None] * x + 1.5 * x * x).sum(axis=-1))


def test_the_balance_is_demand_less_sun_and_wind_less_the_area_s_share_of_all_generators() -> None:
    quiet = adversary(**QUIET, demand=0.4)
    balance = [quiet.play(t).constraint(AGENTS, at(0.25))[:, 0, 0] for t in range(1, DAY + 1)]
    windy = [
        adversary(**(QUIET | {"renewable": 0.1}), demand=0.4).play(t).constraint(AGENTS, at(0.25))[:, 0, 0]
        for t in (1, DAY // 2)
    ]

    assert balance[18 * 4 - 1] == pytest.approx(np.full(N, 0.4 - 0.25))  # the peak, at six in the evening
    assert balance[3 * 4 - 1] == pytest.approx(np.full(N, 0.57 * 0.4 - 0.25))  # the least, at three at night
    assert np.array(balance).max() == pytest.approx(0.15)
    assert ((balance[0] - windy[0] >= 0.0) & (balance[0] - windy[0] <= 0.1 * 0.3 + 1e-12)).all()
    assert ((balance[47] - windy[1] >= 0.0) & (balance[47] - windy[1] <= 0.1 + 1e-12)).all()
    assert len(set(windy[1])) == N  # every area has its own weather


def test_an_area_has_shares_of_all_generators_that_sum_to_1() -> None:
    shares = -DEFAULT.play(1).constraint_gradient(AGENTS, at(0.0))[:, 0, 0]

    assert shares.sum(axis=1) == pytest.approx(np.ones(N))
    assert (shares.max(axis=1) <= 3.0 * shares.min(axis=1)).all()
    assert np.array_equal(shares, -DEFAULT.play(500).constraint_gradient(AGENTS, at(0.0))[:, 0, 0])


def test_the_generator_an_area_operates_stays_within_the_ramp_of_its_plan() -> None:
    played = adversary(ramp=0.3, roam=0.1)
    level = played.slater_point[0]
    up, down = played.play(DAY // 4).constraint(AGENTS, at(0.5))[:, 0, 1:].T

    # a quarter of a day: the plan of generator 0 is highest, the others' are j/p of a day behind
    behind = np.array([1.0, 0.2, -0.6, -0.6, 0.2])
    plan = (level + 0.1 * behind)[AGENTS % P]
    assert up == pytest.approx(0.5 - plan - 0.3)
    assert down == pytest.approx(plan - 0.3 - 0.5)


def test_plans_move_slowly_and_come_back_every_day() -> None:
    played = adversary(roam=0.1)
    plans = np.array([played.play(t).constraint(AGENTS, at(0.0))[:, 0, 1] for t in range(1, 2 * DAY)])

    assert np.abs(np.diff(plans, axis=0)).max() == pytest.approx(0.1 * 4 / DAY)
    assert plans[:50] == pytest.approx(plans[DAY : DAY + 50])


def test_an_area_keeps_its_functions_when_others_join() -> None:
    few, many = adversary().play(9), adversary(agents=30).play(9)

    assert many.loss(AGENTS, at(0.3)).tobytes() == few.loss(AGENTS, at(0.3)).tobytes()
    assert many.constraint(AGENTS, at(0.3)).tobytes() == few.constraint(AGENTS, at(0.3)).tobytes()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"day": 0}, "adversary.options.day must be above 0, not 0"),
        ({"price": 0}, "adversary.options.price must be above 0, not 0"),
        ({"curvature": -1}, "adversary.options.curvature must be above 0, not -1"),
        ({"renewable": -0.1}, "adversary.options.renewable must be at least 0, not -0.1"),
        ({"noise": "loud"}, "adversary.options.noise must be a finite number, not 'loud'"),
        ({"margin": 0}, "adversary.options.margin must be above 0, not 0"),
        (
            {"ramp": 0.12},
            "adversary.options.ramp must be at least roam + margin = 0.15, so that a generator can keep "
            "still, not 0.12",
        ),
        (
            {"demand": 1.0},
            "adversary.options.demand + noise + margin = 1.08 is an output of all generators that [set] does not hold; "
            "lower them or widen the set",
        ),
    ],
)
def test_a_wrong_option_is_named_with_its_remedy(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CannotPlay) as error:
        adversary(**options)

    assert str(error.value) == sentence
