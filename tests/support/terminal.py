"""A command in a terminal of its own, driven as a user drives it: what it prints is read, and lines are typed."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

DEADLINE = 100.0
"""Seconds that a command may take to print what is waited for, or to end."""

_READ_BYTES = 1 << 16


class Terminal:
    """A pseudo-terminal in which a command runs; it is the terminal that Ctrl-C is typed in."""

    def __init__(self, master: int, process: "subprocess.Popen[bytes]") -> None:
        self._master = master
        self._process = process
        self.text = ""
        """All that was printed."""
        self._seen = 0

    def expect(self, pattern: str, seconds: float = DEADLINE) -> "re.Match[str]":
        """Wait until something new is printed that matches; return the match, and go on reading behind it."""
        until = time.monotonic() + seconds
        while (match := re.compile(pattern).search(self.text, self._seen)) is None:
            assert self._read(until), f"{pattern!r} is not printed:\n{self.text}"
        self._seen = match.end()
        return match

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._master, f"{line}\n".encode())

    def interrupt(self) -> None:
        """Type Ctrl-C."""
        os.write(self._master, b"\x03")

    def ends(self, seconds: float = DEADLINE) -> int:
        """Wait for the end of the command; return its exit code."""
        until = time.monotonic() + seconds
        while self._read(until):
            pass
        return self._process.wait(max(0.0, until - time.monotonic()))

    def _read(self, until: float) -> bool:
        """Read what is printed next; return whether there may be more."""
        readable, _, _ = select.select([self._master], [], [], max(0.0, until - time.monotonic()))
        assert readable, f"the deadline has passed:\n{self.text}"
        try:
            data = os.read(self._master, _READ_BYTES)
        except OSError:  # every process has closed the terminal
            return False
        self.text += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


@contextlib.contextmanager
def in_terminal(command: Sequence[object], folder: Path, **environment: str) -> Iterator[Terminal]:
    """Run a command in a terminal and a folder; what is left of it is killed with the block."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        list(map(str, command)),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", **environment},
        start_new_session=True,
        preexec_fn=_own_terminal,
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)


def _own_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C typed there interrupts."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
