"""Builds the algorithm that `[algorithm]` of a spec names, with its schedule and numbers."""

import dataclasses
import inspect
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from slaternet.errors import BadSpec
from slaternet.fields import Options, options_of
from slaternet.limits import LIMITS
from slaternet.spec import AlgorithmSection
from slaternet.spec.plugins import load, plugin_edge
from slaternet_agent.algorithms.base import Algorithm, AlgorithmGame, Feedback, Schedule
from slaternet_agent.algorithms.replica import Central
from slaternet_agent.algorithms.schedules import make_schedule, numbers_of, rule_names

GROUP = "slaternet.algorithms"


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


def build(section: AlgorithmSection, game: AlgorithmGame) -> Algorithm:
    """Return the algorithm with its schedule, each given the numbers it takes; BadSpec names the key at fault."""
    section = completed(section)
    if section.mode != "central":
        return _build(section, game)
    # one learner with the average loss and the constraints of all agents
    joint = dataclasses.replace(game, agents=1, constraints=game.agents * game.constraints)
    learner = _build(section, joint)
    with _constructor(section):
        return Central(learner, game)


def schedule(section: AlgorithmSection, game: AlgorithmGame) -> Schedule:
    """Return the schedule of an `[algorithm]`; numbers that it does not take belong to the algorithm."""
    factory, name = _class(section), completed(section).schedule
    rules, sequences = _declared(factory, "schedules"), _declared(factory, "sequences")
    known = numbers_of(name, rules, sequences).parameters
    numbers = {each: value for each, value in section.numbers.items() if each in known}
    return make_schedule(name, numbers, game, rules, sequences)


def schedules_named(section: AlgorithmSection) -> tuple[str, ...]:
    """Return the names of the algorithm's schedules, the default first."""
    return rule_names(_declared(_class(section), "schedules"))


def numbers_of_schedule(section: AlgorithmSection) -> dict[str, object]:
    """Return the numbers of the section's schedule with their defaults, None where a number has none."""
    rules, name = _declared(_class(section), "schedules"), completed(section).schedule
    parameters = options_of(rules[name], given=1).parameters if name in rules else {}
    return {each.name: None if each.default is each.empty else each.default for each in parameters.values()}


def numbers_taken(section: AlgorithmSection) -> set[str]:
    """Return the names of all numbers that the algorithm and its schedule take."""
    return {*_steps(completed(section)), *options_of(_class(section), given=2).parameters}


def needs_horizon(section: AlgorithmSection, game: AlgorithmGame) -> bool:
    """Return whether the algorithm or its schedule depends on the number of rounds; it must be buildable in `game`."""
    if _declared(_class(section), "needs_horizon"):
        return True
    try:
        schedule(section, dataclasses.replace(game, rounds=None))
    except BadSpec:
        return True
    return False


def same_rule(one: AlgorithmSection, other: AlgorithmSection) -> bool:
    """Return whether the schedules of two algorithms are the same rule, so that its numbers carry over.

    Table II has a row for each of its algorithms, and explicit sequences are the same for all.
    """
    if one.schedule != other.schedule or not one.schedule:
        return False
    if one.schedule in ("table2", "explicit"):
        return one.schedule in schedules_named(other)
    rules = [_declared(_class(each), "schedules") for each in (one, other)]
    return one.schedule in rules[0] and rules[0][one.schedule] is rules[1].get(one.schedule)


def _build(section: AlgorithmSection, game: AlgorithmGame) -> Algorithm:
    factory, steps = _class(section), _steps(section)
    own = options_of(factory, given=2)
    every = Options({**steps, **own.parameters}, own.open_ended)
    every.check(section.numbers, key="algorithm", of=f"{section.name} with schedule {section.schedule}")
    if game.rounds is None and _declared(factory, "needs_horizon"):
        raise BadSpec(f"run.rounds is missing; {section.name} needs the horizon")
    taken = {n: v for n, v in section.numbers.items() if n in own.parameters or n not in steps}
    with_steps = schedule(section, game)
    with _constructor(section):
        algorithm: Algorithm = factory(game, with_steps, **own.read(taken, key="algorithm"))
    if not isinstance(getattr(algorithm, "feedback", None), Feedback):
        raise BadSpec(
            f"algorithm.name = {section.name!r} declares no feedback; set `feedback = Feedback(...)` in the class"
        )
    if not isinstance(width := getattr(algorithm, "width", None), int) or width < 0:
        raise BadSpec(
            f"algorithm.name = {section.name!r} does not say how many numbers it gossips; set `self.width` in the class"
        )
    if not isinstance(memo := getattr(algorithm, "memo_width", 0), int) or not 0 <= memo <= LIMITS.memo:
        raise BadSpec(
            f"algorithm.name = {section.name!r} does not say how many numbers an agent keeps with its question; set "
            f"`self.memo_width` in the class, to at most {LIMITS.memo}"
        )
    return algorithm


def _constructor(section: AlgorithmSection) -> AbstractContextManager[None]:
    return plugin_edge("algorithm", section.name, "constructor")


def _class(section: AlgorithmSection) -> type[Any]:
    return load(GROUP, section.name, key="algorithm.name").factory


def _declared(factory: type[Any], name: str) -> Any:  # noqa: ANN401  of the attribute's type
    """Return an attribute of the class; a user's class that does not inherit from Algorithm may lack it."""
    return getattr(factory, name, getattr(Algorithm, name))


def _steps(section: AlgorithmSection) -> Mapping[str, inspect.Parameter]:
    """Return the numbers of the section's schedule."""
    factory = _class(section)
    return numbers_of(section.schedule, _declared(factory, "schedules"), _declared(factory, "sequences")).parameters
