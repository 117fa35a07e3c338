"""What plugins print: shown line by line with the plugin's name in front, on standard error.

    mine.py:Mine| round 17

Nothing that a plugin prints can be taken for a line of ours, or for the result of a command. Lines are shown as plain
text; of a line that does not end, a piece is shown, so that nothing fills memory.
"""

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO, TextIO, cast

from slaternet.limits import LIMITS
from slaternet.spec.debugger import is_debugged
from slaternet.spec.programs import is_program, words
from slaternet.texts import printable

_READ_BYTES = 1 << 16
_LAST_BYTES = 300
"""How much of what is printed an error may quote."""
_ENDS = re.compile(rb"[\r\n]+")


def label_of(target: str) -> str:
    """Return the name of a plugin in front of its lines: of a file or program, without its folder."""
    code = words(target)[0] if is_program(target) else target
    return printable(code.rpartition("/")[2])


class LabelledLines(io.RawIOBase):
    """Takes bytes as they are printed, and writes whole lines with a label to standard error."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._begun = b""

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        """Take what is printed."""
        *lines, self._begun = _ENDS.split(self._begun + bytes(data))
        while len(self._begun) > LIMITS.text_bytes:
            lines.append(self._begun[: LIMITS.text_bytes])
            self._begun = self._begun[LIMITS.text_bytes :]
        self._show(lines)
        return len(data)

    def finish(self) -> None:
        """Show a line that was not ended."""
        lines, self._begun = [self._begun], b""
        self._show(lines)

    def _show(self, lines: list[bytes]) -> None:
        shown = [f"{self._label}| {printable(line.decode(errors='replace').expandtabs())}\n" for line in lines if line]
        if shown:
            with contextlib.suppress(OSError):  # there is no room, or nobody reads: no game ends for that
                sys.stderr.write("".join(shown))
                sys.stderr.flush()


class Printed:
    """What a process of its own prints: shown with a label, and the `last` of it kept for errors."""

    def __init__(self, label: str) -> None:
        self._label = label
        self.last = b""

    def relay(self, descriptor: int) -> None:
        """Show what comes from a pipe until all its other ends are closed; then close it."""
        lines = LabelledLines(self._label)
        with open(descriptor, "rb", buffering=0) as pipe:
            while data := os.read(pipe.fileno(), _READ_BYTES):
                self.last = (self.last + data)[-_LAST_BYTES:]
                lines.write(data)
        lines.finish()


@contextlib.contextmanager
def labelled(
    label: str, terminal: TextIO | None = None, released: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Show what is printed to standard output in this process, as lines with a label, while the block runs.

    A debugger that writes there gets `terminal`, or else the standard output of before, from then on for all, after a
    call of `released`; in a block within another, those of the other.
    """
    before = sys.stdout
    if isinstance(before, _Output):  # of a block around this one
        lines = _Labelled(label, before.lines.terminal, before.lines.release)
    else:
        lines = _Labelled(label, terminal or before, released)
    sys.stdout = output = _Output(lines)
    try:
        yield
    finally:
        output.flush()
        lines.finish()
        if sys.stdout is output:
            sys.stdout = before


class _Labelled(LabelledLines):
    def __init__(self, label: str, terminal: TextIO, released: Callable[[], object]) -> None:
        super().__init__(label)
        self.terminal = terminal
        self._released = released
        self._is_released = False

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        if not self._is_released and is_debugged():
            self.release()
        if not self._is_released:
            return super().write(data)
        self.terminal.write(bytes(data).decode(errors="replace"))
        self.terminal.flush()
        return len(data)

    def release(self) -> None:
        """Leave the terminal to a debugger."""
        self._is_released = True
        self._released()
        sys.stdout = self.terminal


class _Output(io.TextIOWrapper):
    def __init__(self, lines: _Labelled) -> None:
        super().__init__(
            cast("BinaryIO", lines),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
            write_through=True,
        )
        self.lines = lines
