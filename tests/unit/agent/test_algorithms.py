from pathlib import Path

import numpy as np
import pytest

from slaternet.errors import BadSpec, PluginFailed
from slaternet.numerics.sets import Box
from slaternet.spec import AlgorithmSection
from slaternet_agent.algorithms import AlgorithmGame
from slaternet_agent.algorithms.replica import Central
from slaternet_agent.algorithms.schedules import Schedule, breaches
from slaternet_agent.algorithms.zhang2024 import Zhang2024
from slaternet_agent.registry import build, completed, needs_horizon, numbers_taken, same_rule, schedule

ZHANG = "slaternet_agent.algorithms.zhang2024:Zhang2024"


class Tuned(Zhang2024):
    """An algorithm with numbers of its own that must know its horizon."""

    needs_horizon = True

    def __init__(self, game: AlgorithmGame, schedule: Schedule, *, strength: float, style: str = "plain") -> None:
        super().__init__(game, schedule)
        self.schedule, self.strength, self.style = schedule, strength, style


class Lonely(Zhang2024):
    """An algorithm that never gossips."""

    centralised = True


class Silent:
    """A class that declares nothing."""

    def __init__(self, game: AlgorithmGame, schedule: Schedule) -> None: ...


TUNED, LONELY, SILENT = (f"{__name__}:{name}" for name in ("Tuned", "Lonely", "Silent"))


def section(name: str = ZHANG, schedule: str = "table2", **numbers: object) -> AlgorithmSection:
    return AlgorithmSection.model_validate({"name": name, "schedule": schedule, **numbers})


def game(rounds: int | None = 10) -> AlgorithmGame:
    return AlgorithmGame(agents=3, dimension=4, constraints=2, rounds=rounds, seed=1, set=Box(4, -5, 5))


def test_a_section_becomes_the_algorithm_it_names() -> None:
    algorithm = build(section(gamma0=0.3), game(rounds=None))

    assert isinstance(algorithm, Zhang2024)
    assert algorithm.outgoing(algorithm.start(np.arange(3)), 1).shape == (3, algorithm.width)


def test_numbers_go_to_whom_they_belong() -> None:
    algorithm = build(section(TUNED, gamma0=0.3, t0=2, strength=7.0), game())

    assert isinstance(algorithm, Tuned)
    assert (algorithm.strength, algorithm.style) == (7.0, "plain")
    assert algorithm.schedule.step(2).gamma == 0.3 * 4


def test_what_is_left_out_is_what_the_algorithm_declares() -> None:
    bare = AlgorithmSection.model_validate({"name": ZHANG})

    assert (completed(bare).schedule, completed(bare).mode) == ("table2", "gossip")
    assert completed(section(LONELY)).mode == "local"
    assert completed(section(LONELY, mode="central")).mode == "central"


def test_the_schedule_of_a_section_takes_its_own_numbers_only() -> None:
    tuned = section(TUNED, gamma0=0.3, strength=7.0)

    assert schedule(tuned, game()).step(2).gamma == 0.6
    assert numbers_taken(tuned) == {"gamma0", "delta0", "t0", "strength", "style"}


def test_one_learner_for_all_sees_everyone_s_constraints() -> None:
    algorithm = build(section(mode="central"), game())

    assert isinstance(algorithm, Central)
    assert algorithm.width == 2 + 2 * 2  # its own values of f and g at two points, not z


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (section(gama0=1), f"algorithm.gama0 is not an option of {ZHANG} with schedule table2; did you mean gamma0?"),
        (
            section(TUNED, strenght=1),
            f"algorithm.strenght is not an option of {TUNED} with schedule table2; did you mean strength?",
        ),
        (section(TUNED), "algorithm.strength is missing; "),
        (section(schedule="theorem9"), 'algorithm.schedule = "theorem9" is not known; did you mean theorem'),
        (section(gamma0=0), "algorithm.gamma0 must be above 0, not 0"),
        (section("nowhere.at.all:Class"), "algorithm.name "),
        (section(LONELY, mode="gossip"), "algorithm.mode must be local or central, because "),
    ],
)
def test_a_wrong_section_is_named_with_its_remedy(made: AlgorithmSection, sentence: str) -> None:
    with pytest.raises(BadSpec) as error:
        build(made, game())

    assert str(error.value).startswith(sentence)


