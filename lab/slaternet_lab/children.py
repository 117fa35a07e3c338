"""The processes of a game on this machine: started, watched, ended; none outlives the parent."""

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from slaternet.errors import BadSpec, Diverged, PluginFailed, Refused, RunFailed
from slaternet.limits import LIMITS
from slaternet.process import DEGRADED, TETHER

_TAIL_BYTES = 4096
_READ_BYTES = 1 << 16
_FINAL = {0, DEGRADED, *(kind.exit_code for kind in (BadSpec, RunFailed, Refused, Diverged, PluginFailed))}
"""How a process ends by itself: it is done, or would end so again."""


@dataclass(frozen=True, slots=True)
class Part:
    """One process of a game, as it is started, and started again."""

    name: str
    service: str
    arguments: tuple[str, ...]


class Child:
    """One service as a process of its own; its log is a file, its standard input the tether."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process
        self.ended = asyncio.create_task(process.wait(), name=name)

    @classmethod
    async def start(cls, part: Part, log: Path, *, heard: bool = False, again: bool = False) -> "Child":
        """Start `python -m slaternet_SERVICE`; `heard`: for `announced` to listen to; `again`: its log goes on."""
        with log.open("ab") if again else _fresh(log) as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                f"slaternet_{part.service}",
                *part.arguments,
                stdin=asyncio.subprocess.PIPE,
                # A plugin may print as much as it likes: a pipe that nobody reads would block it.
                stdout=asyncio.subprocess.PIPE if heard else file,
                stderr=file,
                # Unbuffered: what a plugin prints stands in the log before the sentence that the process ends with.
                env={**os.environ, TETHER: "1", "PYTHONUNBUFFERED": "1"},
                # Ctrl-C in the terminal reaches the parent alone, which then ends the game in order.
                start_new_session=True,
            )
        return cls(part.name, process, log)

    async def announced(self, beginning: str, within: float) -> str:
        """Return the rest of the first printed line that begins so; all that is printed goes to the log as well.

        RunFailed where the process ends before, or does not say so within that many seconds.
        """
        found: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._listening = asyncio.create_task(self._listen(beginning.encode(), found), name=f"listen to {self.name}")
        await asyncio.wait((found, self.ended), timeout=within, return_when=asyncio.FIRST_COMPLETED)
        if found.done():
            return found.result()
        if self.ended.done():
            raise self.death()
        raise RunFailed(f"{self.name} has not said {beginning!r} within {within:g} s; see its log {self.log}")

    async def _listen(self, beginning: bytes, found: "asyncio.Future[str]") -> None:
        output: asyncio.StreamReader | None = self._process.stdout
        unfinished = b""
        with self.log.open("ab", buffering=0) as file:
            while output and (data := await output.read(_READ_BYTES)):
                file.write(data)
                *lines, unfinished = (unfinished + data).split(b"\n")
                said = [line.removeprefix(beginning) for line in lines if line.startswith(beginning)]
                if said and not found.done():
                    found.set_result(said[0].decode().strip())

    def death(self) -> RunFailed:
        """Say how the process died, with its last words."""
        return RunFailed(
            f"{self.name} {self.manner}; its last words: {self._last_words()} (all of its log: {self.log})"
        )

    @property
    def code(self) -> int:
        """The exit code; negative: killed by that signal."""
        return self.ended.result()

    @property
    def died(self) -> bool:
        """Whether it has ended by no decision of its own: what it did not finish, another may."""
        return self.ended.done() and self.code not in _FINAL

    @property
    def failed(self) -> bool:
        """Whether it has ended before its work was done."""
        return self.ended.done() and self.code not in (0, DEGRADED)

    @property
    def manner(self) -> str:
        """How it has ended."""
        if self.code >= 0:
            return f"ended with exit code {self.code}"
        return f"was killed by {signal.Signals(-self.code).name}"

    def _last_words(self) -> str:
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "none")

    def terminate(self) -> None:
        """Ask the process to end."""
        if not self.ended.done():
            self._process.terminate()

    def kill(self) -> None:
        """End the process at once."""
        if not self.ended.done():
            self._process.kill()


def _fresh(log: Path) -> IO[bytes]:
    """Return an empty log that several may append to."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    return log.open("ab")


async def end_all(children: list[Child]) -> None:
    """End every child: by request, then by force."""
    waiting = [child.ended for child in children]
    if not waiting:
        return
    for child in children:
        child.terminate()
    await asyncio.wait(waiting, timeout=LIMITS.grace_seconds + 3)
    for child in children:
        child.kill()
    await asyncio.wait(waiting)
