"""Finding the code that a spec names: adversaries, algorithms and graphs.

A target is one of
    zhang2024            a name in the entry-point group (built-ins are registered there too)
    pkg.module:Class     a class of an installed package
    path/file.py:Class   a class of a file, which may import other files of its folder
    grpc://HOST:PORT     a program that serves an adversary; there is nothing to load
    exec:./drones {port} the same, started by the game; see `programs`
    session:Class        a class of the running Python session, which no file holds; see `session`

The SHA-256 of a target covers its file and all that it imports of the same folder or package, as `sources` finds it; of
a built-in, the release of Slaternet too.
"""

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import os
from bdb import BdbQuit
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import entry_points, version
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from slaternet.errors import BadSpec, PluginFailed, SlaternetError
from slaternet.fields import options_of
from slaternet.model import Agents
from slaternet.spec import programs, session
from slaternet.spec.author_frames import know_folder, know_package, raised
from slaternet.spec.debugger import DebuggerNeeded
from slaternet.spec.file_options import file_options
from slaternet.spec.sources import OURS, Sources, execute, of_file, of_module
from slaternet.suggestions import suggestion

ADVERSARIES = "slaternet.adversaries"
"""The group of adversaries; it is defined here so that a worker can load one without importing the adversary."""
FOREIGN = "grpc://"

_ENDINGS = (BdbQuit, DebuggerNeeded, KeyboardInterrupt, GeneratorExit)
"""What ends more than a call: a debugger's, the user's and Python's own; panics of compiled libraries do not."""

_imported: dict[str, str] = {}
"""The hashes that modules had when they were imported: a process executes a module once."""


class plugin_edge:  # noqa: N801  used as a function, like contextlib.suppress
    """Turn any exception of a user's code within the block into PluginFailed.

    `kind` and `name` identify the plugin. What was called is data: the `method` (empty: the first function of the
    author's in the traceback), the `round` (a function if it is known only at the end of the block), the `agents`, and
    the object that has the method, `of`. Errors of the types `passing` are our own and pass through; so do Ctrl-C, and
    what ends a debugger or refuses one. A class, because a game passes several edges a round, and a generator costs
    three times as much; nothing is put into words unless the block fails.
    """

    __slots__ = ("_call", "_kind", "_name", "_passing")

    def __init__(
        self,
        kind: str,
        name: str,
        method: str = "",
        round: int | Callable[[], int] = 0,
        agents: Agents | None = None,
        *,
        of: object = None,
        passing: tuple[type[BaseException], ...] = (SlaternetError,),
    ) -> None:
        self._kind, self._name, self._passing = kind, name, passing
        self._call = method, round, agents, of

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if error is not None and not isinstance(error, (*self._passing, *_ENDINGS)):
            raise self._failed(error) from error

    def _failed(self, error: BaseException) -> PluginFailed:
        method, round, agents, of = self._call
        fault = raised(error, method, round() if callable(round) else round, agents, of)
        return PluginFailed.by(f"{self._kind} {self._name}", fault)


@dataclass(frozen=True)
class Loaded:
    """A class that a spec names, and the SHA-256 of its code."""

    target: str
    factory: type[Any]
    sha256: str


def load(group: str, target: str, *, key: str) -> Loaded:
    """Import the class that `target` names in the entry-point `group`.

    Raises BadSpec naming `key` where it does not exist, PluginFailed where its code raises on import.
    """
    where, name = place(group, target, key=key)
    if where == session.SESSION:
        factory = _class_of_session(name, key)
        return Loaded(target, factory, session.sha256(factory))
    if _is_file(where):
        sources = _read_file(where, key)
        digest = sources.sha256()
        know_folder(Path(where).resolve().parent)
        with plugin_edge(f"code of {key} =", str(Path(where).resolve()), "import", passing=()):
            module = execute(sources, digest)
    else:
        know_package(where)
        module = _import_module(where, key)
        digest = _hash_module(where, key)
        if _imported.setdefault(where, digest) != digest:
            raise BadSpec(
                f"{key} names the module {where}, which has changed since it was imported; start Python again"
            )
    return Loaded(target, _class_in(module, name, where, key), digest)


def digest(group: str, target: str, *, key: str) -> str:
    """Return the SHA-256 that `load` returns, without executing the code; BadSpec where there is no such code."""
    where, name = place(group, target, key=key)
    if where == session.SESSION:
        return session.sha256(_class_of_session(name, key))
    return _read_file(where, key).sha256() if _is_file(where) else _hash_module(where, key)


def files_of(group: str, target: str, *, key: str) -> tuple[str, ...]:
    """Return the options of a target that name files, without executing its code; none where there is no such code."""
    if not is_python(target) or session.is_of_session(target):
        return ()
    try:
        where, name = place(group, target, key=key)
        sources = _read_file(where, key) if _is_file(where) else _read_module(where, key)
    except BadSpec:
        return ()  # it is refused where it is loaded
    return file_options(sources, name) if sources is not None else ()


def files(group: str, target: str, *, key: str) -> list[Path]:
    """Return the files that the SHA-256 of a target covers; none of a built-in, and where it is in no file."""
    if programs.is_program(target):
        return [Path(word) for word in programs.words(target) if os.path.isabs(word)]
    if is_foreign(target) or session.is_of_session(target):
        return []
    where, _ = place(group, target, key=key)
    if where.partition(".")[0] in OURS:
        return []
    if _is_file(where):
        path = Path(where).resolve()
        return [path, *(_read_file(where, key).paths if path.is_file() else ())]
    sources = _read_module(where, key)
    return [] if sources is None else sources.paths


