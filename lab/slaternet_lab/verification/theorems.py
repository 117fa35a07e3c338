"""The growth with the horizon T that Theorems 1 to 4 claim, and when a claim counts as seen.

    theorem   regret               violation           violation under Slater's condition
    1         T^max(c, 1-c)        T^(1-c/2)
    2                                                  T^(1-c)
    3         T^(1-c)              T^(1-c/2)           T^(1-c)
    4         log T                sqrt(T log T)       log T

The theorems are upper bounds, and measurements can only agree or disagree with them. A bound T^e is seen if the whole
interval of the fitted exponent lies at or below e. Slater's bound is seen if the interval lies below 1 - c/2, the bound
without it, and only where agents still violate late in the game: otherwise its growth was not tested. A logarithm is
seen if a ln T + b fits better than a T^b and the last local exponent is below 0.2.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slaternet.errors import BadSpec
from slaternet.model import Array
from slaternet.spec import Spec
from slaternet_lab.verification.rates import Fit, Horizons, is_logarithmic, late_share, local_exponent, power_law

Verdict = Literal["seen", "not seen", "not tested"]
Quantity = Literal["regret", "violation"]

SCHEDULES = {1: "theorem1", 2: "theorem1", 3: "theorem1", 4: "theorem4"}
"""The schedule that each theorem is about."""
_LATE, _LATE_LOGARITHM = 0.10, 0.02
"""How much of the violation must fall in the second half of the rounds for its growth to be tested."""
_FLAT = 0.2
"""A logarithm's local exponent lies below it from T of a few hundred on."""


@dataclass(frozen=True)
class TheoremVerdict:
    """One line of the report: a theorem's claim about a quantity, the measurement, and the verdict."""

    theorem: int
    quantity: Quantity
    bound: str
    power: float
    logarithms: float
    """The bound is T^power (log T)^logarithms."""
    fit: Fit | None
    local: float
    """Exponent between the last two horizons."""
    late: float
    """Part of the value that fell in the second half of the rounds."""
    verdict: Verdict
    reason: str

    def growth(self, horizons: Horizons) -> Array:
        """Return the bound over the horizons, up to a factor."""
        grown: Array = np.power(horizons.astype(np.float64), self.power) * np.power(np.log(horizons), self.logarithms)
        return grown


@dataclass(frozen=True)
class Measured:
    """A quantity of one game: its values (seeds, h) at the horizons, fitted."""

    horizons: Horizons
    values: Array
    fit: Fit | None
    local: float
    late: float

    @classmethod
    def from_values(cls, horizons: Horizons, values: Array) -> "Measured":
        """Fit the values."""
        fit, local = power_law(horizons, values), local_exponent(horizons, values)
        return cls(horizons, values, fit, local, late_share(horizons, values))


Judge = Callable[[Fit, Measured], tuple[Verdict, str]]


@dataclass(frozen=True)
class Claim:
    """A theorem's claim about one quantity."""

    theorem: int
    quantity: Quantity
    bound: str
    power: float
    judge: Judge
    logarithms: float = 0.0
    late: float | None = None
    """How much of it must fall in the second half of the rounds for its growth to be tested."""

    def finding(self, measured: Measured) -> TheoremVerdict:
        """Compare the claim with what was measured."""
        verdict: Verdict = "not tested"
        last = measured.values[:, -1].mean()
        if measured.fit is None and last < 0.0:
            reason = "it is negative: the agents lose less than the best fixed feasible decision, as the bound allows"
        elif measured.fit is None:
            reason = "it is zero" if last == 0.0 else "its sign is not certain at every horizon"
        elif self.late is not None and measured.late < self.late:
            reason = f"only {measured.late:.1%} of the violation fell in the second half of the rounds"
        else:
            verdict, reason = self.judge(measured.fit, measured)
        claimed = (self.theorem, self.quantity, self.bound, self.power, self.logarithms)
        return TheoremVerdict(*claimed, measured.fit, measured.local, measured.late, verdict, reason)


def claims(theorem: int, spec: Spec) -> Iterator[Claim]:
    """Yield a theorem's claims about a game that is played with its schedule; BadSpec for another schedule."""
    if spec.algorithm.name != "zhang2024" or spec.algorithm.schedule != SCHEDULES[theorem]:
        raise BadSpec(
            f"Theorem {theorem} is about zhang2024 with algorithm.schedule = {SCHEDULES[theorem]}, not "
            f"{spec.algorithm.name} with {spec.algorithm.schedule}; correct [algorithm] of the spec"
        )
    if theorem == 4:
        yield Claim(4, "regret", "log T", 0.0, _logarithm, logarithms=1.0)
        yield Claim(4, "violation", "(T log T)^1/2", 0.5, _power(0.5), logarithms=0.5)
        yield Claim(4, "violation", "log T (Slater)", 0.0, _logarithm, logarithms=1.0, late=_LATE_LOGARITHM)
        return
    c = rate(spec)
    if theorem != 2:
        e = max(c, 1 - c) if theorem == 1 else 1 - c
        yield Claim(theorem, "regret", f"T^{e:g}", e, _power(e))
        yield Claim(theorem, "violation", f"T^{1 - c / 2:g}", 1 - c / 2, _power(1 - c / 2))
    if theorem != 1:
        yield Claim(theorem, "violation", f"T^{1 - c:g} (Slater)", 1 - c, _slater(c), late=_LATE)


def rate(spec: Spec) -> float:
    """Return c of the schedule `theorem1`."""
    c = spec.algorithm.numbers.get("c", 0.5)
    assert isinstance(c, int | float)  # the schedule was built from it
    return float(c)


def _power(bound: float) -> Judge:
    def judge(fit: Fit, measured: Measured) -> tuple[Verdict, str]:
        if fit.high <= bound:
            return "seen", f"the interval lies at or below {bound:g}"
        return "not seen", f"the interval reaches above {bound:g}"

    return judge


def _slater(c: float) -> Judge:
    without = f"{1 - c / 2:g}, the bound without Slater's condition"

    def judge(fit: Fit, measured: Measured) -> tuple[Verdict, str]:
        if fit.high < 1 - c / 2:
            return "seen", f"the interval lies below {without}"
        return "not seen", f"the interval reaches {without}"

    return judge


def _logarithm(fit: Fit, measured: Measured) -> tuple[Verdict, str]:
    if not is_logarithmic(measured.horizons, measured.values):
        return "not seen", "a T^b fits better than a ln T + b"
    if measured.local < _FLAT:
        return "seen", f"a ln T + b fits better than a T^b, and the last local exponent is below {_FLAT:g}"
    return "not seen", f"the last local exponent is {measured.local:.2f}, not below {_FLAT:g}"
