"""How every process of a game runs: one event loop, a stop event, and its exit code."""

import asyncio
import gc
import os
import signal
import sys
import tempfile
import traceback
import warnings
from bdb import BdbQuit
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn

import structlog

from slaternet.errors import NO_MEMORY, BadSpec, PluginFailed, RunFailed, SlaternetError
from slaternet.network.file_limit import raise_file_limit
from slaternet.service.logs import print_final_error
from slaternet.storage import failpoints
from slaternet.storage.disk import FULL

TETHER = "SLATERNET_TETHERED"
"""Set to 1, this variable makes a process stop when its standard input ends, so that it ends with its parent."""

_STDIN = 0
_IMPATIENT = 130
_WORDS = 300
"""Letters of an error's text in a sentence; its log has all of them."""
DEGRADED = 7
"""The exit code of a game that has ended well, but without some of its agents."""

_OURS = r"(slaternet(_adversary|_agent|_coordinator|_lab)?|numpy|scipy|matplotlib)\."

Main = Callable[[asyncio.Event], Awaitable[int]]


def run(main: Main) -> int:
    """Run `main(stopping)` to its end and return its exit code.

    SIGTERM, SIGINT and, in a tethered process, the end of standard input set `stopping`; a second signal exits at once.
    """
    # Imported objects stay until the process ends: exclude them from garbage collection.
    gc.collect()
    gc.freeze()
    raise_file_limit()
    return _runner()(_supervised(main))


def _runner() -> Callable[[Coroutine[Any, Any, int]], int]:
    try:
        import uvloop
    except ImportError:  # no uvloop for this platform
        return asyncio.run
    return uvloop.run


async def _supervised(main: Main) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    signalled = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, signalled, stopping)
    if os.environ.get(TETHER) == "1":
        from slaternet.spec.debugger import refuse_debuggers  # here: it imports numpy, and most commands need neither

        loop.add_reader(_STDIN, _on_input, loop, stopping)
        refuse_debuggers()
    return await main(stopping)


def _on_signal(signalled: asyncio.Event, stopping: asyncio.Event) -> None:
    if signalled.is_set():
        os._exit(_IMPATIENT)
    signalled.set()
    stopping.set()


def _on_input(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    if not os.read(_STDIN, 4096):
        loop.remove_reader(_STDIN)
        stopping.set()


async def interruptible(work: Coroutine[Any, Any, None], stopping: asyncio.Event, parting: Callable[[], str]) -> int:
    """Run the work of a service until it is done or `stopping` is set; return the exit code.

    `parting` returns the warning to log when the service stops before its work is done.
    """
    doing = asyncio.create_task(work)
    waiting = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait((doing, waiting), return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            try:
                doing.result()
            except PluginFailed as error:
                if error.fault is not None and error.fault.traceback:
                    structlog.get_logger().error("a plugin failed", exception=error.fault.traceback)
                raise
            return 0
        structlog.get_logger().warning(parting())
        return _IMPATIENT
    finally:
        for task in (doing, waiting):
            task.cancel()
        await asyncio.gather(doing, waiting, return_exceptions=True)


def main(program: str, work: Callable[[], object]) -> NoReturn:
    """Run a command and exit; an error is one sentence on standard error, and the traceback of a defect in a file."""
    # values that are not finite are looked for and refused where they matter
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=_OURS)
    try:
        failpoints.check()
        try:
            work()
        finally:
            if sys.stdout is not None:  # it was closed
                sys.stdout.flush()  # here, where an error can be reported
    except SlaternetError as error:
        _leave(program, str(error), error.exit_code, _trace_of(error))
    except KeyboardInterrupt:
        _leave(program, "interrupted", _IMPATIENT)
    except BdbQuit:
        _leave(program, "the debugger was quit, and the game is not played on", _IMPATIENT)
    except BrokenPipeError:  # nobody reads on
        _leave(program, "", 1)
    except MemoryError:
        _leave(program, NO_MEMORY, BadSpec.exit_code)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            where = f"{error.filename or 'the output'}: {error.strerror}"
            _leave(program, f"there is no room for {where}; free space, and repeat", RunFailed.exit_code)
        if isinstance(error, OSError) and error.filename is not None:
            sentence = f"cannot use {error.filename}: {error.strerror}; choose another path"
            _leave(program, sentence, BadSpec.exit_code)
        _leave(program, _defect(error), SlaternetError.exit_code)
    sys.exit(0)


def _trace_of(error: SlaternetError) -> str:
    """Return the traceback to be shown below an error: a plugin's, the author's part of it unless all was noted."""
    if not isinstance(error, PluginFailed) or error.fault is None:
        return ""
    if os.environ.get(TETHER) == "1":  # it has been logged, and the last line must be the sentence
        return ""
    return "\n".join(getattr(error, "__notes__", [error.fault.reduced]))


def _defect(error: Exception) -> str:
    """Write the traceback of an error that nobody has foreseen to a file of its own; return what to do about it."""
    what = f"a defect of Slaternet: {type(error).__name__}: {error}"[:_WORDS]
    try:
        descriptor, log = tempfile.mkstemp(prefix="slaternet-defect-", suffix=".log")
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(traceback.format_exception(error))
    except OSError as refused:
        return f"{what}; please report it, its log cannot be written: {refused.strerror}"
    return f"{what}; please report it with {log}"


def _leave(program: str, sentence: str, code: int, trace: str = "") -> NoReturn:
    if sentence:
        print_final_error(program, sentence, code, trace)
    for output in filter(None, (sys.stdout, sys.stderr)):
        try:
            output.flush()
        except OSError:  # Python would try once more to write the rest, complain, and exit with another code
            os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
    sys.exit(code)
