"""Which code is a plugin author's, and the record of what went wrong in it."""

import contextlib
import functools
import inspect
import linecache
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from slaternet.limits import LIMITS
from slaternet.model import Agents
from slaternet.plugin_faults import REMEDY, CodeLine, PluginFault
from slaternet.spec.sources import OURS, PLUGINS
from slaternet.texts import cleaned, cleaned_lines

_INSTALLED = ("site-packages", "dist-packages")
_OURS = (*OURS, "slaternet_lab")

_MESSAGE, _SOURCE = LIMITS.text_bytes // 2, LIMITS.text_bytes // 4
"""Letters of an error's text, and of a line of code: together they leave room for a sentence around them."""

_folders: set[Path] = set()
_packages: set[str] = set()


def know_folder(folder: Path) -> None:
    """Take the files of a folder for an author's code, from now on."""
    _folders.add(folder)


def know_package(module: str) -> None:
    """Take the package of a module for an author's code, from now on, unless it is one of ours."""
    if (package := module.partition(".")[0]) not in _OURS:
        _packages.add(package)


def of_author(frames: Iterable[tuple[FrameType, int]]) -> list[tuple[FrameType, int]]:
    """Return those frames that are of a plugin, or where there are none of no library, with their lines."""
    whole = list(frames)
    return [each for each in whole if _is_of_plugin(each[0])] or [each for each in whole if _is_not_library(each[0])]


def raised(error: BaseException, method: str, round: int, agents: Agents | None, subject: object = None) -> PluginFault:
    """Return the record of an error that a plugin's code has raised.

    Without a `method` it is the first function of the author's in the traceback. `subject` is what has the method: it
    says where that is defined, for an error that no line of the author's has raised.
    """
    own = of_author(traceback.walk_tb(error.__traceback__))
    lines = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in own]
    text = text_of(error)
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_file():
        lines.append((error.filename, error.lineno or 1, "<module>"))
        text = error.msg
    frames = tuple(_code_line(*each) for each in lines[-LIMITS.fault_frames :])
    named, about = _named(agents)
    return PluginFault(
        error=type(error).__name__,
        message=cleaned(text)[:_MESSAGE],
        remedy=_remedy(error),
        method=method or (own[0][0].f_code.co_name if own else ""),
        round=round,
        agents=named,
        asked=about,
        frames=frames or definition(subject, method or "constructor"),
        traceback=cleaned_lines("".join(traceback.format_exception(error))),
    )


def text_of(error: BaseException) -> str:
    """Return the text of an error; empty where its class cannot say it."""
    try:
        return str(error)
    except Exception:  # of the author's class, which raises another
        return ""


def broken(subject: object, method: str, round: int, agents: Agents | None, message: str, remedy: str) -> PluginFault:
    """Return the record of a breach of the contract by a method of `subject`, which names where that is defined."""
    named, about = _named(agents)
    return PluginFault(
        message=cleaned(message)[:_MESSAGE],
        remedy=remedy,
        method=method,
        round=round,
        agents=named,
        asked=about,
        frames=definition(subject, method),
    )


def _named(agents: Agents | None) -> tuple[tuple[int, ...], int]:
    return ((), 0) if agents is None else (tuple(agents[: LIMITS.fault_agents].tolist()), len(agents))


def _remedy(error: BaseException) -> str:
    match error:
        case AttributeError(name="game"):
            return "call super().__init__(game) in its constructor"
        case ModuleNotFoundError(name=str(name)):
            return f"install {cleaned(name)}, or correct the import"
        case SystemExit():
            return "raise an error there instead of an exit"
        case ValueError() if "read-only" in text_of(error):
            return "make a new array there: what it is given may not be written"
        case MemoryError():
            return "have its code use less memory"
    return REMEDY


# Whose code a frame is


def _is_of_plugin(frame: FrameType) -> bool:
    """Whether a frame belongs to a plugin that was loaded."""
    package, file = str(frame.f_globals.get("__name__", "")).partition(".")[0], Path(frame.f_code.co_filename)
    if package.startswith(PLUGINS) or package in _packages:
        return True
    return _is_not_library(frame) and any(file.is_relative_to(folder) for folder in _folders)


def _is_not_library(frame: FrameType) -> bool:
    """Whether a frame is neither ours, nor Python's, nor that of an installed package."""
    return _is_users(str(frame.f_globals.get("__name__", "")), frame.f_code)


def _is_users(module: str, code: CodeType) -> bool:
    package, file = module.partition(".")[0], code.co_filename
    if package.startswith(PLUGINS) or package in _packages:
        return True
    if package in _OURS or file.startswith("<frozen "):
        return False
    if file.startswith("<"):  # of a notebook, if its source is known
        return bool(linecache.getline(file, code.co_firstlineno))
    path = Path(file)
    return not any(part in _INSTALLED for part in path.parts) and not path.is_relative_to(_standard_library())


@functools.cache
def _standard_library() -> str:
    return sysconfig.get_path("stdlib")


def _code_line(file: str, line: int, function: str) -> CodeLine:
    linecache.checkcache(file)
    return CodeLine(file, line, function, cleaned(linecache.getline(file, line))[:_SOURCE])


def definition(subject: object, method: str) -> tuple[CodeLine, ...]:
    """Return where the author has defined a method of an object, or its class; nothing where that is not known."""
    kind: type[Any] = subject if isinstance(subject, type) else type(subject)
    defined = vars(kind).get("__init__") if method == "constructor" else getattr(subject, method, None)
    function = inspect.unwrap(defined) if callable(defined) else None
    code, module = getattr(function, "__code__", None), getattr(function, "__module__", None)
    if isinstance(code, CodeType) and _is_users(module or "", code):
        return (_code_line(code.co_filename, code.co_firstlineno, code.co_name),)
    if method == "constructor" and kind.__module__.partition(".")[0] not in _OURS:
        with contextlib.suppress(OSError, TypeError):  # its source is not known
            return (_code_line(inspect.getfile(kind), inspect.getsourcelines(kind)[1], kind.__name__),)
    return ()
