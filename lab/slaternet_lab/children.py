"""The processes of a game on this machine: started, watched, ended; none outlives the parent."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from slaternet.errors import RunFailed
from slaternet.limits import LIMITS
from slaternet.process import TETHER

_TAIL_BYTES = 4096


class Child:
    """One service as a process of its own; its log is a file, its standard input the tether."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process
        self.ended = asyncio.create_task(process.wait(), name=name)

    @classmethod
    async def start(cls, name: str, service: str, *arguments: str, log: Path) -> "Child":
        """Start `python -m slaternet_SERVICE` with these arguments."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                f"slaternet_{service}",
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=file,
                env={**os.environ, TETHER: "1"},
                # Ctrl-C in the terminal reaches the parent alone, which then ends the game in order.
                start_new_session=True,
            )
        return cls(name, process, log)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def first_line(self) -> str:
        """Return the first line the process prints; RunFailed where it dies before."""
        output: asyncio.StreamReader | None = self._process.stdout
        line = await output.readline() if output else b""
        if not line:
            await self.ended
            raise self.death()
        return line.decode().strip()

    def death(self) -> RunFailed:
        """Say how the process died, with its last words."""
        return RunFailed(
            f"{self.name} {self._manner()}; its last words: {self._last_words()} (all of its log: {self.log})"
        )

    @property
    def code(self) -> int:
        """The exit code; negative: killed by that signal."""
        return self.ended.result()

    def _manner(self) -> str:
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
