"""A plugin's worker process: started, limited, ended; it cannot harm the process that plays it.

    session             of its own: a signal to its group reaches no other process
    stdin               the tether: when its other end closes, the worker and its child processes are killed
    stdout, stderr      the log of the process that plays it, so that nothing blocks
    memory, files       RLIMIT_AS beyond what the worker itself needs, RLIMIT_NOFILE
    namespaces          user, network, pid, where the system permits: no network, nothing survives the worker, and
                        RLIMIT_NPROC counts only its own processes (elsewhere all of its user)
    folder of a socket  private, and removed with the worker

Working directory and environment are kept, and files may be written. The worker limits itself, in `sandbox_child`,
before it loads the plugin.
"""

import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from slaternet.errors import PluginFailed
from slaternet.limits import LIMITS, Limits
from slaternet_adversary.plugin import sandbox_child
from slaternet_adversary.plugin.sandbox_child import Bounds

_NAMESPACES = ("unshare", "--user", "--map-current-user", "--net", "--pid", "--fork", "--kill-child")
_PROBE_SECONDS = 5.0
_LOOK_SECONDS = 0.005
_DEATH_SECONDS = 0.2
"""How long after its connections have closed a process may still seem to run."""
_SOCKET = "plugin"
_SOCKET_BYTES = 64
"""Longest folder name that leaves room for the socket's: systems allow about a hundred bytes."""
_STDERR = 2
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""Return codes of a killed process; the second, where it is the first of a pid namespace and killed itself."""

log = structlog.get_logger()


class PluginKilled(PluginFailed):
    """The plugin's process was killed from outside: a restarted adversary can play it again."""

    exit_code = _KILLED[1]


class SandboxedWorker:
    """A running worker; leaving the block, or `end`, kills it and its child processes."""

    def __init__(self, target: str, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        self._target = target
        self._folder = folder
        self._process = process
        self._ended = False

    def listening(self, seconds: float) -> str:
        """Wait until it serves slaternet.v1.Plugin, and return where; PluginFailed where it ends, or takes longer."""
        until = time.monotonic() + seconds
        while not self._listens():
            if self.manner:
                raise PluginFailed(f"the adversary plugin {self._target} failed before it could be asked anything")
            if time.monotonic() > until:
                raise PluginFailed(f"the adversary plugin {self._target} could not be asked within {seconds:g} seconds")
            time.sleep(_LOOK_SECONDS)  # there is no portable event for a socket that begins to listen
        return f"unix:{self._folder / _SOCKET}"

    @property
    def manner(self) -> str:
        """How the process has ended by itself, as text; empty while it runs."""
        code = self._process.poll()
        if code is None:
            return ""
        return f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"

    def killed(self) -> bool:
        """Whether it was killed as by `kill -9`, and not by us; wait a moment for a process that is just ending."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_DEATH_SECONDS)
        return self._process.returncode in _KILLED

    def end(self) -> None:
        """Kill it, and remove its socket."""
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses for a group of the dead
            os.killpg(self._process.pid, signal.SIGKILL)  # also where it is dead: its children may live
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        """End it; where the plugin has failed, add to the error how the process has ended by itself."""
        manner = ""
        if isinstance(error, PluginFailed) and not isinstance(error, PluginKilled):  # which says it already
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_DEATH_SECONDS)
            manner = self.manner
        self.end()
        if manner:
            raise PluginFailed(f"{error}; its process {manner}")

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self._folder / _SOCKET))
            except (FileNotFoundError, ConnectionRefusedError):
                return False
        return True


def start(target: str, limits: Limits = LIMITS) -> SandboxedWorker:
    """Start a worker that serves the Python plugin `target`; `listening` waits for it and returns its address."""
    hindrance = namespaces()
    if hindrance:
        log.warning("the plugin's process has its network and can leave processes behind", reason=hindrance)
    parent = "/tmp" if len(os.fsencode(tempfile.gettempdir())) > _SOCKET_BYTES else None
    folder = Path(tempfile.mkdtemp(prefix="slaternet-", dir=parent))  # for its owner alone
    bounds = Bounds(
        memory=limits.plugin_memory_bytes,
        files=limits.plugin_files,
        processes=limits.plugin_processes,
        namespaced=not hindrance,
        path=sys.path,
        folder=str(folder),
    )
    command = (sys.executable, "-u", "-m", sandbox_child.__name__, json.dumps(vars(bounds)))
    process = subprocess.Popen(
        [*(() if hindrance else _NAMESPACES), *command, "--socket", str(folder / _SOCKET), target],
        stdin=subprocess.PIPE,
        stdout=_STDERR,  # a plugin's output must not mix with a command's own
        stderr=_STDERR,
        start_new_session=True,
    )
    return SandboxedWorker(target, folder, process)


@functools.cache
def namespaces() -> str:
    """Return why a worker cannot have namespaces of its own on this system; empty where it can."""
    if sys.platform != "linux":
        return f"{sys.platform} has none"
    command = [*_NAMESPACES, "true"]
    try:
        tried = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_PROBE_SECONDS)
    except FileNotFoundError:
        return "unshare of util-linux is not installed"
    except subprocess.TimeoutExpired:
        return "unshare does not answer"
    if tried.returncode == 0:
        return ""
    return tried.stderr.decode(errors="replace").strip() or f"unshare ended with exit code {tried.returncode}"
