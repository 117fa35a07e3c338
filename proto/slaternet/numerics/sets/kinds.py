"""The kinds of sets a spec can name."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field, PositiveInt

from slaternet.errors import BadSpec
from slaternet.fields import Options, options_of, read
from slaternet.numerics.sets.ball import Ball
from slaternet.numerics.sets.base import BaseSet, FeasibleSet, Vector
from slaternet.numerics.sets.box import Box
from slaternet.numerics.sets.composed import Product, Shifted
from slaternet.numerics.sets.halfspaces import Halfspaces
from slaternet.numerics.sets.simplex import L1Ball, Simplex
from slaternet.suggestions import suggestion

Table = Annotated[dict[str, Any], 'a table such as {kind = "ball", radius = 1}']
Parts = Annotated[list[Table], Field(min_length=1), "a list of tables with kind, dimension and numbers"]


def make_set(kind: str, dimension: int, numbers: Mapping[str, object]) -> FeasibleSet:
    """Return the set that `[set]` of a spec describes; BadSpec names the key at fault."""
    return _make("set", kind, dimension, numbers)


def _make(key: str, kind: object, dimension: int, numbers: Mapping[str, object]) -> BaseSet:
    if not isinstance(kind, str) or kind not in _KINDS:
        raise BadSpec(f'{key}.kind = "{kind}" is not known; {suggestion(str(kind), _KINDS)}')
    parameters = options_of(_KINDS[kind], given=1).parameters
    options = Options({name: each for name, each in parameters.items() if name != "key"})
    options.check(numbers, key=key, of=f'kind "{kind}"')
    return _KINDS[kind](dimension, **options.read(numbers, key=key), key=key)


def _product(dimension: int, parts: Parts, *, key: str) -> Product:
    """Return the product of the sets that the tables `parts` describe."""
    tables = [(f"{key}.parts[{place}]", dict(part)) for place, part in enumerate(parts)]
    sizes = [read(f"{where}.dimension", PositiveInt, table.pop("dimension", None)) for where, table in tables]
    if sum(sizes) != dimension:
        raise BadSpec(
            f"{key}.parts have {sum(sizes)} coordinates together, but {dimension} are needed; "
            "make their dimensions add up to run.dimension"
        )
    return Product([_inner(*each, size) for each, size in zip(tables, sizes, strict=True)], key=key)


def _shifted(dimension: int, of: Table, by: Vector, *, key: str) -> Shifted:
    """Return the set that the table `of` describes, moved."""
    return Shifted(_inner(f"{key}.of", of, dimension), by, key=key)


def _inner(key: str, table: Mapping[str, object], dimension: int) -> BaseSet:
    if "kind" not in table:
        raise BadSpec(f"{key}.kind is missing; {suggestion('', _KINDS)}")
    return _make(key, table["kind"], dimension, {name: value for name, value in table.items() if name != "kind"})


_KINDS: dict[str, Callable[..., BaseSet]] = {
    "box": Box,
    "ball": Ball,
    "simplex": Simplex,
    "l1-ball": L1Ball,
    "halfspaces": Halfspaces,
    "product": _product,
    "shifted": _shifted,
}
"""Each is called with the dimension, its numbers, and the key of the table they stand in."""
