import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.errors import BadSpec
from slaternet.sets import Box
from slaternet_agent.schedules import Step, findings, make_schedule, numbers_of

BOX = Box(10, -5, 5)
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


def test_table_two_has_the_numbers_of_the_paper() -> None:
    assert make_schedule("table2", {}, BOX, None).step(4) == Step(0.25, 0.6, 0.25, 0.0025, 0.2)


def test_theorem_one_follows_its_powers() -> None:
    step = make_schedule("theorem1", {"gamma0": 0.3, "c": 0.5}, BOX, None).step(4)

    assert step == Step(0.5, 0.6, 0.5, 2.5, 1 / math.sqrt(5))


def test_theorem_four_never_shrinks_the_set_by_more_than_all_of_it() -> None:
    schedule = make_schedule("theorem4", {"mu": 0.1, "gamma0": 0.3}, BOX, None)

    assert schedule.step(1) == Step(10.0, 0.03, 1.0, 5.0, 1.0)
    assert schedule.step(20) == Step(0.5, 0.6, 0.5, 2.5, 1 / (0.1 * 21))


def test_explicit_sequences_are_constants_or_powers() -> None:
    numbers: dict[str, object] = {"alpha": [3, -1], "gamma": 7, "xi": [2, -0.5], "delta": [0.5, -2]}
    schedule = make_schedule("explicit", numbers, BOX, None)

    assert schedule.step(1) == Step(3.0, 7.0, 1.0, 0.5, 1.0)
    assert schedule.step(16) == Step(3 / 16, 7.0, 0.5, 0.5 / 256, schedule.step(17).xi)
    assert schedule.step(17).xi == pytest.approx(2 / math.sqrt(17), rel=1e-15)


@pytest.mark.parametrize(("name", "numbers"), VALID)
@given(t=st.integers(1, 10_000), t0=st.integers(0, 500))
def test_an_offset_moves_every_sequence_in_time(name: str, numbers: dict[str, object], t: int, t0: int) -> None:
    paper = make_schedule(name, {**numbers, "t0": 0}, BOX, None)
    moved = make_schedule(name, {**numbers, "t0": t0}, BOX, None)

    assert moved.step(t) == paper.step(t + t0)


@pytest.mark.parametrize(("name", "numbers"), VALID)
@given(t=st.integers(1, 1_000_000))
def test_what_has_no_findings_keeps_points_inside(name: str, numbers: dict[str, object], t: int) -> None:
    schedule = make_schedule(name, numbers, BOX, None)
    step = schedule.step(t)

    assert findings(schedule, BOX, 1000) == []
    assert 0.0 < step.xi <= 1.0
    assert 0.0 < step.delta <= BOX.inner * step.xi * (1 + 1e-12)
    assert step.next_xi == schedule.step(t + 1).xi


def test_a_radius_that_leaves_the_set_is_an_error_that_names_its_key() -> None:
    table2 = make_schedule("table2", {"delta0": 6}, BOX, None)
    explicit = make_schedule("explicit", {"alpha": 1, "gamma": 1, "xi": [1, -1], "delta": 0.5}, BOX, None)

    assert findings(table2, BOX, None) == [
        (
            "error",
            "algorithm.delta0 gives delta = 6 in round 1, above r(X) xi = 5, so points would leave the set; lower it",
        )
    ]
    [(severity, sentence)] = findings(explicit, BOX, 1000)
    assert severity == "error"
    assert sentence.startswith("algorithm.delta gives delta = 0.5 in round 11, above r(X) xi = 0.45")


def test_a_breach_at_the_far_end_is_found() -> None:
    numbers: dict[str, object] = {"alpha": 1, "gamma": 1, "xi": [1, -1], "delta": 5e-3}

    assert findings(make_schedule("explicit", numbers, BOX, 1000), BOX, 1000) == []
    assert findings(make_schedule("explicit", numbers, BOX, 1100), BOX, 1100)[0][0] == "error"


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

    [(severity, found)] = findings(make_schedule("explicit", numbers, BOX, None), BOX, 1000)

    assert severity == "warning"
    assert found == f"{sentence}; the bounds of Theorems 1 to 4 do not hold"


@pytest.mark.parametrize(
    ("name", "numbers", "sentence"),
    [
        ("table3", {}, 'algorithm.schedule = "table3" is not known; did you mean table2?'),
        ("table2", {"gama0": 1}, "algorithm.gama0 is not a number of schedule table2; did you mean gamma0?"),
        ("table2", {"gamma0": -1}, "algorithm.gamma0 must be above 0, not -1"),
        ("table2", {"t0": -1}, "algorithm.t0 must be at least 0, not -1"),
        ("table2", {"t0": "x"}, "algorithm.t0 must be a finite number, not 'x'"),
        ("theorem1", {}, "algorithm.gamma0 is missing; schedule theorem1 needs it"),
        ("theorem1", {"gamma0": 1, "c": 1}, "algorithm.c must lie between 0 and 1, not 1"),
        ("theorem4", {"gamma0": 1}, "algorithm.mu is missing; schedule theorem4 needs it"),
        (
            "explicit",
            {"alpha": [1], "gamma": 1, "xi": 1, "delta": 1},
            "algorithm.alpha must be a number or [coefficient, exponent], not [1]",
        ),
    ],
)
def test_a_wrong_schedule_is_named_with_its_remedy(name: str, numbers: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadSpec) as error:
        make_schedule(name, numbers, BOX, None)

    assert str(error.value) == sentence


def test_the_numbers_of_a_schedule_are_known_before_it_is_made() -> None:
    assert set(numbers_of("theorem1")) == {"c", "gamma0", "alpha0", "t0"}
    assert set(numbers_of("explicit")) == {"alpha", "gamma", "xi", "delta", "t0"}
