from typing import ClassVar

import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet.sets import Box
from slaternet.spec import AlgorithmSection
from slaternet_agent.algorithms import Feedback, Game, build, declared
from slaternet_agent.algorithms.zhang2024 import Zhang2024
from slaternet_agent.schedules import Schedule

ZHANG = "slaternet_agent.algorithms.zhang2024:Zhang2024"


class Tuned(Zhang2024):
    """An algorithm with numbers of its own that must know its horizon."""

    needs_horizon = True

    def __init__(self, game: Game, schedule: Schedule, *, strength: float, mode: str = "plain") -> None:
        super().__init__(game, schedule)
        self.schedule, self.strength, self.mode = schedule, strength, mode


class Silent:
    """A class that declares nothing."""

    needs_horizon: ClassVar[bool] = False


TUNED, SILENT = f"{__name__}:Tuned", f"{__name__}:Silent"


def section(name: str = ZHANG, schedule: str = "table2", **numbers: object) -> AlgorithmSection:
    return AlgorithmSection.model_validate({"name": name, "schedule": schedule, **numbers})


def game(rounds: int | None = 10) -> Game:
    return Game(agents=3, dimension=4, constraints=2, rounds=rounds, seed=1, set=Box(4, -5, 5))


def test_a_section_becomes_the_algorithm_it_names() -> None:
    algorithm = build(section(gamma0=0.3), game(rounds=None))

    assert isinstance(algorithm, Zhang2024)
    assert algorithm.outgoing(algorithm.start(np.arange(3))).shape == (3, algorithm.width)


def test_numbers_go_to_whom_they_belong() -> None:
    algorithm = build(section(TUNED, gamma0=0.3, t0=2, strength=7.0), game())

    assert isinstance(algorithm, Tuned)
    assert (algorithm.strength, algorithm.mode) == (7.0, "plain")
    assert algorithm.schedule.step(2).gamma == 0.3 * 4


def test_the_feedback_is_known_without_a_game() -> None:
    assert declared(section()) == Feedback(points=2)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (section(gama0=1), "algorithm.gama0 is not a number of schedule table2; did you mean gamma0?"),
        (section(TUNED, strenght=1), "algorithm.strenght is not a number of schedule table2; did you mean strength?"),
        (section(TUNED), "algorithm.strength is missing; "),
        (section(schedule="theorem9"), 'algorithm.schedule = "theorem9" is not known; did you mean theorem'),
        (section(gamma0=0), "algorithm.gamma0 must be above 0, not 0"),
        (section("nowhere.at.all:Class"), "algorithm.name "),
    ],
)
def test_a_wrong_section_is_named_with_its_remedy(made: AlgorithmSection, sentence: str) -> None:
    with pytest.raises(BadSpec) as error:
        build(made, game())

    assert str(error.value).startswith(sentence)


def test_an_algorithm_that_needs_the_horizon_is_refused_without_one() -> None:
    with pytest.raises(BadSpec, match=r"^run\.rounds is missing; .* needs the horizon$"):
        build(section(TUNED, strength=1.0), game(rounds=None))


def test_a_class_without_feedback_is_refused() -> None:
    with pytest.raises(BadSpec, match="declares no feedback"):
        declared(section(SILENT))
