"""Step sizes over time: those of the theorems, of Table II, or a user's own.

    alpha_t   primal step          beta_t    regularisation of the dual
    gamma_t   dual step            xi_t      shrinkage of X
    delta_t   exploration radius, at most r(X) xi_t

Every sequence is a function of s = t + t0. t0 = 0 is the paper; an offset keeps the rates and avoids the transient of
the first rounds, where alpha_1 = 1 moves the agents to the border of X, which costs most. Powers come from
`slaternet.numerics.portable`, so that every machine takes the same steps.

A rule is written as `def name(game: Game, *, gamma0: PositiveFloat = 0.15) -> Rule`: its numbers are compared with
their annotations (see `slaternet.fields`), and it returns the function from s to the sequences it sets.
"""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveFloat

from slaternet.errors import BadSpec
from slaternet.fields import Options, options_of, read
from slaternet.numerics.portable import power
from slaternet.numerics.sets import FeasibleSet
from slaternet.suggestions import suggestion
from slaternet_agent.algorithms.game import AlgorithmGame

SEQUENCES = ("alpha", "gamma", "xi", "delta")
"""The sequences of Algorithm 1, and the default of other algorithms."""

_ROUNDING = 1e-12
_HORIZON = 1 << 20  # rounds to check where a game has no end

Rate = Annotated[float, Field(gt=0, lt=1), "between 0 and 1"]
_Sequence = Annotated[
    PositiveFloat | Annotated[list[float], Field(min_length=2, max_length=2)],
    "a number above 0 or [coefficient, exponent]",
]
_T0 = inspect.Parameter("t0", inspect.Parameter.KEYWORD_ONLY, default=0.0, annotation=NonNegativeFloat)


@dataclass(frozen=True, slots=True)
class Step:
    """The numbers of one round, and the shrinkage of the next; NaN where an algorithm does not use them."""

    alpha: float = math.nan
    beta: float = math.nan
    gamma: float = math.nan
    xi: float = math.nan
    delta: float = math.nan
    next_xi: float = math.nan


Rule = Callable[[float], Step]
"""From s to the sequences at s; the schedule sets `next_xi`."""
Rules = Mapping[str, Callable[..., Rule]]
"""Named rules, each a function of the game and of numbers given by keyword."""


class Schedule:
    """The numbers of every round: a rule, moved in time by t0."""

    def __init__(self, rule: Rule, t0: float = 0.0, *, sequences: Sequence[str] = SEQUENCES, radius: str = "") -> None:
        self._rule = functools.lru_cache(maxsize=2)(rule)  # of two steps in a row the second xi of one is the other's
        self._t0 = t0
        self.step: Callable[[int], Step] = functools.lru_cache(maxsize=256)(self._step)
        """Return the numbers of round t = 1, 2, 3, ..."""
        self.sequences = tuple(sequences)
        self.radius_key = radius or "schedule"
        """The key of `[algorithm]` that sets delta."""

    def _step(self, t: int) -> Step:
        now, later = self._rule(t + self._t0), self._rule(t + 1 + self._t0)
        return Step(now.alpha, now.beta, now.gamma, now.xi, now.delta, later.xi)


def table2(game: AlgorithmGame, *, gamma0: PositiveFloat = 0.15, delta0: PositiveFloat = 0.01) -> Rule:
    """Table II: alpha = 1/s, gamma = gamma0 s, xi = 1/s, delta = delta0/s."""
    del game
    return lambda s: Step(alpha=1.0 / s, gamma=gamma0 * s, xi=1.0 / s, delta=delta0 / s)


def theorem1(game: AlgorithmGame, *, gamma0: PositiveFloat, c: Rate = 0.5, alpha0: PositiveFloat = 1.0) -> Rule:
    """Theorems 1 to 3: alpha = alpha0 s^-c, gamma = gamma0/alpha, xi = s^-c, delta = r(X) xi, with c in (0, 1)."""

    def rule(s: float) -> Step:
        xi = power(s, -c)
        alpha = alpha0 * xi
        return Step(alpha=alpha, gamma=gamma0 / alpha, xi=xi, delta=game.set.inner * xi)

    return rule


def theorem4(game: AlgorithmGame, *, mu: PositiveFloat, gamma0: PositiveFloat) -> Rule:
    """Theorem 4: alpha = 1/(mu s), gamma = gamma0/alpha, xi = min(1, alpha), delta = r(X) xi."""

    def rule(s: float) -> Step:
        alpha = 1.0 / (mu * s)
        xi = min(1.0, alpha)  # above 1 the set would turn inside out
        return Step(alpha=alpha, gamma=gamma0 / alpha, xi=xi, delta=game.set.inner * xi)

    return rule


STANDARD: Rules = {"table2": table2, "theorem1": theorem1, "theorem4": theorem4}
"""The paper's rules for Algorithm 1, and the default of other algorithms."""


def rule_names(rules: Rules = STANDARD) -> tuple[str, ...]:
    """Return the names a spec may give as `algorithm.schedule`, the default first."""
    return (*rules, "explicit")


