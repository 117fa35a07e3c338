"""The options that a spec gives to code: a function or class declares them as parameters, with a type and a range.

    def table2(game: Game, *, gamma0: PositiveFloat = 0.15) -> Rule: ...

pydantic compares the values with the annotations, strictly: 1 is a number; true, "1", infinity and NaN are not. What a
file cannot hold is converted: a list to a tuple, text to a Path. A wrong value is a BadSpec of one sentence, which
names the key and the values allowed: from the type and its range, or from the words in the annotation,
`Annotated[float, Field(gt=0, lt=1), "between 0 and 1"]`. An annotation that pydantic does not know, or that names what
is not there, says nothing: its value is passed as it is.
"""

import functools
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, get_type_hints

from pydantic import ConfigDict, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, SchemaError

from slaternet.errors import BadSpec
from slaternet.suggestions import suggestion

P = ParamSpec("P")
T = TypeVar("T")

_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_DEPTH = 32
"""Tables and lists within each other that a file may have; ours have 4, and every level costs a parser some stack."""
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_EXPECTED = {
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "float_type": "a finite number",
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "text in quotes",
    "literal_error": "{expected}",
    "list_type": "a list",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "tuple_type": "a list",
    "enum": "{expected}",
    "dict_type": "a table",
    "model_type": "a table",
    "missing": "given",
}
_UNKNOWN = (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, TypeError)
"""How pydantic says that it knows no such annotation."""


@dataclass(frozen=True)
class Options:
    """The options of a function or class."""

    parameters: Mapping[str, inspect.Parameter]
    open_ended: bool = False
    """Whether it accepts others too, as `**options`."""

    def check(self, names: Collection[str], *, key: str, of: str) -> None:
        """Raise BadSpec for a name under `key` that is not an option `of` something, or for one that is missing."""
        for name in names:
            if name not in self.parameters and not self.open_ended:
                raise BadSpec(f"{key}.{name} is not an option of {of}; {suggestion(name, self.parameters)}")
        for name, parameter in self.parameters.items():
            if parameter.default is parameter.empty and name not in names:
                raise BadSpec(f"{key}.{name} is missing; {of} needs it")

    def read(self, values: Mapping[str, object], *, key: str, error: type[BadSpec] = BadSpec) -> dict[str, Any]:
        """Return the values, converted by the annotations; an error names the wrong one under `key`."""
        return {
            name: read(f"{key}.{name}", self.parameters[name].annotation, value, error)
            if name in self.parameters
            else value
            for name, value in values.items()
        }


def options_of(function: Callable[..., object], given: int) -> Options:
    """Return the options of a function or class: its parameters after the first `given`, which we supply."""
    parameters = list(inspect.signature(function).parameters.values())[given:]
    open_ended = any(each.kind is each.VAR_KEYWORD for each in parameters)
    code = inspect.unwrap(function.__init__ if isinstance(function, type) else function)  # type: ignore[misc]
    names = getattr(code, "__globals__", {})
    return Options(
        {each.name: _evaluated(each, names) for each in parameters if each.kind not in _VARIADIC}, open_ended
    )


def _evaluated(parameter: inspect.Parameter, names: dict[str, Any]) -> inspect.Parameter:
    """Return a parameter with the annotation that its text stands for; as it is where that needs what is not there."""
    if parameter.annotation is parameter.empty:
        return parameter
    alone = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        kind = get_type_hints(alone, names, include_extras=True)[parameter.name]
    except (NameError, AttributeError, TypeError, SyntaxError):
        return parameter
    return parameter.replace(annotation=kind)


def checked(key: str, error: type[BadSpec] = BadSpec) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a constructor check its keyword arguments, which are options under `key`."""

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        options = options_of(function, given=1)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            kwargs.update(options.read(kwargs, key=key, error=error))
            return function(*args, **kwargs)

        return call

    return wrap


def read(key: str, kind: object, value: object, error: type[BadSpec] = BadSpec) -> Any:  # noqa: ANN401  of that kind
    """Return a value, converted by an annotation; an error names `key` where the value is wrong."""
    if kind is inspect.Parameter.empty or isinstance(kind, str):  # no annotation, or one that could not be evaluated
        return value
    try:
        adapter = _adapter(kind)
    except _UNKNOWN:
        return value
    try:
        return adapter.validate_json(json.dumps(value, default=str))
    except PydanticUserError:  # a part of it is the name of what is not there
        return value
    except ValidationError as invalid:
        findings = invalid.errors(include_url=False)
    # Of a union, report the alternative that came closest: the findings deepest inside the value.
    places = [[part for part in each["loc"] if isinstance(part, int)] for each in findings]
    deepest = max(places, key=len)
    closest = [each for each, place in zip(findings, places, strict=True) if place == deepest]
    index = "".join(f"[{part}]" for part in deepest)
    words = () if deepest else (each for each in getattr(kind, "__metadata__", ()) if isinstance(each, str))
    wanted = next(iter(words), None) or " or ".join(dict.fromkeys(map(expected, closest)))
    raise error(f"{key}{index} must be {wanted}, not {repr(closest[0]['input'])[:60]}")


def schema_of(kind: object) -> dict[str, Any] | None:
    """Return the JSON schema of the values that an annotation allows; None where it says nothing."""
    if kind is inspect.Parameter.empty or isinstance(kind, str):
        return None
    try:
        return _adapter(kind).json_schema()
    except _UNKNOWN:
        return None


def expected(finding: ErrorDetails) -> str:
    """Return the values that one of pydantic's findings allows."""
    bounds = finding.get("ctx", {})
    shown = {name: f"{bound:g}" if isinstance(bound, float) else bound for name, bound in bounds.items()}
    if (known := _EXPECTED.get(finding["type"])) is not None:
        return known.format(**shown).replace("'", '"')
    said = finding["msg"]
    return said.removeprefix("Input should be ") if said.startswith("Input") else f"as its annotation says ({said})"


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401  an annotation
    return TypeAdapter(kind, config=_STRICT)


def too_deep(value: object) -> bool:
    """Return whether the tables and lists of a parsed file lie deeper in each other than in any file of ours."""
    level = [value]
    for _ in range(_DEPTH):
        inside = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [each for values in inside for each in values if isinstance(each, dict | list)]
    return bool(level)
