"""A plugin's worker that limits itself before it loads the plugin.

    python -m slaternet_adversary.plugin.sandbox_child BOUNDS ARGUMENTS OF THE WORKER...

The worker does it because its parent has threads and must not run code between fork and exec. It imports no more than
it needs: a game waits for its start.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from slaternet.service.library_defaults import set_library_defaults


@dataclass(frozen=True)
class Bounds:
    """The limits of a worker, and its surroundings."""

    memory: int
    """Bytes of address space beyond what the worker needs without a plugin."""
    files: int
    processes: int
    namespaced: bool
    """Whether it has namespaces of its own: only then its processes can be counted."""
    path: list[str]
    """sys.path of the process that plays."""
    folder: str
    """Of the socket; the worker removes it where the process that plays is dead."""


def _serve(bounds: Bounds, arguments: list[str]) -> None:
    """Limit this process, then serve the plugin."""
    if not bounds.namespaced:
        _have_a_parent()
    sys.path[:] = bounds.path
    set_library_defaults()
    from slaternet_adversary.plugin import worker  # before the limits, which are for the plugin

    _limit(bounds)
    worker.main(arguments, untethered=lambda: _end(bounds.folder))


def _have_a_parent() -> None:
    """Put a process between us and the one that plays: a plugin that kills its parent hits that one."""
    if not (worker := os.fork()):
        return
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    if code < 0:
        os.kill(os.getpid(), -code)  # end in the same way, for the process that waits
    os._exit(code)


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
    if bounds.namespaced:
        wanted[resource.RLIMIT_NPROC] = bounds.processes
    for what, most in wanted.items():
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS does not limit address space
            resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    _serve(Bounds(**json.loads(sys.argv[1])), sys.argv[2:])
