"""A plugin's worker process: started, limited, ended; it cannot harm the process that plays it.

    session             of its own: a signal to its group reaches nobody else
    stdin               the tether: where its other end closes, the worker and what it has started are killed
    stdout, stderr      the log of the process that plays it; nobody reads them, so nothing blocks
    memory, files       RLIMIT_AS beyond what the worker itself needs, RLIMIT_NOFILE
    namespaces          user, network, pid, where the system permits: no network, nothing survives the worker, and
                        RLIMIT_NPROC counts its own processes alone (elsewhere all that its user runs)
    folder of a socket  private, and gone with the worker

Working directory and environment are kept, and files may be written. What the worker does to itself before it loads the
plugin stands in `confined`.
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
"""How much later than its connections a process may be seen to end."""
_SOCKET_BYTES = 64
"""Folder names up to this length leave room for a socket's: a system takes about a hundred bytes."""
_STDERR = 2
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""How a process ends that was killed; the second, where it is the first of its pid namespace and did so itself."""

log = structlog.get_logger()


class PluginKilled(PluginFailed):
    """A plugin whose process was killed, which is not its doing: another life of the adversary can play it again."""

    exit_code = _KILLED[1]


class SandboxedWorker:
    """A running worker; leaving the block, or `end`, kills it with everything it has started."""

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
            time.sleep(_LOOK_SECONDS)  # no system tells alike that a socket has begun to listen; nothing depends on it
        return f"unix:{_socket(self._folder)}"

    @property
    def manner(self) -> str:
        """How it has ended by itself, in words; empty while it runs."""
        code = self._process.poll()
        if code is None:
            return ""
        return f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"

    def killed(self) -> bool:
        """Say whether it was killed as by `kill -9`, though not by us; one that is just ending is waited for."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_DEATH_SECONDS)
        return self._process.returncode in _KILLED

    def end(self) -> None:
        """Kill it, and remove its socket."""
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses for a group of the dead
            os.killpg(self._process.pid, signal.SIGKILL)  # it may be dead, and what it has started alive
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        """End it; where the plugin has failed, say also how the process has ended, if it has by itself."""
        manner = ""
        if isinstance(error, PluginFailed) and not isinstance(error, PluginKilled):  # which says so already
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_DEATH_SECONDS)
            manner = self.manner
        self.end()
        if manner:
            raise PluginFailed(f"{error}; its process {manner}")

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(_socket(self._folder)))
            except (FileNotFoundError, ConnectionRefusedError):
                return False
        return True


def start(target: str, limits: Limits = LIMITS) -> SandboxedWorker:
    """Start a worker that serves the Python plugin `target`; `listening` tells where, once it does."""
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
        [*(() if hindrance else _NAMESPACES), *command, "--socket", str(_socket(folder)), target],
        stdin=subprocess.PIPE,
        stdout=_STDERR,  # what a plugin prints must not stand between the lines of a command's own output
        stderr=_STDERR,
        start_new_session=True,
    )
    return SandboxedWorker(target, folder, process)


@functools.cache
def namespaces() -> str:
    """Return why this system gives a worker no namespaces of its own; empty where it does."""
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


def _socket(folder: Path) -> Path:
    return folder / "plugin"
