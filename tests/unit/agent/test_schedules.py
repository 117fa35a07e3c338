import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.errors import BadSpec
from slaternet.numerics.sets import Box
from slaternet_agent.algorithms.game import AlgorithmGame
from slaternet_agent.algorithms.schedules import (
    STANDARD,
    Rule,
    Step,
    breaches,
    growths,
    horizon,
    make_schedule,
    numbers_of,
    rule_names,
)

BOX = Box(10, -5, 5)
GAME = AlgorithmGame(agents=4, dimension=10, constraints=2, rounds=None, seed=1, set=BOX)
VALID: list[tuple[str, dict[str, object]]] = [
    ("table2", {}),
    ("table2", {"t0": 50, "gamma0": 0.3, "delta0": 0.1}),
    ("theorem1", {"gamma0": 0.1}),
    ("theorem1", {"gamma0": 0.015, "c": 0.75, "alpha0": 0.1, "t0": 3}),
    ("theorem4", {"mu": 0.1, "gamma0": 0.1}),
    ("theorem4", {"mu": 4.0, "gamma0": 0.1}),
    ("explicit", {"alpha": [1, -0.5], "gamma": [0.1, 0.5], "xi": [2, -0.5], "delta": [1, -0.5]}),
    ("explicit", {"alpha": 0.01, "gamma": 2, "xi": 0.5, "delta": 0.01}),
]


def five(step: Step) -> tuple[float, ...]:
    """Return what Algorithm 1 uses; the rest is NaN, which equals nothing."""
    return step.alpha, step.gamma, step.xi, step.delta, step.next_xi


def test_table_two_has_the_numbers_of_the_paper() -> None:
    assert five(make_schedule("table2", {}, GAME).step(4)) == (0.25, 0.6, 0.25, 0.0025, 0.2)


def test_theorem_one_follows_its_powers() -> None:
    step = make_schedule("theorem1", {"gamma0": 0.3, "c": 0.5}, GAME).step(4)

    assert five(step) == (0.5, 0.6, 0.5, 2.5, 1 / math.sqrt(5))


def test_theorem_four_never_shrinks_the_set_by_more_than_all_of_it() -> None:
    schedule = make_schedule("theorem4", {"mu": 0.1, "gamma0": 0.3}, GAME)

    assert five(schedule.step(1)) == (10.0, 0.03, 1.0, 5.0, 1.0)
    assert five(schedule.step(20)) == (0.5, 0.6, 0.5, 2.5, 1 / (0.1 * 21))


def test_explicit_sequences_are_constants_or_powers() -> None:
    numbers: dict[str, object] = {"alpha": [3, -1], "gamma": 7, "xi": [2, -0.5], "delta": [0.5, -2]}
    schedule = make_schedule("explicit", numbers, GAME)

    assert five(schedule.step(1)) == (3.0, 7.0, 1.0, 0.5, 1.0)
    assert five(schedule.step(16)) == (3 / 16, 7.0, 0.5, 0.5 / 256, schedule.step(17).xi)
    assert schedule.step(17).xi == pytest.approx(2 / math.sqrt(17), rel=1e-15)


@pytest.mark.parametrize(("name", "numbers"), VALID)
@given(t=st.integers(1, 10_000), t0=st.integers(0, 500))
def test_an_offset_moves_every_sequence_in_time(name: str, numbers: dict[str, object], t: int, t0: int) -> None:
    paper = make_schedule(name, {**numbers, "t0": 0}, GAME)
    moved = make_schedule(name, {**numbers, "t0": t0}, GAME)

    assert five(moved.step(t)) == five(paper.step(t + t0))


@pytest.mark.parametrize(("name", "numbers"), VALID)
@given(t=st.integers(1, 1_000_000))
def test_what_breaches_nothing_keeps_points_inside(name: str, numbers: dict[str, object], t: int) -> None:
    schedule = make_schedule(name, numbers, GAME)
    step = schedule.step(t)

    assert breaches(schedule, BOX, 1000) == []
    assert growths(schedule, 1000) == []
    assert 0.0 < step.xi <= 1.0
    assert 0.0 < step.delta <= BOX.inner * step.xi * (1 + 1e-12)
    assert step.next_xi == schedule.step(t + 1).xi


def test_a_radius_that_leaves_the_set_is_an_error_that_names_its_key() -> None:
    table2 = make_schedule("table2", {"delta0": 6}, GAME)
    explicit = make_schedule("explicit", {"alpha": 1, "gamma": 1, "xi": [1, -1], "delta": 0.5}, GAME)

    assert breaches(table2, BOX, None) == [
        "algorithm.delta0 gives delta = 6 in round 1, above r(X) xi = 5, so points would leave the set; lower it"
    ]
    [sentence] = breaches(explicit, BOX, 1000)
    assert sentence.startswith("algorithm.delta gives delta = 0.5 in round 11, above r(X) xi = 0.45")


