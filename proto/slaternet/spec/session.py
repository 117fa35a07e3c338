"""Classes of a Python session that no file holds: of a notebook's cells, of `__main__`, of a function.

A spec names such a class "session:Mine" while the session lasts; afterwards nobody can play it again. Its SHA-256
covers the cells or files that it stands in, and those of the session's classes and functions that it names.
"""

import hashlib
import linecache
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any

SESSION = "session"
"""What stands in a target in the place of a file or module."""

_MAIN = ("__main__", "__mp_main__")
_GENERATED = "<string>"
"""The file of methods that a dataclass generates."""

_classes: dict[str, type[Any]] = {}
"""The newest class of each name."""


def target_of(factory: type[Any]) -> str:
    """Return how a spec names a class: by the file or package that has it, else by the running session.

    A class of a file is then played as the file is saved, whatever the session has imported.
    """
    name, module = factory.__name__, sys.modules.get(factory.__module__)
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    if origin and factory.__module__ not in _MAIN and getattr(module, factory.__qualname__, None) is factory:
        alone = "." not in factory.__module__ and "site-packages" not in origin
        return f"{origin if alone else factory.__module__}:{name}"
    _classes[name] = factory
    return f"{SESSION}:{name}"


def is_of_session(target: str) -> bool:
    """Return whether a target names a class of a session, of this one or another."""
    return target.startswith(f"{SESSION}:")


def known(name: str) -> type[Any] | None:
    """Return the class of the running session that has the name."""
    return _classes.get(name)


def sha256(factory: type[Any]) -> str:
    """Return the SHA-256 of the texts that a class stands in, sorted; "" where one of them is not known."""
    texts = ["".join(linecache.getlines(file)) for file in {code.co_filename for code in _codes(factory)}]
    return hashlib.sha256("\0".join(sorted(texts)).encode()).hexdigest() if texts and all(texts) else ""


def _codes(factory: type[Any]) -> Iterator[CodeType]:
    """Yield the code of a class, of its bases, and of what these name, as far as it is of the same module."""
    todo: list[object] = [factory]
    seen: set[int] = set()
    while todo:
        each = todo.pop()
        if id(each) in seen or getattr(each, "__module__", None) != factory.__module__:
            continue
        seen.add(id(each))
        if isinstance(each, type):
            todo += [*each.__bases__, *map(_function, vars(each).values())]
        elif isinstance(each, FunctionType) and each.__code__.co_filename != _GENERATED:
            yield each.__code__
            todo += [each.__globals__.get(name) for name in _names(each.__code__)]
            for cell in each.__closure__ or ():
                with suppress(ValueError):  # it holds nothing yet
                    todo.append(cell.cell_contents)


def _function(member: object) -> object:
    """Return the function behind a member of a class."""
    return next((f for way in ("__func__", "fget", "__wrapped__") if (f := getattr(member, way, None))), member)


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that a function uses, also in functions within it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