def numbers_of(name: str, rules: Rules = STANDARD, sequences: Sequence[str] = SEQUENCES) -> Options:
    """Return the numbers a schedule takes; BadSpec where there is no such schedule."""
    if name == "explicit":
        keyword = inspect.Parameter.KEYWORD_ONLY
        return Options(
            {each: inspect.Parameter(each, keyword, annotation=_Sequence) for each in sequences} | {"t0": _T0}
        )
    if name not in rules:
        raise BadSpec(f'algorithm.schedule = "{name}" is not known; {suggestion(name, rule_names(rules))}')
    return Options({**options_of(rules[name], given=1).parameters, "t0": _T0})


def make_schedule(
    name: str,
    numbers: Mapping[str, object],
    game: AlgorithmGame,
    rules: Rules = STANDARD,
    sequences: Sequence[str] = SEQUENCES,
) -> Schedule:
    """Return the schedule that `[algorithm]` of a spec describes; BadSpec names the key at fault.

    `rules` are the schedules of the algorithm, `sequences` those that it uses.
    """
    known = numbers_of(name, rules, sequences)
    known.check(numbers, key="algorithm", of=f"schedule {name}")
    own = known.read(numbers, key="algorithm")
    t0 = own.pop("t0", 0.0)
    rule = _explicit(own) if name == "explicit" else rules[name](game, **own)
    radius = next((key for key in ("delta0", "delta") if key in known.parameters), "")
    return Schedule(rule, t0, sequences=sequences, radius=radius)


def breaches(schedule: Schedule, set: FeasibleSet, rounds: int | None) -> list[str]:
    """Return where steps are not positive and finite, or points leave X: one sentence for each kind of fault."""
    found: dict[str, str] = {}
    for t in _rounds_to_look_at(rounds):
        for kind, sentence in _breaches(schedule.step(t), schedule, set.inner, t):
            found.setdefault(kind, sentence)
    return list(found.values())


def growths(schedule: Schedule, rounds: int | None) -> list[str]:
    """Return the sequences whose growth violates Theorems 1 to 4, each with the first round where it does."""
    found: dict[str, str] = {}
    for t in _rounds_to_look_at(rounds):
        now, later = schedule.step(t), schedule.step(t + 1)
        for name in ("alpha", "xi", "delta"):
            if getattr(later, name) > getattr(now, name):
                found.setdefault(name, f"algorithm.schedule lets {name} grow after round {t}")
        if later.gamma < now.gamma:
            found.setdefault("gamma", f"algorithm.schedule lets gamma fall after round {t}")
    return [f"{sentence}; the bounds of Theorems 1 to 4 do not hold" for sentence in found.values()]


def horizon(game: AlgorithmGame) -> int:
    """Return T for a rule that needs it."""
    if game.rounds is None:
        raise BadSpec("run.rounds is missing; this algorithm.schedule needs the horizon")
    return game.rounds


def _breaches(step: Step, schedule: Schedule, inner: float, t: int) -> Iterator[tuple[str, str]]:
    for name in schedule.sequences:
        value = getattr(step, name)
        if not 0.0 < value < math.inf:
            remedy = "choose numbers that keep it positive"
            yield name, f"algorithm.schedule gives {name} = {value:g} in round {t}; {remedy}"
    if step.xi > 1.0:
        yield "xi", f"algorithm.schedule gives xi = {step.xi:g} in round {t}; choose numbers that keep it at most 1"
    if step.delta > inner * step.xi * (1.0 + _ROUNDING):
        yield (
            "radius",
            f"algorithm.{schedule.radius_key} gives delta = {step.delta:g} in round {t}, above r(X) xi = "
            f"{inner * step.xi:g}, so points would leave the set; lower it",
        )


def _rounds_to_look_at(rounds: int | None) -> Iterator[int]:
    """Yield the first rounds and then ever sparser ones: powers of s break a rule early or at the end."""
    last, t = rounds or _HORIZON, 1
    while t < last:
        yield t
        t += 1 + t // 16
    yield last


def _explicit(numbers: Mapping[str, float | list[float]]) -> Rule:
    """Return sequences given one by one: a number, or [coefficient, exponent] for coefficient * s^exponent."""
    sequences = {name: _sequence(name, value) for name, value in numbers.items()}

    def rule(s: float) -> Step:
        step = Step(**{name: at(s) for name, at in sequences.items()})
        return dataclasses.replace(step, xi=1.0) if step.xi > 1.0 else step

    return rule


def _sequence(name: str, value: float | list[float]) -> Callable[[float], float]:
    if not isinstance(value, list):
        return lambda s: value
    coefficient, exponent = read(f"algorithm.{name}[0]", PositiveFloat, value[0]), value[1]

    def at(s: float) -> float:
        try:
            return float(coefficient * power(s, exponent))
        except OverflowError:
            return math.inf  # and `breaches` names the round

    return at