def test_a_breach_at_the_far_end_is_found() -> None:
    numbers: dict[str, object] = {"alpha": 1, "gamma": 1, "xi": [1, -1], "delta": 5e-3}

    assert breaches(make_schedule("explicit", numbers, GAME), BOX, 1000) == []
    assert len(breaches(make_schedule("explicit", numbers, GAME), BOX, 1100)) == 1


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("alpha", [1, 0.5], "algorithm.schedule lets alpha grow after round 1"),
        ("gamma", [1, -0.5], "algorithm.schedule lets gamma fall after round 1"),
        ("delta", [0.01, 0.1], "algorithm.schedule lets delta grow after round 1"),
        ("xi", [0.01, 0.1], "algorithm.schedule lets xi grow after round 1"),
    ],
)
def test_a_sequence_that_runs_the_wrong_way_is_a_warning_that_names_the_theorems(
    name: str, value: object, sentence: str
) -> None:
    numbers = {"alpha": 1, "gamma": 1, "xi": 0.5, "delta": 0.01} | {name: value}

    [found] = growths(make_schedule("explicit", numbers, GAME), 1000)

    assert found == f"{sentence}; the bounds of Theorems 1 to 4 do not hold"


@pytest.mark.parametrize(
    ("name", "numbers", "sentence"),
    [
        ("table3", {}, 'algorithm.schedule = "table3" is not known; did you mean table2?'),
        ("table2", {"gama0": 1}, "algorithm.gama0 is not an option of schedule table2; did you mean gamma0?"),
        ("table2", {"gamma0": -1}, "algorithm.gamma0 must be above 0, not -1"),
        ("table2", {"t0": -1}, "algorithm.t0 must be at least 0, not -1"),
        ("table2", {"t0": "x"}, "algorithm.t0 must be a finite number, not 'x'"),
        ("theorem1", {}, "algorithm.gamma0 is missing; schedule theorem1 needs it"),
        ("theorem1", {"gamma0": 1, "c": 1}, "algorithm.c must be between 0 and 1, not 1"),
        ("theorem4", {"gamma0": 1}, "algorithm.mu is missing; schedule theorem4 needs it"),
        (
            "explicit",
            {"alpha": [0, 1], "gamma": 1, "xi": 1, "delta": 1},
            "algorithm.alpha[0] must be above 0, not 0.0",
        ),
        (
            "explicit",
            {"alpha": [1, "x"], "gamma": 1, "xi": 1, "delta": 1},
            "algorithm.alpha[1] must be a finite number, not 'x'",
        ),
        (
            "explicit",
            {"alpha": [1], "gamma": 1, "xi": 1, "delta": 1},
            "algorithm.alpha must be a number above 0 or [coefficient, exponent], not [1]",
        ),
    ],
)
def test_a_wrong_schedule_is_named_with_its_remedy(name: str, numbers: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadSpec) as error:
        make_schedule(name, numbers, GAME)

    assert str(error.value) == sentence


def test_the_numbers_of_a_schedule_are_known_before_it_is_made() -> None:
    assert set(numbers_of("theorem1").parameters) == {"c", "gamma0", "alpha0", "t0"}
    assert set(numbers_of("explicit").parameters) == {"alpha", "gamma", "xi", "delta", "t0"}


def test_a_schedule_that_is_left_out_is_the_first_one_named() -> None:
    assert rule_names() == ("table2", "theorem1", "theorem4", "explicit")
    assert rule_names({"mine": STANDARD["theorem1"]}) == ("mine", "explicit")


def constant(game: AlgorithmGame, *, size: object = 2.0) -> Rule:
    step = Step(alpha=1.0 / horizon(game), beta=float(str(size)))
    return lambda s: step


def test_an_algorithm_brings_its_own_rules_and_sequences() -> None:
    rules, game = {"constant": constant}, dataclasses.replace(GAME, rounds=10)
    schedule = make_schedule("constant", {"size": 3.0}, game, rules, ("alpha", "beta"))

    assert (schedule.step(7).alpha, schedule.step(7).beta) == (0.1, 3.0)
    assert math.isnan(schedule.step(7).gamma)
    assert breaches(schedule, BOX, 10) == []
    assert set(numbers_of("explicit", rules, ("alpha", "beta")).parameters) == {"alpha", "beta", "t0"}
    assert set(numbers_of("constant", rules).parameters) == {"size", "t0"}


def test_a_sequence_that_is_not_set_is_a_breach_of_whoever_uses_it() -> None:
    game = dataclasses.replace(GAME, rounds=10)
    schedule = make_schedule("constant", {}, game, {"constant": constant}, ("alpha", "gamma"))

    assert breaches(schedule, BOX, 10) == [
        "algorithm.schedule gives gamma = nan in round 1; choose numbers that keep it positive"
    ]


def test_a_rule_that_needs_the_horizon_is_refused_without_one() -> None:
    with pytest.raises(BadSpec, match=r"^run\.rounds is missing; this algorithm\.schedule needs the horizon$"):
        make_schedule("constant", {}, GAME, {"constant": constant})
