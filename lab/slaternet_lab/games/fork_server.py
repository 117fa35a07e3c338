"""A process that has imported what the services need, and forks one whenever it is asked to.

Importing takes a service half a second, a fork some milliseconds. The fork server begins in an interpreter of its own
and never reads a spec, so what it forks knows of a game what a process started by hand knows. It has one thread and
no gRPC object: what gRPC holds would not survive a fork.

    request                             descriptors                         answer
    the command of a service            stdin, stdout, stderr, answer       its process id
    the id of a process that has ended  answer                              its exit code, negative: the signal

Requests come as JSON on standard input, a socket. When its other end closes, the server exits; services end by their
tether. A service that has ended stays a zombie until its exit code is requested: until then its id is its own.
"""

import asyncio
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from slaternet.service.library_defaults import set_library_defaults

UNBUFFERED = "PYTHONUNBUFFERED"
"""Set to 1: what a plugin prints stands in the log before the process's last sentence."""
SPAWN = "SLATERNET_SPAWN"
"""Set to 1, this variable has every service start in an interpreter of its own, as where there is no fork."""

_MODULES = (
    "slaternet_adversary.shell.command",
    "slaternet_adversary.shell.service",
    "slaternet_agent.shell.command",
    "slaternet_agent.shell.service",
    "slaternet_coordinator.shell.command",
    "slaternet_coordinator.shell.service",
)
_MODULE = 3
"""Where the command of a service names it, behind `python -P -m`."""
_REQUEST_BYTES = 1 << 16
_ANSWER_BYTES = 32
_DESCRIPTORS = 4
_TITLE_BYTES = 2048
"""Room for the command of a service in the list of processes."""
_ARGUMENTS = (45, 46)
"""Where /proc/self/stat has the addresses of the command line, counted behind the name in brackets."""


class ForkServer:
    """The server's process; leaving the block ends it, and no service that it has forked."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "slaternet_lab.games.fork_server", "-" * _TITLE_BYTES],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={**os.environ, UNBUFFERED: "1"},
                start_new_session=True,  # Ctrl-C in the terminal does not reach it
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._requests.close()
        self._process.kill()  # it may still be importing, and has nothing to lose
        self._process.wait()

    async def fork(self, command: Sequence[str], stdin: int, stdout: int, stderr: int) -> "Forked | None":
        """Start `python -P -m MODULE ...` as a process; None where the server has died."""
        asked = asyncio.create_task(self._ask(command, stdin, stdout, stderr))
        try:
            pid = await asyncio.shield(asked)
        except asyncio.CancelledError:
            if (pid := await asked) is not None:
                os.kill(pid, signal.SIGKILL)
            raise
        with contextlib.suppress(ProcessLookupError):  # both have died, so nobody has waited for it
            return None if pid is None else Forked(self, pid)
        return None

    async def exit_code(self, pid: int) -> int:
        """Return how a process has ended; where the server has died, as if it had been killed: nobody knows better."""
        code = await self._ask(pid)
        return -signal.SIGKILL if code is None else code

    async def _ask(self, request: object, *descriptors: int) -> int | None:
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            with theirs, contextlib.suppress(ConnectionError):
                data = json.dumps(request).encode()
                socket.send_fds(self._requests, [data], [*descriptors, theirs.fileno()])
            answer = await asyncio.get_running_loop().sock_recv(ours, _ANSWER_BYTES)
        return int(answer) if answer else None


class Forked:
    """A process that the server has forked, as `asyncio.subprocess.Process` shows one."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self._pid = pid
        self._descriptor = os.pidfd_open(pid)

    async def wait(self) -> int:
        """Wait for its end; return the exit code, negative: killed by that signal."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._descriptor, ended.set)
        try:
            await ended.wait()
            return await self._server.exit_code(self._pid)
        finally:
            loop.remove_reader(self._descriptor)
            os.close(self._descriptor)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended; `wait` has not returned yet."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)


def fork_server() -> contextlib.AbstractContextManager[ForkServer | None]:
    """Start a server, whose services have the environment of now; None where services are to be spawned."""
    # Linux alone: elsewhere there are no descriptors of processes, and a fork may break libraries of the system.
    if os.environ.get(SPAWN) == "1" or not hasattr(os, "pidfd_open"):
        return contextlib.nullcontext()
    return ForkServer()


def _serve(requests: socket.socket) -> list[str]:
    """Answer requests until the other end closes; return in every process that is forked, with its command."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, _DESCRIPTORS)
        if not data:
            os._exit(0)
        request, forked = json.loads(data), False
        with contextlib.suppress(OSError):  # there is no room for a process, or nobody waits for the answer any more
            if isinstance(request, int):
                number = os.waitstatus_to_exitcode(os.waitpid(request, 0)[1])
            else:
                number = os.fork()
                forked = not number
            if not forked:
                os.write(descriptors[-1], str(number).encode())
        if forked:
            os.setsid()  # Ctrl-C in the terminal reaches the parent of all alone
            for target, descriptor in enumerate(descriptors[:-1]):
                os.dup2(descriptor, target)
        for descriptor in descriptors:
            os.close(descriptor)
        if forked:
            return list(request)


def _set_title(words: Sequence[str]) -> None:
    """Show this command in the list of processes, as far as the system permits and there is room."""
    with contextlib.suppress(OSError), open("/proc/self/mem", "r+b", buffering=0) as memory:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        begin, end = (int(fields[place]) for place in _ARGUMENTS)
        title = "\0".join(words).encode(errors="surrogateescape")[: end - begin - 1]
        memory.seek(begin)
        memory.write(title.ljust(end - begin, b"\0"))


def _main() -> None:
    sys.orig_argv.pop()  # that made room for titles
    _set_title(sys.orig_argv)
    set_library_defaults()
    gc.disable()
    for module in _MODULES:
        importlib.import_module(module)
    with contextlib.suppress(ImportError):  # no uvloop for this platform
        importlib.import_module("uvloop")
    gc.enable()
    gc.freeze()  # a collection in a service would copy all pages
    requests = socket.socket(fileno=0)
    command = _serve(requests)
    requests.detach()
    sys.orig_argv[:] = command
    sys.argv[1:] = command[_MODULE + 1 :]
    _set_title(command)
    import numpy as np

    from slaternet.service.main import TETHER

    os.environ[TETHER] = "1"
    np.random.seed()  # a plugin that draws from it would draw the same as every other process
    runpy.run_module(command[_MODULE], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
