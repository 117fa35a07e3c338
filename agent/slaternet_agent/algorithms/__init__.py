"""Algorithms, one module per paper, and how a spec's `[algorithm]` becomes one."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from slaternet.errors import BadSpec, PluginFailed, SlaternetError
from slaternet.plugins import load
from slaternet.spec import AlgorithmSection
from slaternet.words import suggestion
from slaternet_agent.algorithms.base import Algorithm, Decision, Feedback, Game, Gossip, Schedule, Tangent, Values
from slaternet_agent.algorithms.central import Central
from slaternet_agent.schedules import make_schedule, numbers_of, rule_names

__all__ = [
    "GROUP",
    "Algorithm",
    "Decision",
    "Feedback",
    "Game",
    "Gossip",
    "Schedule",
    "Tangent",
    "Values",
    "build",
    "completed",
    "needs_horizon",
    "numbers_of_schedule",
    "numbers_taken",
    "same_rule",
    "schedule",
    "schedules_named",
]

GROUP = "slaternet.algorithms"
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def completed(section: AlgorithmSection) -> AlgorithmSection:
    """Return the section with the defaults of the algorithm that it names: its first schedule, and its mode."""
    factory = _class(section)
    mode, centralised = section.mode, _declared(factory, "centralised")
    if centralised and mode == "gossip":
        raise BadSpec(
            f"algorithm.mode must be local or central, because {section.name} is centralised: "
            "each agent alone, or one learner for all"
        )
    name = section.schedule or schedules_named(section)[0]
    return section.model_copy(update={"schedule": name, "mode": mode or ("local" if centralised else "gossip")})


def build(section: AlgorithmSection, game: Game) -> Algorithm:
    """Return the algorithm with its schedule, each given the numbers it takes; BadSpec names the key at fault."""
    section = completed(section)
    if section.mode != "central":
        return _build(section, game)
    # one learner that sees the average loss and everyone's constraints
    joint = dataclasses.replace(game, agents=1, constraints=game.agents * game.constraints)
    learner = _build(section, joint)
    return _guarded(section, lambda: Central(learner, game))


def schedule(section: AlgorithmSection, game: Game) -> Schedule:
    """Return the schedule of an `[algorithm]`; numbers that it does not take are the algorithm's own."""
    factory, name = _class(section), completed(section).schedule
    rules, sequences = _declared(factory, "schedules"), _declared(factory, "sequences")
    known = numbers_of(name, rules, sequences)
    numbers = {each: value for each, value in section.numbers.items() if each in known}
    return make_schedule(name, numbers, game, rules, sequences)


def schedules_named(section: AlgorithmSection) -> tuple[str, ...]:
    """Return the schedules that the algorithm can be played with, the default first."""
    return rule_names(_declared(_class(section), "schedules"))


def numbers_of_schedule(section: AlgorithmSection) -> dict[str, object]:
    """Return the numbers of the section's schedule with their defaults, None where there is none."""
    rules, name = _declared(_class(section), "schedules"), completed(section).schedule
    parameters = inspect.signature(rules[name]).parameters if name in rules else {}
    keywords = (each for each in parameters.values() if each.kind is each.KEYWORD_ONLY)
    return {each.name: None if each.default is each.empty else each.default for each in keywords}


def numbers_taken(section: AlgorithmSection) -> set[str]:
    """Return the names of all numbers that the algorithm and its schedule take."""
    factory = _class(section)
    rules, sequences = _declared(factory, "schedules"), _declared(factory, "sequences")
    return {*numbers_of(completed(section).schedule, rules, sequences), *_own_numbers(factory)}


def needs_horizon(section: AlgorithmSection, game: Game) -> bool:
    """Say whether the algorithm or its schedule depends on the number of rounds, in a game in which it can be built."""
    if _declared(_class(section), "needs_horizon"):
        return True
    try:
        schedule(section, dataclasses.replace(game, rounds=None))
    except BadSpec:
        return True
    return False


def same_rule(one: AlgorithmSection, other: AlgorithmSection) -> bool:
    """Say whether two sections of different algorithms mean the same by their schedule, and hence by its numbers.

    Table II is one table with a row for each of its algorithms, and explicit sequences mean what they are called.
    """
    if one.schedule != other.schedule or not one.schedule:
        return False
    if one.schedule in ("table2", "explicit"):
        return one.schedule in schedules_named(other)
    rules = [_declared(_class(each), "schedules") for each in (one, other)]
    return one.schedule in rules[0] and rules[0][one.schedule] is rules[1].get(one.schedule)


def _build(section: AlgorithmSection, game: Game) -> Algorithm:
    factory, own = _class(section), _own_numbers(_class(section))
    steps = set(numbers_of(section.schedule, _declared(factory, "schedules"), _declared(factory, "sequences")))
    open_ended = _is_open_ended(factory)
    for name in section.numbers:
        if name not in steps and name not in own and not open_ended:
            remedy = suggestion(name, {*steps, *own})
            raise BadSpec(
                f"algorithm.{name} is not a number of {section.name} with schedule {section.schedule}; {remedy}"
            )
    for name, parameter in own.items():
        if parameter.default is inspect.Parameter.empty and name not in section.numbers:
            raise BadSpec(f"algorithm.{name} is missing; {section.name} needs it")
    if game.rounds is None and _declared(factory, "needs_horizon"):
        raise BadSpec(f"run.rounds is missing; {section.name} needs the horizon")
    taken = {n: v for n, v in section.numbers.items() if n in own or (open_ended and n not in steps)}
    with_steps = schedule(section, game)
    return _checked(_guarded(section, lambda: factory(game, with_steps, **taken)), section)


def _checked(algorithm: Algorithm, section: AlgorithmSection) -> Algorithm:
    if not isinstance(getattr(algorithm, "feedback", None), Feedback):
        raise BadSpec(
            f"algorithm.name = {section.name!r} declares no feedback; set `feedback = Feedback(...)` in the class"
        )
    if not isinstance(width := getattr(algorithm, "width", None), int) or width < 0:
        raise BadSpec(
            f"algorithm.name = {section.name!r} does not say how many numbers it gossips; set `self.width` in the class"
        )
    return algorithm


def _guarded(section: AlgorithmSection, make: Callable[[], Algorithm]) -> Algorithm:
    """Stand at the plugin edge: whatever a user's algorithm raises while it is made is one sentence."""
    try:
        return make()
    except SlaternetError:
        raise
    except Exception as error:
        raise PluginFailed(
            f"the algorithm {section.name} could not be made: {type(error).__name__}: {error}; correct its code"
        ) from error


def _class(section: AlgorithmSection) -> type[Any]:
    return load(GROUP, section.name, key="algorithm.name").factory


def _declared(factory: type[Any], name: str) -> Any:  # noqa: ANN401  of the attribute's type
    """Return what a class declares; a user's class that does not inherit from Algorithm may leave it out."""
    return getattr(factory, name, getattr(Algorithm, name))


def _own_numbers(factory: type[Any]) -> dict[str, inspect.Parameter]:
    """Return the constructor's named parameters beyond the game and the schedule."""
    return {name: each for name, each in _beyond(factory).items() if each.kind not in _VARIADIC}


def _is_open_ended(factory: type[Any]) -> bool:
    """Whether the constructor takes any number, `**numbers`."""
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in _beyond(factory).values())


def _beyond(factory: type[Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(factory).parameters
    return dict(list(parameters.items())[2:])
