"""Debuggers: whether one follows this process, and where code that calls one is refused in a sentence.

A plugin can be debugged only in the process that owns the terminal, or that an IDE has started. Such a process is
`debugged`, and calls every plugin itself. A process without a terminal has `refuse_debuggers`.
"""

import contextlib
import os
import sys
import traceback
from bdb import Bdb
from collections.abc import Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from slaternet.errors import PluginFailed
from slaternet.spec.author_frames import of_author, text_of
from slaternet.texts import printable

_OF_AN_IDE = ("pydevd", "_pydevd")
"""How the modules of the debugger of VS Code and PyCharm begin."""
_CALLED = ("builtins.breakpoint", "pdb.Pdb")
"""Audit events of a call of a debugger."""
_BREAKPOINT = "PYTHONBREAKPOINT"
"""The variable of Python that says what `breakpoint()` calls; 0: nothing."""
_REMEDY = "play the spec with `slaternet simulate --debug`, or an adversary with `slaternet run --debug`"

_wanted: ContextVar[bool] = ContextVar("wanted", default=False)


class DebuggerNeeded(PluginFailed):
    """A plugin has called a debugger in a process that has no terminal."""

    status = "UNIMPLEMENTED"


def is_debugged() -> bool:
    """Whether plugins are to be called in this process: a debugger follows this thread, or one is wanted."""
    if _wanted.get():
        return True
    monitoring: Any = getattr(sys, "monitoring", None)  # since Python 3.12
    if monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None:
        return True
    trace = sys.gettrace()
    owner = getattr(trace, "__self__", trace)
    named = type(owner).__module__, getattr(trace, "__module__", None) or ""
    return isinstance(owner, Bdb) or any(name.startswith(_OF_AN_IDE) for name in named)


@contextlib.contextmanager
def debugged() -> Iterator[None]:
    """Have plugins called in this process, where a debugger reaches them, while the block runs."""
    before = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(before)


@contextlib.contextmanager
def without_breakpoints() -> Iterator[None]:
    """Have `breakpoint()` do nothing, here and in processes that are started, while the block runs."""
    before = os.environ.get(_BREAKPOINT)
    os.environ[_BREAKPOINT] = "0"
    try:
        yield
    finally:
        del os.environ[_BREAKPOINT]
        if before is not None:
            os.environ[_BREAKPOINT] = before


def refuse_debuggers() -> None:
    """Have `breakpoint()`, and pdb called otherwise, raise DebuggerNeeded in this process, which has no terminal."""

    def refuse(event: str, _: object) -> None:
        if event in _CALLED and os.environ.get(_BREAKPOINT) != "0":
            callers = of_author(traceback.walk_stack(sys._getframe(1)))
            where = f" at {callers[0][0].f_code.co_filename}:{callers[0][1]}" if callers else ""
            raise DebuggerNeeded(f"a debugger was called{where}, and this process has no terminal; {_REMEDY}")

    sys.addaudithook(refuse)


def post_mortem(error: BaseException) -> None:
    """Open a debugger on an error, at the innermost frame of its author's code."""
    import pdb  # here: it takes time, and few need it

    own = of_author(traceback.walk_tb(error.__traceback__))
    last = own[-1][0] if own else None
    parts: list[TracebackType] = []
    part = error.__traceback__
    while part is not None and (not parts or parts[-1].tb_frame is not last):
        parts.append(part)
        part = part.tb_next
    shown: TracebackType | None = None
    for part in reversed(parts):
        shown = TracebackType(shown, part.tb_frame, part.tb_lasti, part.tb_lineno)
    print(f"{type(error).__name__}: {printable(text_of(error))}")
    pdb.post_mortem(shown)
