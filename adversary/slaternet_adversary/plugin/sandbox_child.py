"""What a plugin's worker does to itself before it loads the plugin.

    python -m slaternet_adversary.plugin.sandbox_child BOUNDS ARGUMENTS OF THE WORKER...

It does so itself, because its parent is full of threads and must not run code between fork and exec. Nothing is
imported here that a worker does not need: a game waits for its start.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from slaternet.service.library_defaults import set_library_defaults

_STDIN = 0


@dataclass(frozen=True)
class Bounds:
    """What the worker is told about itself."""

    memory: int
    """Bytes of address space beyond what the worker needs without a plugin."""
    files: int
    processes: int
    namespaced: bool
    """Whether it has namespaces of its own: only there its processes can be counted."""
    path: list[str]
    """Where the process that plays looks for modules."""
    folder: str
    """Of the socket: whoever ends the worker removes it, and that is the worker where its player is dead."""


def _serve(bounds: Bounds, arguments: list[str]) -> None:
    """Be the worker: tethered, limited, and then with the plugin."""
    if not bounds.namespaced:
        _have_a_parent()
    _tether(bounds.folder)
    sys.path[:] = bounds.path
    set_library_defaults()
    from slaternet_adversary.plugin import worker  # before the limits: they are for the plugin

    _limit(bounds)
    worker.main(arguments)


def _have_a_parent() -> None:
    """Put a process between us and the one that plays, which a plugin would hit by killing its parent."""
    if not (worker := os.fork()):
        return
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    if code < 0:
        os.kill(os.getpid(), -code)  # the same end, for whoever looks at it
    os._exit(code)


def _tether(folder: str) -> None:
    """Watch standard input from now on, and leave the plugin an empty one."""
    line = os.dup(_STDIN)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), _STDIN)
    threading.Thread(target=_end_with, args=(line, folder), name="tether", daemon=True).start()


def _end_with(line: int, folder: str) -> None:
    os.read(line, 1)  # nobody writes: it returns when the other end is closed
    shutil.rmtree(folder, ignore_errors=True)
    os.kill(0, signal.SIGKILL)  # the whole group; the first process of a pid namespace is spared, and leaves:
    os._exit(1)


def _limit(bounds: Bounds) -> None:
    import resource  # not on every platform that can play without workers

    wanted = {
        resource.RLIMIT_AS: _address_space(resource.getpagesize()) + bounds.memory,
        resource.RLIMIT_NOFILE: bounds.files,
    }
    if bounds.namespaced:
        wanted[resource.RLIMIT_NPROC] = bounds.processes
    for what, most in wanted.items():
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS does not limit address space
            resource.setrlimit(what, (most, most))


def _address_space(page: int) -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * page
    except OSError:
        return 0


if __name__ == "__main__":
    _serve(Bounds(**json.loads(sys.argv[1])), sys.argv[2:])