def test_an_algorithm_that_cannot_be_made_is_named_with_what_it_raised(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    def __init__(self, game, schedule): raise KeyError('x')\n")

    with pytest.raises(
        PluginFailed,
        match=r"Mine failed: its constructor raised KeyError: 'x', at .*mine\.py:\d+ ",
    ):
        build(section(f"{tmp_path / 'mine.py'}:Mine"), game())


def test_an_algorithm_that_needs_the_horizon_is_refused_without_one() -> None:
    with pytest.raises(BadSpec, match=r"^run\.rounds is missing; .* needs the horizon$"):
        build(section(TUNED, strength=1.0), game(rounds=None))


def test_a_class_without_feedback_is_refused() -> None:
    with pytest.raises(BadSpec, match="declares no feedback"):
        build(section(SILENT), game())


def test_a_constructor_may_take_any_number(tmp_path: Path) -> None:
    (tmp_path / "open.py").write_text(
        "from slaternet_agent.algorithms import Feedback\n"
        "class Open:\n    feedback, width = Feedback(), 0\n"
        "    def __init__(self, game, schedule, **numbers): self.numbers = numbers\n"
    )

    made = build(section(f"{tmp_path / 'open.py'}:Open", gamma0=0.3, strength=7), game())

    assert vars(made)["numbers"] == {"strength": 7}


def test_the_numbers_of_an_algorithm_of_one_s_own_are_converted_by_its_hints(tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(
        "from __future__ import annotations\nfrom pydantic import PositiveFloat\n"
        "from slaternet_agent.algorithms import Feedback\n"
        "class Typed:\n    feedback, width = Feedback(), 0\n"
        "    def __init__(self, game, schedule, *, strength: PositiveFloat, odd: Unknown = 1, **others):\n"
        "        self.numbers = strength, odd, others\n"
    )
    name = f"{tmp_path / 'typed.py'}:Typed"

    made = build(section(name, strength=7, odd="x", other=2), game())

    assert repr(vars(made)["numbers"]) == "(7.0, 'x', {'other': 2})"
    with pytest.raises(BadSpec, match=r"^algorithm\.strength must be above 0, not -7$"):
        build(section(name, strength=-7), game())


def test_a_class_without_width_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mute.py").write_text(
        "from slaternet_agent.algorithms import Feedback\n"
        "class Mute:\n    feedback = Feedback()\n    def __init__(self, game, schedule): pass\n"
    )

    with pytest.raises(BadSpec, match=r"does not say how many numbers it gossips; set `self\.width`"):
        build(section(f"{tmp_path / 'mute.py'}:Mute"), game())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("zhang2024", "table2"), ("yi2023", "table2"), True),
        (("zhang2024", "theorem1"), ("yi2023", "theorem1"), False),
        (("cao2019", "convex"), ("yi2024", "convex"), False),
        (("agarwal2010", "convex"), ("agarwal2010-multi", "convex"), True),
        (("zhang2024", "explicit"), ("yi2024", "explicit"), True),
        (("zhang2024", ""), ("yi2024", ""), False),
    ],
)
def test_a_schedule_means_the_same_where_its_rule_is_the_same(
    one: tuple[str, str], other: tuple[str, str], same: bool
) -> None:
    sections = [AlgorithmSection(name=name, schedule=schedule) for name, schedule in (one, other)]

    assert same_rule(*sections) is same


@pytest.mark.parametrize(
    ("name", "rule", "needed"),
    [("zhang2024", "theorem1", False), ("cao2019", "convex", True), ("cao2019", "anytime", False)],
)
def test_whether_the_number_of_rounds_matters_is_known(name: str, rule: str, needed: bool) -> None:
    numbers = {"gamma0": 0.1} if name == "zhang2024" else {}

    assert needs_horizon(section(name, rule, **numbers), game()) is needed


def test_a_power_beyond_all_numbers_is_a_breach_with_its_round() -> None:
    steps = schedule(section(schedule="explicit", alpha=1, gamma=1, xi=1, delta=[1, 500]), game())

    assert any("delta = inf in round" in sentence for sentence in breaches(steps, Box(4, -5, 5), 1000))
