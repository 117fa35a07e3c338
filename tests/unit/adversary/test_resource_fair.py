from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet.numerics.sets import Box
from slaternet_adversary import CannotPlay, Game, History
from slaternet_adversary.builtin.resource_fair import ResourceFair, usage

N, P = 12, 5
AGENTS = np.arange(N)


def adversary(lower: float = 0.0, **options: Any) -> ResourceFair:
    return ResourceFair(Game(N, P, 1, Box(P, lower, 1)), **options)


def at(x: float) -> np.ndarray:
    return np.full((N, 1, P), x)


def decisions(seed: int, rounds: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, 1, (rounds, N, P))


def prices(past: np.ndarray | None, t: int = 6, **options: Any) -> np.ndarray:
    """Return w: what the losses' slopes have beyond those of a game where resources are free."""
    history = None if past is None else History(past)
    dear, free = adversary(**options), adversary(**(options | {"price": 0.0}))
    gradients = [each.play(t, history).loss_gradient(AGENTS, at(0.0)) for each in (dear, free)]
    difference = gradients[0] - gradients[1]
    assert difference == pytest.approx(np.broadcast_to(difference[:1], difference.shape))  # the same for everyone
    return np.asarray(difference[0, 0])


@given(seed=st.integers(0, 999), rounds=st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_prices_follow_what_was_used_lately(seed: int, rounds: int) -> None:
    past = decisions(seed, rounds)
    used = past.sum(axis=(0, 1))

    w = prices(past, price=0.5, grudge=0.6)

    assert w == pytest.approx(0.5 * (0.4 + 0.6 * P * used / used.sum()))
    assert w.mean() == pytest.approx(0.5)
    assert np.argmax(w) == np.argmax(used)


@pytest.mark.parametrize("past", [None, np.empty((0, N, P)), np.zeros((3, N, P)), np.full((2, N, P), np.nan)])
def test_prices_are_equal_where_nothing_was_used(past: np.ndarray | None) -> None:
    assert prices(past, price=0.5) == pytest.approx(np.full(P, 0.5))


def test_agents_that_have_left_count_no_more() -> None:
    past = decisions(1)
    alone = past[:, 3:]
    past[2:, :3] = np.nan
    past[:2, :3] = np.nan

    assert usage(past).tolist() == pytest.approx(usage(alone).tolist())


def test_using_a_resource_makes_it_dearer_at_once_and_for_as_long_as_it_is_remembered() -> None:
    game = adversary(memory=3)
    assert game.history == 3

    spent = np.full((3, N, P), 0.5)
    spent[-1, :, 2] = 1.0
    after = [prices(np.concatenate((spent, np.full((k, N, P), 0.5)))[-3:], memory=3) for k in range(4)]

    assert [int(np.argmax(w)) for w in after[:3]] == [2, 2, 2]
    assert after[3] == pytest.approx(np.full(P, 0.4))


@given(t=st.integers(1, 3000), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_losses_are_prices_and_the_distance_to_what_is_wanted(t: int, seed: int) -> None:
    past, x = decisions(seed), np.random.default_rng(seed).uniform(0, 1, (N, 2, P))
    round = adversary(want=0.6, noise=0.3).play(t, History(past))

    w = prices(past, want=0.6, noise=0.3)
    wanted = w - round.loss_gradient(AGENTS, at(0.0))[:, 0]

    assert round.loss(AGENTS, x) == pytest.approx((w * x + 0.5 * (x - wanted[:, None]) ** 2).sum(axis=-1))
    assert wanted.min() >= 0.6 * 0.5 * 0.5 - 0.3
    assert wanted.max() <= 0.6 * 1.5 * 1.5 + 0.3


@given(t=st.integers(1, 3000), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_constraints_are_a_budget_and_a_fair_share(t: int, seed: int) -> None:
    x = np.random.default_rng(seed).uniform(0, 1, (N, 1, P))
    g = adversary(budget=2.0, spread=0.5, fair=1.2, slack=0.1).play(t).constraint(AGENTS, x)[:, 0]

    total, own = x[:, 0].sum(axis=-1), x[AGENTS, 0, AGENTS % P]
    assert g[:, 1] == pytest.approx(own - 1.2 * total / P - 0.1)
    assert (g[:, 0] <= total - 2.0 + 1e-12).all()
    assert (g[:, 0] >= total - 3.0 - 1e-12).all()


@given(t=st.integers(1, 3000))
@settings(max_examples=25, deadline=None)
def test_using_nothing_leaves_every_constraint_the_smaller_of_budget_and_slack(t: int) -> None:
    played = adversary(budget=0.2, slack=0.3)
    g = played.play(t).constraint(AGENTS, np.tile(played.slater_point, (N, 1, 1)))

    assert g.max() <= -0.2


def test_the_same_decisions_give_the_same_bits_however_they_lie_in_memory() -> None:
    past = decisions(7)

    assert usage(np.asfortranarray(past)).tobytes() == usage(past).tobytes()
    assert usage(np.concatenate((past, past))[5:]).tobytes() == usage(past).tobytes()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"memory": 0}, "adversary.options.memory must be above 0, not 0"),
        ({"grudge": 1}, "adversary.options.grudge must be at least 0 and below 1, not 1"),
        ({"price": -1}, "adversary.options.price must be at least 0, not -1"),
        ({"slack": 0}, "adversary.options.slack must be above 0, not 0"),
        ({"fair": "very"}, "adversary.options.fair must be a finite number, not 'very'"),
        ({"lower": 0.1}, "adversary.plugin = resource-fair needs a [set] that holds 0, where nothing is used"),
    ],
)
def test_a_wrong_option_is_named_with_its_remedy(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CannotPlay) as error:
        adversary(**options)

    assert str(error.value) == sentence
