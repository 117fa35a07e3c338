"""Step sizes over time: what the theorems prescribe, what Table II uses, or a user's own.

    alpha_t   primal step          gamma_t   dual step
    xi_t      shrinkage of X       delta_t   exploration radius, at most r(X) xi_t

Every sequence is a function of s = t + t0. t0 = 0 is the paper; an offset keeps the rates and spares the transient of
the first rounds, where alpha_1 = 1 throws the agents to the border of X, which does most of the damage. Powers come
from `slaternet.powers`, so that every machine takes the same steps.
"""

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from slaternet.errors import BadSpec
from slaternet.powers import power
from slaternet.sets import FeasibleSet
from slaternet.words import suggestion

_ROUNDING = 1e-12
_HORIZON = 1 << 20  # rounds looked at where a game has no end


@dataclass(frozen=True, slots=True)
class Step:
    """The numbers of one round, and the shrinkage of the next."""

    alpha: float
    gamma: float
    xi: float
    delta: float
    next_xi: float


class Schedule(Protocol):
    """The numbers of every round."""

    @property
    def needs_horizon(self) -> bool:
        """Whether the number of rounds must be known in advance."""

    @property
    def radius_key(self) -> str:
        """The key of `[algorithm]` that sets delta."""

    def step(self, t: int) -> Step:
        """Return the numbers of round t = 1, 2, 3, ..."""


@dataclass(frozen=True, slots=True)
class _At:
    """alpha, gamma, xi and delta at one s."""

    alpha: float
    gamma: float
    xi: float
    delta: float


_Sequences = Callable[[float], _At]


class Sequences:
    """A schedule given by its sequences as functions of s = t + t0."""

    needs_horizon = False

    def __init__(self, at: _Sequences, t0: float, radius_key: str) -> None:
        self._at = at
        self._t0 = t0
        self._cached = functools.lru_cache(maxsize=256)(self._step)
        self.radius_key = radius_key

    def step(self, t: int) -> Step:
        """Return the numbers of round t."""
        return self._cached(t)

    def _step(self, t: int) -> Step:
        now, later = self._at(t + self._t0), self._at(t + 1 + self._t0)
        return Step(now.alpha, now.gamma, now.xi, now.delta, later.xi)


def _table2(inner: float, *, gamma0: object = 0.15, delta0: object = 0.01) -> _Sequences:
    """Table II: alpha = 1/s, gamma = gamma0 s, xi = 1/s, delta = delta0/s."""
    gamma, delta = _positive("gamma0", gamma0), _positive("delta0", delta0)
    return lambda s: _At(1.0 / s, gamma * s, 1.0 / s, delta / s)


def _theorem1(inner: float, *, gamma0: object, c: object = 0.5, alpha0: object = 1.0) -> _Sequences:
    """Theorems 1 to 3: alpha = alpha0 s^-c, gamma = gamma0/alpha, xi = s^-c, delta = r(X) xi, with c in (0, 1)."""
    rate, first, gamma = _positive("c", c), _positive("alpha0", alpha0), _positive("gamma0", gamma0)
    if not rate < 1.0:
        raise BadSpec(f"algorithm.c must lie between 0 and 1, not {rate:g}")

    def at(s: float) -> _At:
        xi = power(s, -rate)
        alpha = first * xi
        return _At(alpha, gamma / alpha, xi, inner * xi)

    return at


def _theorem4(inner: float, *, mu: object, gamma0: object) -> _Sequences:
    """Theorem 4: alpha = 1/(mu s), gamma = gamma0/alpha, xi = min(1, alpha), delta = r(X) xi."""
    modulus, gamma = _positive("mu", mu), _positive("gamma0", gamma0)

    def at(s: float) -> _At:
        alpha = 1.0 / (modulus * s)
        xi = min(1.0, alpha)  # above 1 the set would turn inside out
        return _At(alpha, gamma / alpha, xi, inner * xi)

    return at


def _explicit(inner: float, *, alpha: object, gamma: object, xi: object, delta: object) -> _Sequences:
    """Return sequences given one by one: a number, or [coefficient, exponent] for coefficient * s^exponent."""
    numbers = {"alpha": alpha, "gamma": gamma, "xi": xi, "delta": delta}
    alpha_s, gamma_s, xi_s, delta_s = (_sequence(name, value) for name, value in numbers.items())
    return lambda s: _At(alpha_s(s), gamma_s(s), min(1.0, xi_s(s)), delta_s(s))


_SCHEDULES: dict[str, Callable[..., _Sequences]] = {
    "table2": _table2,
    "theorem1": _theorem1,
    "theorem4": _theorem4,
    "explicit": _explicit,
}


def numbers_of(name: str) -> tuple[str, ...]:
    """Return the names of the numbers a schedule takes; BadSpec where there is no such schedule."""
    return (*_parameters(name), "t0")


