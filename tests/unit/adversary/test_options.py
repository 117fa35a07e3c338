"""Options of an adversary of one's own: converted by the constructor's hints, in this process and in a worker."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from tests.support.specs import small_spec

from slaternet.errors import BadSpec
from slaternet_adversary.plugin.makers import open_plugin
from slaternet_adversary.testing import AdversaryContract, examine

TYPED = """
from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field, PositiveFloat

from slaternet_adversary import Adversary

if TYPE_CHECKING:
    from nowhere import Unknown

class Season(Enum):
    DRY = "dry"
    WET = "wet"

class Values:
    def __init__(self, given):
        self.given = given

    def loss(self, agents, points):
        text = repr(sorted(self.given.items()))
        return np.full(points.shape[:2], float(sum(text.encode())))

    def constraint(self, agents, points):
        return points[..., :1] - 1.0

class Typed(Adversary):
    constraints = 1

    def __init__(
        self, game, *,
        budget: PositiveFloat = "no number",
        share: Annotated[float, Field(gt=0, lt=1), "between 0 and 1"] = 0.5,
        days: int = 1,
        pair: tuple[float, float] = (0.0, 0.0),
        season: Season = Season.DRY,
        table: npt.NDArray[np.float64] | None = None,
        later: Unknown = None,
        deep: list[Unknown] = None,
        array: npt.ArrayLike = (),
        plain=None,
        **others: float,
    ) -> None:
        super().__init__(game)
        self.given = dict(
            budget=budget, share=share, days=days, pair=pair, season=season, table=table, later=later, deep=deep,
            array=array, plain=plain, **others,
        )

    def play(self, round, past):
        return Values(self.given)
"""
GIVEN: dict[str, object] = {
    "budget": 3,
    "pair": [1, 2.5],
    "season": "wet",
    "table": [1, 2],
    "later": "2026",
    "deep": [1],
    "array": [[1]],
    "plain": 4,
    "other": 5,
}
Isolation = Literal["none", "process"]


@pytest.fixture
def typed(tmp_path: Path) -> str:
    (tmp_path / "typed.py").write_text(TYPED)
    return f"{tmp_path / 'typed.py'}:Typed"


def opened(target: str, isolation: Isolation, options: dict[str, object]) -> Any:
    adversary = {"plugin": target, "isolation": isolation, "options": options}
    return open_plugin(small_spec(2, 2, rounds=2).replace(adversary=adversary))


def test_options_are_what_the_hints_say_and_without_a_known_hint_what_was_given(typed: str) -> None:
    with opened(typed, "none", GIVEN) as (plugin, _):
        given = plugin.given

    assert repr(given["budget"]) == "3.0"
    assert repr(given["pair"]) == "(1.0, 2.5)"
    assert given["season"].name == "WET"
    assert {name: given[name] for name in GIVEN if name not in ("budget", "pair", "season")} == {
        name: value for name, value in GIVEN.items() if name not in ("budget", "pair", "season")
    }


def test_a_default_is_the_author_s(typed: str) -> None:
    with opened(typed, "none", {}) as (plugin, _):
        assert plugin.given["budget"] == "no number"


def test_a_worker_converts_as_this_process_does(typed: str) -> None:
    values = []
    for isolation in ("none", "process"):
        with opened(typed, isolation, GIVEN) as (plugin, _):
            values.append(plugin.play(1, None).loss(np.arange(2), np.zeros((2, 1, 2))).tolist())

    assert values[0] == values[1]


@pytest.mark.parametrize("isolation", ["none", "process"])
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"budget": -1}, r"adversary\.options\.budget must be above 0, not -1"),
        ({"share": 1.5}, r"adversary\.options\.share must be between 0 and 1, not 1\.5"),
        ({"days": 2.0}, r"adversary\.options\.days must be a whole number, not 2\.0"),
        ({"pair": [1]}, r"adversary\.options\.pair\[1\] must be given, not \[1\]"),
        ({"season": "hot"}, r"adversary\.options\.season must be \"dry\" or \"wet\", not 'hot'"),
    ],
)
def test_a_wrong_value_is_one_sentence(
    typed: str, isolation: Isolation, options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(BadSpec, match=f"^{sentence}$"), opened(typed, isolation, options):
        pass


def test_the_exam_and_its_class_of_tests_convert_too(typed: str) -> None:
    spec = small_spec(2, 2, rounds=2)
    taken = spec.replace(adversary={"plugin": typed, "isolation": "none", "options": GIVEN})

    class TestTyped(AdversaryContract):
        target = typed
        options = GIVEN

    assert [line.text for line in examine(taken) if line.verdict == "failed"] == []
    TestTyped().test_it_plays()
