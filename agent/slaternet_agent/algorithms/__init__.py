"""Algorithms, one module per paper, and how a spec's `[algorithm]` becomes one."""

import dataclasses
import inspect
from typing import Any

from slaternet.errors import BadSpec
from slaternet.plugins import load
from slaternet.spec import AlgorithmSection
from slaternet.words import suggestion
from slaternet_agent.algorithms.base import Algorithm, Decision, Feedback, Game, Gossip, Schedule, Seen, Tangent
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
    "Seen",
    "Tangent",
    "build",
    "completed",
    "numbers_taken",
    "schedule",
    "schedules_named",
]

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


def build(section: AlgorithmSection, game: Game) -> Algorithm:
    """Return the algorithm with its schedule, each given the numbers it takes; BadSpec names the key at fault."""
    section = completed(section)
    if section.mode != "central":
        return _build(section, game)
    # one learner that sees the average loss and everyone's constraints
    joint = dataclasses.replace(game, agents=1, constraints=game.agents * game.constraints)
    return Central(_build(section, joint), game)


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


def numbers_taken(section: AlgorithmSection) -> set[str]:
    """Return the names of all numbers that the algorithm and its schedule take."""
    factory = _class(section)
    rules, sequences = _declared(factory, "schedules"), _declared(factory, "sequences")
    return {*numbers_of(completed(section).schedule, rules, sequences), *_own_numbers(factory)}


def _build(section: AlgorithmSection, game: Game) -> Algorithm:
    factory, taken, own = _class(section), numbers_taken(section), _own_numbers(_class(section))
    for name in section.numbers:
        if name not in taken:
            remedy = suggestion(name, taken)
            raise BadSpec(f"algorithm.{name} is not a number of schedule {section.schedule}; {remedy}")
    for name, parameter in own.items():
        if parameter.default is inspect.Parameter.empty and name not in section.numbers:
            raise BadSpec(f"algorithm.{name} is missing; {section.name} needs it")
    if game.rounds is None and _declared(factory, "needs_horizon"):
        raise BadSpec(f"run.rounds is missing; {section.name} needs the horizon")
    numbers = {name: value for name, value in section.numbers.items() if name in own}
    algorithm: Algorithm = factory(game, schedule(section, game), **numbers)
    if not isinstance(getattr(algorithm, "feedback", None), Feedback):
        raise BadSpec(
            f"algorithm.name = {section.name!r} declares no feedback; set `feedback = Feedback(...)` in the class"
        )
    return algorithm


def _class(section: AlgorithmSection) -> type[Any]:
    return load(GROUP, section.name, key="algorithm.name").factory


def _declared(factory: type[Any], name: str) -> Any:  # noqa: ANN401  of the attribute's type
    """Return what a class declares; a user's class that does not inherit from Algorithm may leave it out."""
    return getattr(factory, name, getattr(Algorithm, name))


def _own_numbers(factory: type[Any]) -> dict[str, inspect.Parameter]:
    """Return the constructor's parameters beyond the game and the schedule."""
    parameters = inspect.signature(factory).parameters
    return dict(list(parameters.items())[2:])
