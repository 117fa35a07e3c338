"""A plugin's worker that limits itself before it loads the plugin, or becomes the program that serves the plugin.

    python -P -m slaternet_adversary.plugin.sandbox_child BOUNDS ARGUMENTS OF THE WORKER...
    python -P -m slaternet_adversary.plugin.sandbox_child BOUNDS PROGRAM ITS ARGUMENTS...

The worker does it because its parent has threads and must not run code between fork and exec. It imports no more than
it needs: a game waits for its start.
"""

import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from slaternet.service.library_defaults import set_library_defaults


@dataclass(frozen=True)
class Bounds:
    """The limits of a worker, and its surroundings."""

    memory: int
    """Bytes of address space beyond what the worker needs without a plugin; of data that a program may have."""
    files: int
    processes: int
    namespaced: bool
    """Whether it has namespaces of its own: only then its processes can be counted."""
    path: list[str]
    """sys.path of the process that plays."""
    folder: str
    """Of the socket; the worker removes it where the process that plays is dead."""
    report: int
    """The descriptor to which its parent writes how the worker has ended."""
    program: bool
    """Whether it is a program that is started instead of our worker."""
    module: str
    """Otherwise: whose `main` runs, and takes the arguments of the worker and what ends it without its tether."""


def _serve(bounds: Bounds, arguments: list[str]) -> None:
    """Limit this process, then serve the plugin."""
    _have_a_parent(bounds)
    if bounds.program:
        _become(arguments, bounds)
    sys.path[:] = bounds.path
    set_library_defaults()
    module = importlib.import_module(bounds.module)  # before the limits, which are for the plugin
    _limit(bounds)
    module.main(arguments, untethered=lambda: _end(bounds.folder))


def _become(arguments: list[str], bounds: Bounds) -> NoReturn:
    """Turn this process into a program, which does not get the tether."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program would inherit that
        signal.signal(number, signal.SIG_DFL)
    _limit(bounds)
    try:
        os.execv(arguments[0], arguments)
    except OSError as error:
        sys.exit(f"{arguments[0]} cannot be started: {error.strerror}")


def _have_a_parent(bounds: Bounds) -> None:
    """Put a process between us and the one that plays, which reports how we end; return in the worker.

    A plugin that kills its parent hits that one, or where it is the first of a pid namespace nobody. Without it, nobody
    could say whether a plugin has exited or was killed: `unshare` ends with exit code 1 for a child that was killed.
    For a program it also holds the tether.
    """
    if not (worker := os.fork()):
        os.close(bounds.report)
        return
    if bounds.program:
        threading.Thread(target=_hold_tether, args=(bounds.folder,), daemon=True).start()
    ended = 0
    while ended != worker:  # the first process of a namespace inherits children of the dead
        ended, status = os.wait()
    with contextlib.suppress(OSError):  # the process that plays is dead
        os.write(bounds.report, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _hold_tether(folder: str) -> None:
    while os.read(0, 4096):
        pass
    _end(folder)


def _end(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.kill(0, signal.SIGKILL)  # the whole group, except the first process of a pid namespace, which exits:
    os._exit(1)


def _limit(bounds: Bounds) -> None:
    import resource  # not on every platform that can play without workers

    used = 0
    with contextlib.suppress(OSError):  # there is no /proc on macOS
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    wanted = {resource.RLIMIT_AS: used + bounds.memory, resource.RLIMIT_NOFILE: bounds.files}
    if bounds.program:
        wanted = {resource.RLIMIT_DATA: bounds.memory, resource.RLIMIT_NOFILE: bounds.files}
    if bounds.namespaced:
        wanted[resource.RLIMIT_NPROC] = bounds.processes
    for what, most in wanted.items():
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS does not limit address space
            resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    _serve(Bounds(**json.loads(sys.argv[1])), sys.argv[2:])
