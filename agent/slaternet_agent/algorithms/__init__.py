"""Algorithms, one module per paper, and how a spec's `[algorithm]` becomes one."""

import inspect
from typing import Any

from slaternet.errors import BadSpec
from slaternet.plugins import load
from slaternet.spec import AlgorithmSection
from slaternet.words import suggestion
from slaternet_agent.algorithms.base import Algorithm, Decision, Feedback, Game, Gossip, Seen
from slaternet_agent.schedules import chosen, numbers_of

__all__ = ["GROUP", "Algorithm", "Decision", "Feedback", "Game", "Gossip", "Seen", "build", "declared"]

GROUP = "slaternet.algorithms"


def declared(section: AlgorithmSection) -> Feedback:
    """Return the feedback that the algorithm's class declares."""
    feedback = getattr(_class(section), "feedback", None)
    if not isinstance(feedback, Feedback):
        raise BadSpec(
            f"algorithm.name = {section.name!r} declares no feedback; set `feedback = Feedback(...)` in the class"
        )
    return feedback


def build(section: AlgorithmSection, game: Game) -> Algorithm:
    """Return the algorithm with its schedule, each given the numbers it takes; BadSpec names the key at fault."""
    factory = _class(section)
    of_schedule, of_algorithm = numbers_of(section.schedule), _own_numbers(factory)
    for name in section.numbers:
        if name not in of_schedule and name not in of_algorithm:
            remedy = suggestion(name, {*of_schedule, *of_algorithm})
            raise BadSpec(f"algorithm.{name} is not a number of schedule {section.schedule}; {remedy}")
    for name, parameter in of_algorithm.items():
        if parameter.default is inspect.Parameter.empty and name not in section.numbers:
            raise BadSpec(f"algorithm.{name} is missing; {section.name} needs it")
    schedule = chosen(section.schedule, section.numbers, game.set, game.rounds)
    if game.rounds is None and (factory.needs_horizon or schedule.needs_horizon):
        raise BadSpec(f"run.rounds is missing; {section.name} with schedule {section.schedule} needs the horizon")
    algorithm: Algorithm = factory(game, schedule, **{n: v for n, v in section.numbers.items() if n in of_algorithm})
    return algorithm


def _class(section: AlgorithmSection) -> type[Any]:
    return load(GROUP, section.name, key="algorithm.name").factory


def _own_numbers(factory: type[Any]) -> dict[str, inspect.Parameter]:
    """Return the constructor's parameters beyond the game and the schedule."""
    parameters = inspect.signature(factory).parameters
    return dict(list(parameters.items())[2:])