def is_foreign(target: str) -> bool:
    """Return whether a target is a program that serves the plugin."""
    return target.startswith(FOREIGN)


def is_python(target: str) -> bool:
    """Return whether a target is a class, which `load` finds."""
    return not is_foreign(target) and not programs.is_program(target)


def absolute(target: str, base: Path) -> str:
    """Return `target` with a relative file path made absolute against `base`; other targets unchanged."""
    if programs.is_program(target):
        # not the real path: an interpreter finds its packages by the link that names it
        return programs.with_paths(target, lambda path: os.path.abspath(base / path))
    where, colon, name = target.rpartition(":")
    if not colon or not _is_file(where) or is_foreign(target):
        return target
    return f"{os.path.realpath(base / where)}:{name}"


def check_options(factory: type[Any], options: Mapping[str, object], *, key: str, given: int) -> dict[str, Any]:
    """Return `options`, converted by the hints of the constructor's parameters after the first `given`, ours.

    Raises BadSpec naming an option under `key` that the constructor does not take, that it needs, or of another kind.
    """
    taken = options_of(factory, given)
    taken.check(options, key=key, of=factory.__name__)
    return taken.read(options, key=key)


def place(group: str, target: str, *, key: str) -> tuple[str, str]:
    """Return the module or file, and the class, that a target names; BadSpec where the name is not registered."""
    if ":" not in target:
        known = _registered(group)
        if target not in known:
            remedy = suggestion(target, known)
            raise BadSpec(f'{key} = "{target}" is not known; {remedy} (your own: "path/file.py:Class")')
        target = known[target]
    where, _, name = target.rpartition(":")
    if not where or not name:
        raise BadSpec(f'{key} = "{target}" must name a class as "path/file.py:Class" or "pkg.module:Class"')
    return where, name


@functools.cache
def _registered(group: str) -> dict[str, str]:
    """Return the targets of a group by name; reading the installed entry points takes milliseconds."""
    return {entry.name: entry.value for entry in entry_points(group=group)}


def _is_file(where: str) -> bool:
    return where.endswith(".py") or "/" in where or "\\" in where


def _import_module(name: str, key: str) -> ModuleType:
    with plugin_edge(f"code of {key} =", name, "import"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
                raise _not_installed(name, key) from error
            raise


def _class_in(module: ModuleType, name: str, where: str, key: str) -> type[Any]:
    found = getattr(module, name, None)
    if not isinstance(found, type):
        classes = [each for each, value in vars(module).items() if isinstance(value, type)]
        raise BadSpec(f"{key} names {name}, which is not a class of {where}; {suggestion(name, classes)}")
    return found


def _class_of_session(name: str, key: str) -> type[Any]:
    if (found := session.known(name)) is not None:
        return found
    raise BadSpec(
        f"{key} names {name}, a class that lived in a Python session which is over; write it into a file, and name "
        f'"path/file.py:{name}"'
    )


def _find_module(name: str) -> ModuleSpec | None:
    """Find a module without importing its parent packages, as importlib.util.find_spec would."""
    first, *rest = name.split(".")
    try:
        found = importlib.util.find_spec(first) if first else None
    except ValueError:  # it is running as a script, and has no spec
        return None
    for depth, _ in enumerate(rest, start=2):
        if found is None or found.submodule_search_locations is None:
            return None
        found = PathFinder.find_spec(".".join(name.split(".")[:depth]), found.submodule_search_locations)
    return found


def _not_installed(module: str, key: str) -> BadSpec:
    return BadSpec(f"{key} names the module {module}, which is not installed; install its package or name its file")


def _read_file(where: str, key: str) -> Sources:
    path = Path(where).resolve()
    if not path.is_file():
        raise BadSpec(f"{key} names the file {where}, which does not exist; correct the path")
    if path.suffix != ".py":
        raise BadSpec(f"{key} names the file {path}, which is not Python; its name must end in .py")
    with _readable(key):
        return of_file(path)


def _hash_module(where: str, key: str) -> str:
    return _hash_built_in(where, key) if where.partition(".")[0] in OURS else _hash_found(where, key)


@functools.cache
def _hash_built_in(where: str, key: str) -> str:
    """Return a hash that differs from release to release: built-ins share code of several packages."""
    return hashlib.sha256(f"slaternet {version('slaternet')} {_hash_found(where, key)}".encode()).hexdigest()


def _hash_found(where: str, key: str) -> str:
    sources = _read_module(where, key)
    return sources.sha256() if sources is not None else ""


def _read_module(where: str, key: str) -> Sources | None:
    found = _find_module(where)
    if found is None:
        raise _not_installed(where, key)
    if found.origin is None or not found.has_location:
        return None  # compiled into the interpreter, or a namespace without code
    top = _find_module(where.partition(".")[0])
    assert top is not None  # it was found on the way to the module
    package = found.submodule_search_locations is not None
    with _readable(key):
        return of_module(where, Path(found.origin), top.submodule_search_locations, package=package)


@contextlib.contextmanager
def _readable(key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadSpec(
            f"{key} needs the file {error.filename}, which cannot be read: {error.strerror}; mend that"
        ) from None
