"""The growth with the horizon T that Theorems 1 to 4 claim, and what a measurement shows about it.

    theorem   regret               violation           violation under Slater's condition
    1         T^max(c, 1-c)        T^(1-c/2)
    2                                                  T^(1-c)
    3         T^(1-c)              T^(1-c/2)           T^(1-c)
    4         log T                sqrt(T log T)       log T

The theorems are upper bounds for T without end, and a measurement ends at some T. Therefore a verdict does not say that
a bound holds; it says where the interval of the fitted exponent lies so far: below a power of T, above it, or, where it
holds that power, undecided. Slater's bound stands beside 1 - c/2, the bound without it, and is tested only where agents
still violate late in the game. Growth is like a logarithm if a ln T + b fits better than a T^b and the last local
exponent is below 0.2.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slaternet.errors import BadSpec
from slaternet.model import Array
from slaternet.spec import AlgorithmSection, Spec
from slaternet_lab.verification.rates import Fit, Horizons, is_logarithmic, late_share, local_exponent, power_law

NOT_TESTED = "not tested"
"""The verdict where a game does not show what a claim is about."""
Quantity = Literal["regret", "violation"]

ALGORITHM = "zhang2024"
"""The paper's Algorithm 1; Theorems 1 to 4 say nothing of others."""
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
    verdict: str
    """What was shown, such as "below T^0.75, above T^0.5 so far"."""
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


Judge = Callable[[Fit, Measured], tuple[str, str]]
"""Returns the verdict and its reason."""


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
        verdict = NOT_TESTED
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
    """Yield a theorem's claims about a game; BadSpec where it says nothing of the game's algorithm."""
    check_algorithm(theorem, spec.algorithm)
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


def check_algorithm(theorem: int, section: AlgorithmSection) -> None:
    """Refuse another algorithm, schedule or mode than those that a theorem is about."""
    if section.name != ALGORITHM:
        raise BadSpec(
            f"algorithm.name must be {ALGORITHM}, which Theorem {theorem} is about, not {section.name}; correct it, or "
            "play the other with `slaternet compare`"
        )
    if section.schedule != SCHEDULES[theorem]:
        raise BadSpec(
            f"algorithm.schedule must be {SCHEDULES[theorem]}, which Theorem {theorem} is about, not "
            f"{section.schedule or 'the default'}; correct [algorithm] of the spec"
        )
    if section.mode not in (None, "gossip"):
        raise BadSpec(
            f"algorithm.mode must be gossip, which Theorem {theorem} is about, not {section.mode}; correct [algorithm] "
            "of the spec"
        )


def rate(spec: Spec) -> float:
    """Return c of the schedule `theorem1`."""
    c = spec.algorithm.numbers.get("c", 0.5)
    assert isinstance(c, int | float)  # the schedule was built from it
    return float(c)


def _power(bound: float) -> Judge:
    return lambda fit, _: (_place(fit, bound), "of where the interval lies")


def _slater(c: float) -> Judge:
    without = 1 - c / 2

    def judge(fit: Fit, _: Measured) -> tuple[str, str]:
        verdict = f"{_place(fit, without)}, {_place(fit, 1 - c)}"
        if fit.high < 1 - c or fit.low > without:  # beside both of them, and the nearer one says it all
            verdict = _place(fit, 1 - c if fit.high < 1 - c else without)
        return verdict, f"of where the interval lies; without Slater's condition the bound is T^{without:g}"

    return judge


def _place(fit: Fit, e: float) -> str:
    """Say where the interval of an exponent lies beside e."""
    if fit.high < e:
        return f"below T^{e:g}"
    return f"above T^{e:g} so far" if fit.low > e else f"undecided at T^{e:g}"


def _logarithm(fit: Fit, measured: Measured) -> tuple[str, str]:
    like, unlike = "like log T so far", "not like log T so far"
    if not is_logarithmic(measured.horizons, measured.values):
        return unlike, "a T^b fits better than a ln T + b"
    if measured.local < _FLAT:
        return like, f"a ln T + b fits better than a T^b, and the last local exponent is below {_FLAT:g}"
    return unlike, f"the last local exponent is {measured.local:.2f}, not below {_FLAT:g}"
