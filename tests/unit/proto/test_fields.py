from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt

from slaternet.errors import BadSpec
from slaternet.fields import checked, options_of, read


class Impossible(BadSpec):
    pass


class Bowl:
    @checked("adversary.options", Impossible)
    def __init__(self, game: object, *, budget: PositiveFloat = 1.0, rows: PositiveInt) -> None:
        self.given = game, budget, rows


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        (PositiveFloat, 0, "key must be above 0, not 0"),
        (PositiveFloat, True, "key must be a finite number, not True"),
        (PositiveFloat, "1", "key must be a finite number, not '1'"),
        (PositiveFloat, float("inf"), "key must be a finite number, not inf"),
        (float, float("nan"), "key must be a finite number, not nan"),
        (float, 10**400, f"key must be a finite number, not 1{'0' * 59}"),
        (PositiveInt, 2.0, "key must be a whole number, not 2.0"),
        (bool, 1, "key must be true or false, not 1"),
        (str, 1, "key must be text in quotes, not 1"),
        (Literal["a", "b"], "c", 'key must be "a" or "b", not \'c\''),
        (Annotated[float, Field(ge=0, lt=0.5)], 0.5, "key must be below 0.5, not 0.5"),
        (Annotated[float, Field(gt=0, lt=1), "between 0 and 1"], 1, "key must be between 0 and 1, not 1"),
        (dict[str, int], 3, "key must be a table, not 3"),
        (list[list[float]], [[1.0], [2.0, "x"]], "key[1][1] must be a finite number, not 'x'"),
        (float | list[float], "x", "key must be a finite number or a list, not 'x'"),
        (float | list[PositiveFloat], [1, -1], "key[1] must be above 0, not -1"),
    ],
)
def test_a_value_that_does_not_suit_is_named_with_what_is_expected(kind: object, value: object, sentence: str) -> None:
    with pytest.raises(BadSpec) as error:
        read("key", kind, value)

    assert str(error.value) == sentence


def test_whole_numbers_are_numbers_and_what_is_not_annotated_is_not_changed() -> None:
    assert repr(read("key", float, 3)) == "3.0"
    assert repr(read("key", float | list[float], [1, 2.5])) == "[1.0, 2.5]"
    assert read("key", "float", "three") == "three"  # annotations that are not evaluated


@pytest.mark.parametrize(
    "kind",
    [np.ndarray, NDArray[np.float64], float | np.ndarray, list["Nowhere"], Annotated[int, []], object],  # type: ignore[name-defined]  # noqa: F821
)
def test_an_annotation_that_is_not_known_says_nothing(kind: object) -> None:
    assert read("key", kind, [1, "x"]) == [1, "x"]


@pytest.mark.parametrize(
    ("kind", "value", "converted"),
    [
        (Path, "a/b", Path("a/b")),
        (Path | None, "a", Path("a")),
        (tuple[float, ...], [1, 2], (1.0, 2.0)),
        (set[str], ["a", "a"], {"a"}),
        (float, 0.1 + 0.2, 0.1 + 0.2),
        (float, 5e-324, 5e-324),
        (float, 2**53 + 1, 2.0**53),
    ],
)
def test_what_a_file_cannot_hold_is_converted_and_numbers_keep_their_bits(
    kind: object, value: object, converted: object
) -> None:
    assert read("key", kind, value) == converted


def test_a_constructor_reads_its_options_however_it_is_called() -> None:
    assert Bowl("game", budget=3, rows=2).given == ("game", 3.0, 2)
    with pytest.raises(Impossible, match=r"^adversary\.options\.budget must be above 0, not -1$"):
        Bowl("game", budget=-1, rows=2)


def test_options_are_the_parameters_beyond_those_that_are_supplied() -> None:
    options = options_of(Bowl, given=1)

    assert list(options.parameters) == ["budget", "rows"]
    with pytest.raises(BadSpec, match=r"^key\.budgt is not an option of Bowl; did you mean budget\?$"):
        options.check(["budgt", "rows"], key="key", of="Bowl")
    with pytest.raises(BadSpec, match=r"^key\.rows is missing; Bowl needs it$"):
        options.check(["budget"], key="key", of="Bowl")
