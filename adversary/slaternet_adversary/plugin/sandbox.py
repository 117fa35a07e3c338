"""A plugin's worker process: started, limited, ended, and started again where it was killed.

It cannot harm the process that plays it.

    session             of its own: a signal to its group reaches no other process
    stdin               the tether: when its other end closes, the worker and its child processes are killed
    stdout, stderr      a pipe, whose lines the process that plays it shows on its standard error, labelled
    memory, files       RLIMIT_AS beyond what the worker itself needs, RLIMIT_NOFILE
    namespaces          user, network, pid, where the system permits: no network, nothing survives the worker, and
                        RLIMIT_NPROC counts only its own processes (elsewhere all of its user)
    folder of a socket  private, and removed with the worker
    modules             those of the process that plays; none from the working directory

Working directory and environment are kept, and files may be written. The worker limits itself, in `sandbox_child`,
before it loads the plugin. Its parent reports how it has ended: by itself, which is the plugin's failure, or killed.
Where there is no report, that parent was killed.
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
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import structlog

from slaternet.errors import PluginFailed
from slaternet.limits import LIMITS, Limits
from slaternet.prints import Printed, label_of
from slaternet_adversary.plugin import sandbox_child
from slaternet_adversary.plugin.calls import InstanceLost
from slaternet_adversary.plugin.connections import FRAMES
from slaternet_adversary.plugin.sandbox_child import Bounds

NAMESPACES = ("unshare", "--user", "--map-current-user", "--net", "--pid", "--fork", "--kill-child")
_PROBE_SECONDS = 5.0
_PROBES = 10
_LOOK_SECONDS = 0.005
_DEATH_SECONDS = 0.2
"""How long after its connections have closed a process may still seem to run, or its last lines be shown."""
_SOCKET = "plugin"
_SOCKET_BYTES = 64
"""Longest folder name that leaves room for the socket's: systems allow about a hundred bytes."""
_KILLS = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
"""Signals that come from outside; any other that ends a process, such as SIGSEGV, is a fault of its code."""
_REPORT_BYTES = 16

log = structlog.get_logger()


