import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet_lab.specs.shipped import shipped
from slaternet_lab.verification.studies import _plan
from slaternet_lab.verification.theorems import Measured, TheoremVerdict, claims

T = np.array([256, 512, 1024, 2048, 4096])


def spec(theorem: int, **changes: object) -> Spec:
    return Spec.parse(shipped(f"theorem{theorem}").text, source="spec").replace(**changes)


def findings(theorem: int, *, regret: np.ndarray, violation: np.ndarray, **changes: object) -> list[TheoremVerdict]:
    measured = {
        "regret": Measured.from_values(T, np.tile(regret, (5, 1))),
        "violation": Measured.from_values(T, np.tile(violation, (5, 1))),
    }
    return [claim.finding(measured[claim.quantity]) for claim in claims(theorem, spec(theorem, **changes))]


def verdicts(found: list[TheoremVerdict]) -> list[str]:
    return [each.verdict for each in found]


@pytest.mark.parametrize(
    ("theorem", "c", "bounds"),
    [
        (1, 0.5, [("regret", 0.5), ("violation", 0.75)]),
        (1, 0.25, [("regret", 0.75), ("violation", 0.875)]),
        (2, 0.25, [("violation", 0.75)]),
        (3, 0.75, [("regret", 0.25), ("violation", 0.625), ("violation", 0.25)]),
    ],
)
def test_the_exponents_are_the_paper_s(theorem: int, c: float, bounds: list[tuple[str, float]]) -> None:
    said = [(claim.quantity, claim.power) for claim in claims(theorem, spec(theorem, **{"algorithm.c": c}))]

    assert said == bounds


def test_a_verdict_says_on_which_side_of_the_bound_the_whole_interval_lies() -> None:
    under, over = findings(1, regret=T**0.49, violation=T**0.7), findings(1, regret=T**0.51, violation=T**0.76)

    assert verdicts(under) == ["below T^0.5", "below T^0.75"]
    assert verdicts(over) == ["above T^0.5 so far", "above T^0.75 so far"]


def test_an_interval_that_holds_the_bound_decides_nothing() -> None:
    exponents = np.array([0.45, 0.48, 0.5, 0.52, 0.55])
    measured = Measured.from_values(T, T ** exponents[:, None])

    [regret, _] = claims(1, spec(1))

    assert regret.finding(measured).verdict == "undecided at T^0.5"


@pytest.mark.parametrize(
    ("exponent", "verdict"),
    [
        (0.45, "below T^0.5"),
        (0.62, "below T^0.75, above T^0.5 so far"),
        (0.76, "above T^0.75 so far"),
    ],
)
def test_slater_s_bound_is_told_apart_from_the_one_without_it(exponent: float, verdict: str) -> None:
    [finding] = findings(2, regret=T.astype(float), violation=T**exponent)

    assert finding.verdict == verdict
    assert finding.fit is not None
    assert finding.fit.exponent == pytest.approx(exponent)
    assert "without Slater's condition the bound is T^0.75" in finding.reason


def test_violation_that_stops_early_tests_nothing() -> None:
    early = 1.0 + 1e-5 * T

    [finding] = findings(2, regret=T**0.5, violation=early)

    assert finding.verdict == "not tested"
    assert "second half" in finding.reason


def test_growth_is_like_a_logarithm_where_that_fits_and_has_flattened() -> None:
    logarithm = 20 * np.log(T) - 30

    found = findings(4, regret=logarithm, violation=logarithm)
    steep = findings(4, regret=T**0.3, violation=T**0.3)

    assert verdicts(found) == ["like log T so far", "below T^0.5", "like log T so far"]
    assert verdicts(steep) == ["not like log T so far", "below T^0.5", "not like log T so far"]


def test_negative_regret_is_said_and_not_fitted() -> None:
    [regret, _] = findings(1, regret=-np.sqrt(T), violation=T**0.6)

    assert (regret.fit, regret.verdict) == (None, "not tested")
    assert regret.reason.startswith("it is negative")


def test_a_bound_s_growth_is_a_power_or_a_logarithm() -> None:
    regret, root, _ = findings(4, regret=T**0.1, violation=T**0.1)
    power, *_ = findings(1, regret=T**0.1, violation=T**0.1)

    assert np.allclose(regret.growth(T), np.log(T))
    assert np.allclose(root.growth(T), np.sqrt(T * np.log(T)))
    assert np.allclose(power.growth(T), np.sqrt(T))


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"algorithm.name": "yi2023"}, "algorithm.name must be zhang2024, which Theorem 4 is about, not yi2023;"),
        (
            {"algorithm.schedule": "theorem1"},
            "algorithm.schedule must be theorem4, which Theorem 4 is about, not theorem1;",
        ),
        ({"algorithm.mode": "local"}, "algorithm.mode must be gossip, which Theorem 4 is about, not local;"),
    ],
)
def test_a_theorem_says_nothing_of_another_algorithm_schedule_or_mode(change: dict[str, str], refusal: str) -> None:
    with pytest.raises(BadSpec) as refused:
        list(claims(4, spec(4, **change)))

    assert str(refused.value).startswith(refusal)


def test_rivals_play_on_the_functions_of_algorithm_1_also_where_their_seed_is_drawn() -> None:
    settings = ["run.rounds=64", "run.agents=6", "adversary.seed=random"]

    own, *rivals = _plan(2, "theorem2", 2, settings).contestants

    first, second = (spec.function_seed for spec in own.specs)
    assert (own.specs[0].sealed, second) == (True, first + 1)
    assert len(rivals) == 2
    for rival in rivals:
        assert [spec.function_seed for spec in rival.specs] == [first, second]