def chosen(name: str, numbers: Mapping[str, object], set: FeasibleSet, rounds: int | None) -> Schedule:
    """Return the schedule of an `[algorithm]` with all its numbers; those it does not take are the algorithm's own."""
    known = numbers_of(name)
    return make_schedule(name, {each: value for each, value in numbers.items() if each in known}, set, rounds)


def make_schedule(name: str, numbers: Mapping[str, object], set: FeasibleSet, rounds: int | None) -> Schedule:
    """Return the schedule that `[algorithm]` of a spec describes; BadSpec names the key at fault.

    `rounds` is for schedules that need the horizon; none of these does.
    """
    del rounds
    known = numbers_of(name)
    for number in numbers:
        if number not in known:
            raise BadSpec(f"algorithm.{number} is not a number of schedule {name}; {suggestion(number, known)}")
    for number, parameter in _parameters(name).items():
        if parameter.default is inspect.Parameter.empty and number not in numbers:
            raise BadSpec(f"algorithm.{number} is missing; schedule {name} needs it")
    t0 = _number("t0", numbers.get("t0", 0))
    if t0 < 0.0:
        raise BadSpec(f"algorithm.t0 must be at least 0, not {t0:g}")
    own = {number: value for number, value in numbers.items() if number != "t0"}
    radius_key = next((each for each in known if each.startswith("delta")), "schedule")
    return Sequences(_SCHEDULES[name](set.inner, **own), t0, radius_key)


def findings(schedule: Schedule, set: FeasibleSet, rounds: int | None) -> list[tuple[str, str]]:
    """Return what is wrong with a schedule on a set: ("error" | "warning", sentence), the first round of each kind.

    Errors break the protocol: a point outside X. Warnings void the theorems.
    """
    found: dict[str, tuple[str, str]] = {}
    for t in _rounds_to_look_at(rounds):
        now, later = schedule.step(t), schedule.step(t + 1)
        for kind, sentence in (*_breaches(now, set.inner, schedule.radius_key, t), *_growths(now, later, t)):
            severity = "warning" if kind.startswith("monotone") else "error"
            found.setdefault(kind, (severity, sentence))
    return list(found.values())


def _breaches(step: Step, inner: float, radius_key: str, t: int) -> Iterator[tuple[str, str]]:
    for name in ("alpha", "gamma", "xi", "delta"):
        value = getattr(step, name)
        if not 0.0 < value < math.inf:
            yield (
                name,
                f"algorithm.schedule gives {name} = {value:g} in round {t}; choose numbers that keep it positive",
            )
    if step.xi > 1.0:
        yield "xi", f"algorithm.schedule gives xi = {step.xi:g} in round {t}; choose numbers that keep it at most 1"
    if step.delta > inner * step.xi * (1.0 + _ROUNDING):
        yield (
            "radius",
            f"algorithm.{radius_key} gives delta = {step.delta:g} in round {t}, above r(X) xi = {inner * step.xi:g}, "
            "so points would leave the set; lower it",
        )


def _growths(now: Step, later: Step, t: int) -> Iterator[tuple[str, str]]:
    theorems = "the bounds of Theorems 1 to 4 do not hold"
    for name in ("alpha", "xi", "delta"):
        if getattr(later, name) > getattr(now, name):
            yield f"monotone {name}", f"algorithm.schedule lets {name} grow after round {t}; {theorems}"
    if later.gamma < now.gamma:
        yield "monotone gamma", f"algorithm.schedule lets gamma fall after round {t}; {theorems}"


def _rounds_to_look_at(rounds: int | None) -> Iterator[int]:
    """Yield the first rounds and then ever sparser ones: powers of s break a rule early, or at the far end."""
    last, t = rounds or _HORIZON, 1
    while t < last:
        yield t
        t += 1 + t // 16
    yield last


def _parameters(name: str) -> dict[str, inspect.Parameter]:
    if name not in _SCHEDULES:
        raise BadSpec(f'algorithm.schedule = "{name}" is not known; {suggestion(name, _SCHEDULES)}')
    parameters = inspect.signature(_SCHEDULES[name]).parameters
    return {each: parameter for each, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadSpec(f"algorithm.{name} must be a finite number, not {value!r}")
    return float(value)


def _positive(name: str, value: object) -> float:
    number = _number(name, value)
    if not number > 0.0:
        raise BadSpec(f"algorithm.{name} must be above 0, not {number:g}")
    return number


def _sequence(name: str, value: object) -> Callable[[float], float]:
    if not isinstance(value, list | tuple):
        constant = _positive(name, value)
        return lambda s: constant
    if len(value) != 2:
        raise BadSpec(f"algorithm.{name} must be a number or [coefficient, exponent], not {value!r}")
    coefficient, exponent = _positive(name, value[0]), _number(name, value[1])
    return lambda s: coefficient * power(s, exponent)
