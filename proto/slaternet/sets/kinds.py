"""The kinds of sets a spec can name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slaternet.errors import BadSpec
from slaternet.sets.ball import Ball
from slaternet.sets.base import FeasibleSet, Solid
from slaternet.sets.box import Box
from slaternet.sets.composed import Product, Shifted
from slaternet.sets.halfspaces import Halfspaces
from slaternet.sets.simplex import L1Ball, Simplex
from slaternet.words import suggestion


def make_set(kind: str, dimension: int, numbers: Mapping[str, object]) -> FeasibleSet:
    """Return the set that `[set]` of a spec describes; BadSpec names the key at fault."""
    return _make("set", kind, dimension, numbers)


@dataclass(frozen=True, slots=True)
class _Kind:
    numbers: tuple[str, ...]
    build: Callable[..., Solid]  # (dimension, *numbers, key)


def _make(key: str, kind: object, dimension: int, numbers: Mapping[str, object]) -> Solid:
    if not isinstance(kind, str) or kind not in _KINDS:
        raise BadSpec(f'{key}.kind = "{kind}" is not known; {suggestion(str(kind), _KINDS)}')
    known = _KINDS[kind].numbers
    for name in numbers:
        if name not in known:
            raise BadSpec(f'{key}.{name} is not a number of kind "{kind}"; {suggestion(name, known)}')
    for name in known:
        if name not in numbers:
            raise BadSpec(f'{key}.{name} is missing; add it to [{key}], kind "{kind}" needs {" and ".join(known)}')
    return _KINDS[kind].build(dimension, *(numbers[name] for name in known), key=key)


def _product(dimension: int, parts: object, *, key: str) -> Product:
    """Return the product of the sets that the tables `parts` describe."""
    if not isinstance(parts, list | tuple) or not parts:
        raise BadSpec(f"{key}.parts must be a list of tables with kind, dimension and numbers, not {repr(parts)[:60]}")
    tables = [_table(f"{key}.parts[{place}]", part) for place, part in enumerate(parts)]
    sizes = [_dimension(f"{key}.parts[{place}]", table) for place, table in enumerate(tables)]
    if sum(sizes) != dimension:
        raise BadSpec(
            f"{key}.parts have {sum(sizes)} coordinates together, but {dimension} are needed; "
            "make their dimensions add up to run.dimension"
        )
    solids = [
        _make(f"{key}.parts[{place}]", table.pop("kind"), size, table)
        for place, (table, size) in enumerate(zip(tables, sizes, strict=True))
    ]
    return Product(solids, key=key)


def _shifted(dimension: int, of: object, by: object, *, key: str) -> Shifted:
    """Return the set that the table `of` describes, moved."""
    table = _table(f"{key}.of", of)
    return Shifted(_make(f"{key}.of", table.pop("kind"), dimension, table), by, key=key)


def _table(key: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise BadSpec(f'{key} must be a table such as {{kind = "ball", radius = 1}}, not {repr(value)[:60]}')
    if "kind" not in value:
        raise BadSpec(f"{key}.kind is missing; {suggestion('', _KINDS)}")
    return dict(value)


def _dimension(key: str, table: dict[str, object]) -> int:
    """Take the dimension out of a part's table."""
    dimension = table.pop("dimension", None)
    if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
        raise BadSpec(f"{key}.dimension must be a whole number of at least 1, not {repr(dimension)[:60]}")
    return dimension


_KINDS: dict[str, _Kind] = {
    "box": _Kind(("lower", "upper"), Box),
    "ball": _Kind(("radius",), Ball),
    "simplex": _Kind(("size",), Simplex),
    "l1-ball": _Kind(("radius",), L1Ball),
    "halfspaces": _Kind(("normals", "bounds"), Halfspaces),
    "product": _Kind(("parts",), _product),
    "shifted": _Kind(("of", "by"), _shifted),
}
