import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet_lab.specs.shipped import shipped
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


def test_growth_at_the_bound_is_seen_and_above_it_is_not() -> None:
    at, above = findings(1, regret=T**0.4999, violation=T**0.7), findings(1, regret=T**0.51, violation=T**0.76)

    assert verdicts(at) == ["seen", "seen"]
    assert verdicts(above) == ["not seen", "not seen"]


def test_slater_s_bound_is_held_against_the_one_without_it() -> None:
    linear = T.astype(float)

    assert verdicts(findings(2, regret=linear, violation=T**0.7)) == ["seen"]
    assert verdicts(findings(2, regret=linear, violation=T**0.76)) == ["not seen"]


def test_violation_that_stops_early_tests_nothing() -> None:
    early = 1.0 + 1e-5 * T

    [finding] = findings(2, regret=T**0.5, violation=early)

    assert finding.verdict == "not tested"
    assert "second half" in finding.reason


def test_a_logarithm_is_seen_where_it_fits_and_has_flattened() -> None:
    logarithm = 20 * np.log(T) - 30

    found = findings(4, regret=logarithm, violation=logarithm)
    steep = findings(4, regret=T**0.3, violation=T**0.3)

    assert verdicts(found) == ["seen", "seen", "seen"]
    assert verdicts(steep) == ["not seen", "seen", "not seen"]


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


def test_a_theorem_says_nothing_of_another_schedule() -> None:
    with pytest.raises(BadSpec, match=r"^Theorem 4 is about zhang2024 with algorithm\.schedule = theorem4, not "):
        list(claims(4, spec(1)))
