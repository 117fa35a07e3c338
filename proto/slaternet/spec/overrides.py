"""Reading a spec's TOML, and `--set key=value`."""

import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence

from slaternet.errors import BadSpec
from slaternet.fields import too_deep
from slaternet.limits import LIMITS

_NAMING: dict[str, Callable[[Collection[str]], Collection[str]]] = {
    "algorithm.name": lambda keys: ("sha256", "mode", "horizon"),
    "adversary.plugin": lambda keys: ("options", "sha256", "isolation", "segments"),
    "graph.name": lambda keys: keys,
    "gossip.code": lambda keys: {*keys} - {"trigger", "trigger_power"},
    "set.kind": lambda keys: keys,
}
"""The keys that name code or a kind, and the other keys of their section that belong to it."""

_BASIS = {
    "graph.path": "graph.sha256",
    "run.rounds": "algorithm.horizon",
}
"""Keys, and the key that is derived from each and removed when it changes."""


_PART = r"""(?:(?<![\w-])[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"{_PART}(?:[ \t]*\.[ \t]*{_PART}){{40,}}")
"""A key of very many parts, for which tomllib takes the square of their number."""
_BITS = 128
"""Of an integer; those of TOML have 64, and a key's own limits name those that are a little longer."""
_TOO_LONG = f"an integer has more than {_BITS} bits"


def read(text: str, *, source: str) -> dict[str, object]:
    """Return the tables of a TOML text; BadSpec names line and column of a mistake."""
    if len(text.encode()) > LIMITS.spec_bytes:
        raise BadSpec(f"{source} is longer than {LIMITS.spec_bytes} bytes; a spec holds settings, not data")
    if _LONG_KEY.search(text):
        raise _nested(source)
    try:
        tables = _parsed(text)
    except ValueError as error:
        what = str(error)
        raise BadSpec(f"{source} is not TOML: {what[:1].lower()}{what[1:]}; correct it there") from error
    except RecursionError as error:
        raise _nested(source) from error
    if too_deep(tables):
        raise _nested(source)
    return tables


def _nested(source: str) -> BadSpec:
    return BadSpec(f"{source} has tables or lists within each other deeper than any spec; write it as the shipped ones")


def _parsed(text: str) -> dict[str, object]:
    """Parse TOML; integers that have thousands of digits could be calculated with, but not printed."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        raise ValueError(_TOO_LONG) from None
    values: list[object] = [tables]
    while values:
        match values.pop():
            case dict(table):
                values += table.values()
            case list(items):
                values += items
            case int(number) if number.bit_length() > _BITS:
                raise ValueError(_TOO_LONG)
    return tables


def override(spec: str | Mapping[str, object], settings: Sequence[str], *, source: str = "spec") -> dict[str, object]:
    """Apply `key=value` settings to a spec given as text or tables.

    A value is TOML, or else a plain string; an empty value removes the key. Naming another graph, set, code of rows or
    adversary drops the numbers of the old one; the numbers of algorithms are handled where algorithms are known.
    """
    tables: dict[str, object] = read(spec, source=source) if isinstance(spec, str) else dict(spec)
    pairs = [_pair(setting) for setting in settings]
    for key, value in sorted(pairs, key=lambda pair: pair[0] not in _NAMING):  # first names, then their numbers
        section, _, last = key.partition(".")
        table = tables.get(section)
        if key in _NAMING and isinstance(table, dict) and table.get(last) != value:  # drop the keys of the old name
            tables[section] = {each: kept for each, kept in table.items() if each not in _NAMING[key](table)}
        assign(tables, key, value)
        if key in _BASIS and _BASIS[key].partition(".")[0] in tables:
            assign(tables, _BASIS[key], None)
    return tables


def _pair(setting: str) -> tuple[str, object]:
    key, equals, value = setting.partition("=")
    if not equals or not all(key.strip().split(".")) or "." not in key:
        raise BadSpec(f"--set {setting} is not section.key=value; write for example --set run.rounds=200")
    return key.strip(), _value(value.strip())


def _value(text: str) -> object:
    if not text:
        return None
    try:
        tables = _parsed(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return tables["value"] if len(tables) == 1 else text


def assign(tables: dict[str, object], key: str, value: object) -> None:
    """Set a dotted key of nested tables; None removes it."""
    *path, last = key.split(".")
    table = tables
    for depth, part in enumerate(path):
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise BadSpec(f"{key} cannot be set, because {'.'.join(path[: depth + 1])} is a value and not a section")
        table[part] = table = dict(inner)
    if value is None:
        table.pop(last, None)
    else:
        table[last] = value