class SandboxedWorker:
    """A worker; leaving the block, or `end`, kills it and its child processes."""

    _runs_program = False
    _module = "slaternet_adversary.plugin.worker"
    _namespaces: tuple[str, ...] = NAMESPACES
    _piped = False
    """Whether its standard output and error are piped to us, rather than shown line by line."""

    def __init__(self, target: str, limits: Limits = LIMITS) -> None:
        self._target = target
        self._limits = limits
        self._lock = threading.RLock()  # it may be ended while another thread starts it again
        self._ended = False
        self._launch()

    def _launch(self) -> None:
        """Start the process; `listening` waits for it."""
        hindrance = namespaces()
        if hindrance:
            log.warning("the plugin's process has its network and can leave processes behind", reason=hindrance)
        parent = "/tmp" if len(os.fsencode(tempfile.gettempdir())) > _SOCKET_BYTES else None
        self._folder = Path(tempfile.mkdtemp(prefix="slaternet-", dir=parent))  # for its owner alone
        reading, report = os.pipe()
        os.set_blocking(reading, False)
        self._report = os.fdopen(reading, "rb", buffering=0)
        bounds = Bounds(
            memory=self._limits.plugin_memory_bytes,
            files=self._limits.plugin_files,
            processes=self._limits.plugin_processes,
            namespaced=not hindrance,
            path=sys.path,
            folder=str(self._folder),
            report=report,
            program=self._runs_program,
            module=self._module,
        )
        self._printed = Printed(label_of(self._target))
        self._relay: threading.Thread | None = None
        output = subprocess.PIPE
        if not self._piped:
            printed, output = os.pipe()
            self._relay = threading.Thread(target=self._printed.relay, args=(printed,), name="prints", daemon=True)
        command = (sys.executable, "-u", "-P", "-m", sandbox_child.__name__, json.dumps(vars(bounds)))
        try:
            self._process = subprocess.Popen(
                [*(() if hindrance else self._namespaces), *command, *self._command()],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=(report,),
                start_new_session=True,
            )
        finally:
            os.close(report)
            if self._relay is not None:
                os.close(output)
                self._relay.start()
        self._code: int | None = None
        self._unreported = False

    @property
    def _hastening(self) -> str:
        """What an author can do where the start takes too long."""
        return "make its import faster"

    def _command(self) -> list[str]:
        """Return the arguments of the worker."""
        return ["--frames", self._socket, self._target]

    @property
    def _socket(self) -> str:
        return str(self._folder / _SOCKET)

    @property
    def _address(self) -> str:
        return f"{FRAMES}{self._socket}"

    def listening(self, seconds: float) -> str:
        """Wait until it serves, and return where; start it again first where it was killed.

        InstanceLost where it is killed meanwhile, PluginFailed where it ends by itself or takes longer.
        """
        with self._lock:
            if self._was_killed():
                self.renew()
        until = time.monotonic() + seconds
        while not self._listens():
            if self.manner:
                kind = InstanceLost if self._was_killed() else PluginFailed
                raise kind(f"the adversary plugin {self._target} failed before it could be asked anything")
            if time.monotonic() > until:
                late = f"could not be asked within {seconds:g} seconds (adversary.seconds)"
                raise PluginFailed(f"the adversary plugin {self._target} {late}; {self._hastening}, or allow it more")
            time.sleep(_LOOK_SECONDS)  # there is no portable event for a socket that begins to listen
        return self._address

    def killed(self, address: str) -> bool:
        """Whether the worker that served at an address was killed, and not by us; wait for one that is just ending."""
        if address != self._address:
            return True  # it was started again since
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LIMITS.grace_seconds)
        return not self._ended and self._was_killed()

    @property
    def tether(self) -> int:
        """The descriptor of its standard input."""
        assert self._process.stdin is not None  # a pipe
        return self._process.stdin.fileno()

    @property
    def outputs(self) -> list[IO[bytes]]:
        """Its standard output and error, where they are piped to us."""
        return [stream for stream in (self._process.stdout, self._process.stderr) if stream is not None]

    def ended(self, seconds: float) -> str:
        """Wait so long for its end, and return how it has ended; empty where it goes on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.manner

    @property
    def manner(self) -> str:
        """How the worker has ended, as text; empty while it runs."""
        code = self._exit_code()
        if code is None:
            return ""
        return f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"

    def _exit_code(self) -> int | None:
        """Return how the worker has ended, negative where by a signal; None while it runs."""
        with self._lock:
            around = self._process.poll()
            if around is not None and self._code is None:
                report = self._report.read(_REPORT_BYTES)
                self._unreported = not report  # its parent was killed, or could not start
                self._code = int(report) if report else around
            return self._code

    def _was_killed(self) -> bool:
        code = self._exit_code()
        return code is not None and (self._unreported or -code in _KILLS)

    def renew(self) -> None:
        """Start another one in its place, which `listening` waits for."""
        with self._lock:
            if not self._ended:
                self._remove()
                self._launch()

    def end(self) -> None:
        """Kill it, and remove its socket."""
        with self._lock:
            if not self._ended:
                self._ended = True
                self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses for a group of the dead
            os.killpg(self._process.pid, signal.SIGKILL)  # also where it is dead: its children may live
        self._process.wait()
        for stream in (self._process.stdin, *self.outputs):
            if stream is not None:
                stream.close()
        self._exit_code()
        self._report.close()
        if self._relay is not None:
            self._relay.join(_DEATH_SECONDS)  # longer only where a process that it has left behind goes on printing
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        """End it; where the plugin has failed, add to the error how the process has ended by itself."""
        manner, failed = "", PluginFailed()
        if isinstance(error, PluginFailed):
            manner, failed = self.ended(_DEATH_SECONDS), error
        self.end()
        if manner:
            raise failed.extended(f"its process {manner}")

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(self._socket)
            except (FileNotFoundError, ConnectionRefusedError):
                return False
        return True


@functools.cache
def namespaces() -> str:
    """Return why a worker cannot have namespaces of its own on this system; empty where it can."""
    if sys.platform != "linux":
        return f"{sys.platform} has none"
    command = [*NAMESPACES, "true"]
    try:
        for _ in range(_PROBES):
            tried = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_PROBE_SECONDS)
            if -tried.returncode not in _KILLS:
                break  # one that was killed says nothing of the system
    except FileNotFoundError:
        return "unshare of util-linux is not installed"
    except subprocess.TimeoutExpired:
        return "unshare does not answer"
    if tried.returncode == 0:
        return ""
    return tried.stderr.decode(errors="replace").strip() or f"unshare ended with exit code {tried.returncode}"
