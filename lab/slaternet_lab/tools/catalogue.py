"""The adversaries that a spec can name, and the options of each, as their constructors declare them."""

import contextlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import entry_points
from typing import Any

from slaternet.errors import BadSpec, SlaternetError
from slaternet.fields import options_of, schema_of
from slaternet.spec.plugins import ADVERSARIES, is_python, load
from slaternet_adversary.api import Adversary

_KEY = "TARGET"
_KINDS = {"number": "a number", "integer": "a whole number", "boolean": "true or false", "string": "text"}
_BOUNDS = {"exclusiveMinimum": "above", "minimum": "at least", "exclusiveMaximum": "below", "maximum": "at most"}


@dataclass(frozen=True)
class Option:
    """An option of an adversary."""

    name: str
    type: str
    """What a spec may say, in words."""
    default: str
    """As a spec would say it; empty where the option must be given, or is absent if it is not."""
    required: bool
    about: str
    """The words of its annotation."""


@dataclass(frozen=True)
class Entry:
    """An adversary that a spec can name."""

    target: str
    code: str
    """pkg.module:Class, or file.py:Class."""
    about: str
    """Its docstring, or why it cannot be loaded."""
    constraints: int | None = None
    """m, where the class declares it; None where the constructor may choose it. So are the next two."""
    history: int | None = None
    rowwise: bool | None = None
    options: tuple[Option, ...] = ()
    broken: bool = False

    @property
    def title(self) -> str:
        """The first line of its docstring."""
        return self.about.partition("\n")[0]


def registered() -> Iterator[Entry]:
    """Yield all adversaries that are registered as entry points, by name; one that cannot be loaded says why."""
    for entry in sorted(entry_points(group=ADVERSARIES), key=lambda each: each.name):
        try:
            yield find(entry.name)
        except SlaternetError as error:
            yield Entry(entry.name, entry.value, str(error), broken=True)


def find(target: str) -> Entry:
    """Return the adversary that a name or target means; BadSpec or PluginFailed where it cannot be loaded."""
    if not is_python(target):
        raise BadSpec(f"{target} is a program of its own, which knows its options alone; ask its author, or its docs")
    with contextlib.redirect_stdout(sys.stderr):  # what a module prints is none of our result
        factory = load(ADVERSARIES, target, key=_KEY).factory
    # not those of the base class: a constructor may set others
    own = [vars(each) for each in reversed(factory.__mro__) if each not in Adversary.__mro__]
    declared: dict[str, Any] = {name: value for each in own for name, value in each.items() if isinstance(value, int)}
    return Entry(
        target,
        f"{inspect.getsourcefile(factory) if '.py:' in target else factory.__module__}:{factory.__name__}",
        _docstring(factory),
        constraints=declared.get("constraints"),
        history=declared.get("history"),
        rowwise=declared.get("rowwise"),
        options=tuple(_option(each) for each in options_of(factory, given=1).parameters.values()),
    )


def _docstring(factory: type[Any]) -> str:
    """Return the docstring of a class, not of one that it inherits from, and that of its module: built-ins' rules."""
    module = sys.modules.get(factory.__module__)
    parts = (vars(factory).get("__doc__"), getattr(module, "__doc__", None))
    return "\n\n".join(inspect.cleandoc(each) for each in parts if each)


def _option(parameter: inspect.Parameter) -> Option:
    kind, default, required = parameter.annotation, parameter.default, parameter.default is parameter.empty
    schema = schema_of(kind)
    words = [each for each in getattr(kind, "__metadata__", ()) if isinstance(each, str)]
    if schema is None:
        text = "anything" if kind is parameter.empty else f"anything ({inspect.formatannotation(kind)})"
    else:
        text, words = in_words(schema), words or [schema.get("description", "")]
    plain = default.value if isinstance(default, Enum) else default
    shown = "" if required or default is None else json.dumps(plain, default=str)
    return Option(parameter.name, text, shown, required, " ".join(words))


def in_words(schema: Mapping[str, Any]) -> str:
    """Return the values that a JSON schema allows, in words."""
    definitions = schema.get("$defs", {})

    def words(part: Mapping[str, Any]) -> str:
        match part:
            case {"$ref": str(name)}:
                return words(definitions[name.rpartition("/")[2]])
            case {"anyOf": alternatives}:
                return " or ".join(dict.fromkeys(words(each) for each in alternatives if each != {"type": "null"}))
            case {"const": value}:
                return json.dumps(value)
            case {"enum": values}:
                return " or ".join(map(json.dumps, values))
            case {"type": "string", "format": "path" | "file-path"}:
                return "a file"
            case {"prefixItems": items}:
                return f"a list of {' and '.join(map(words, items))}"
            case {"type": "array", "items": each}:
                return f"a list, each {words(each)}"
            case {"type": "object"}:
                return "a table"
            case _:
                bounds = [f"{told} {part[name]:g}" for name, told in _BOUNDS.items() if name in part]
                return " ".join([_KINDS.get(part.get("type", ""), "anything"), " and ".join(bounds)]).rstrip()

    return words(schema)
