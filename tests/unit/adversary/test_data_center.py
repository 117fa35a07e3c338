from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet.numerics.sets import Simplex
from slaternet_adversary import CannotPlay, Game
from slaternet_adversary.builtin.data_center import DataCenter

N, P, DAY = 12, 5, 96
AGENTS = np.arange(N)
QUIET: dict[str, Any] = {"swing": 0.0, "volatility": 0.0, "noise": 0.0, "distance": 0.0, "repair": 0.0}


def adversary(agents: int = N, size: float = 2.0, **options: Any) -> DataCenter:
    return DataCenter(Game(agents, P, 1, Simplex(P, size)), **options)


def at(x: float) -> np.ndarray:
    """Return the same load on all sites, for every front-end."""
    return np.full((N, 1, P), x)


DEFAULT = adversary()


@given(t=st.integers(1, 5000))
@settings(max_examples=50, deadline=None)
def test_equal_loads_leave_every_constraint_the_margin(t: int) -> None:
    g = DEFAULT.play(t).constraint(AGENTS, np.tile(DEFAULT.slater_point, (N, 1, 1)))

    assert DEFAULT.margin == pytest.approx((2.4 * 0.7 - 1.05) / 2 / P)
    assert g.max() <= -DEFAULT.margin + 1e-12
    assert g[..., 0].max() <= -P * DEFAULT.margin + 1e-12  # all sites together leave the traffic more


@given(t=st.integers(1, 5000), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_costs_are_power_and_distance_and_a_congestion_that_grows_with_the_load(t: int, seed: int) -> None:
    x = np.random.default_rng(seed).uniform(0, 0.4, (N, 2, P))
    round = adversary(congestion=3.0, price=2.0, swing=0.1, volatility=0.2, distance=0.5).play(t)

    prices = round.loss_gradient(AGENTS, at(0.0))[:, 0]
    standard = 2.0 * (0.5 + (np.arange(P) + 0.5) / P)

    assert (prices >= standard * (1.0 - 0.3) - 1e-12).all()
    assert (prices <= standard * (1.0 + 0.3) + 0.5 + 1e-12).all()
    assert round.loss(AGENTS, x) == pytest.approx((prices[:, None] * x + 1.5 * x * x).sum(axis=-1))


def test_how_far_a_site_is_stays_the_same_and_differs_between_front_ends() -> None:
    far = adversary(**(QUIET | {"distance": 0.5}))
    first, later = (far.play(t).loss_gradient(AGENTS, at(0.0)) for t in (1, 777))
    near = adversary(**QUIET).play(1).loss_gradient(AGENTS, at(0.0))

    assert np.array_equal(first, later)
    assert ((first - near >= 0.0) & (first - near <= 0.5 + 1e-12)).all()
    assert len(np.unique(first)) == N * P


def test_power_is_dearest_in_the_evening_of_each_site() -> None:
    played = adversary(**(QUIET | {"swing": 0.5}))
    prices = np.array([played.play(t).loss_gradient(AGENTS[:1], at(0.0)[:1])[0, 0] for t in range(1, DAY + 1)])
    markets = prices / prices.mean(axis=0)

    evening = 18.5 / 24 * DAY + np.arange(P) * DAY / P
    for site in range(P):
        assert markets[round(evening[site]) % DAY - 1, site] == pytest.approx(markets[:, site].max(), rel=0.02)


def test_traffic_is_served_round_the_clock() -> None:
    played = adversary(**QUIET, traffic=0.8)
    arrivals = np.array([played.play(t).constraint(AGENTS, at(0.1))[:, 0, 0] for t in range(1, DAY + 1)]) + 0.1 * P

    assert arrivals.max() == pytest.approx(0.8)
    assert arrivals.min() == pytest.approx(0.8 * 0.33)
    # front-end i has the traffic that front-end 0 had i/n of a day before
    assert arrivals[DAY // N :, 1] == pytest.approx(arrivals[: -DAY // N, 0])


def test_the_capacity_of_a_site_is_the_same_for_all_who_watch_it_and_changes() -> None:
    played = adversary(repair=0.4, capacity=3.0)
    room = np.array([-played.play(t).constraint(AGENTS, at(0.1))[:, 0, 1] for t in range(1, 200)]) + 0.1

    assert room[:, :P] == pytest.approx(room[:, P : 2 * P])
    assert 3.0 / P * 0.6 <= room.min() < 3.0 / P * 0.62
    assert 3.0 / P * 0.98 < room.max() <= 3.0 / P


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"day": 1.5}, "adversary.options.day must be a whole number, not 1.5"),
        ({"congestion": 0}, "adversary.options.congestion must be above 0, not 0"),
        ({"distance": -1}, "adversary.options.distance must be at least 0, not -1"),
        ({"repair": 1.0}, "adversary.options.repair must be at least 0 and below 1, not 1.0"),
        ({"traffic": True}, "adversary.options.traffic must be a finite number, not True"),
        (
            {"capacity": 1.4},
            "adversary.options.capacity must be above (traffic + noise) / (1 - repair) = 1.5, so that all traffic can "
            "be served, not 1.4",
        ),
        (
            {"size": 1.0},
            "adversary.options.traffic, noise and capacity put a load of 0.273 on every site, which [set] does not "
            "hold; lower them or widen the set",
        ),
    ],
)
def test_a_wrong_option_is_named_with_its_remedy(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CannotPlay) as error:
        adversary(**options)

    assert str(error.value) == sentence
