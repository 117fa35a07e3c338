"""Games of this checkout and of another one, started by the command line."""

import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOURCES = ("proto", "agent", "coordinator", "adversary", "lab")
SPAWN = {"SLATERNET_SPAWN": "1"}
"""Has `slaternet run` start an interpreter for every process: one that imports our own sitecustomize first."""
_LOOK_SECONDS = 0.01


class GameFailed(Exception):
    """A command did not succeed; its last words."""


class Game:
    """A command that plays a game, and the run folder that it writes."""

    def __init__(self, program: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder / "run"
        self._output, self._errors = folder / "output", folder / "errors"
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self.began = time.perf_counter()
            command = [*program, "--json", "--out", str(self.folder)]
            self._process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)

    @property
    def pid(self) -> int:
        """The process of the command."""
        return self._process.pid

    @property
    def over(self) -> bool:
        """Whether the command has ended."""
        return self._process.poll() is not None

    @property
    def round(self) -> int:
        """The last round in metrics.csv."""
        try:
            with (self.folder / "metrics.csv").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
                rows = file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            return 0
        number = rows[-1].split(b",")[0] if rows else b""
        return int(number) if number.isdigit() else 0  # the heading is no round

    def wait_for(self, round: int) -> int:
        """Return the last round in metrics.csv as soon as it is this one or a later one."""
        while (reached := self.round) < round:
            if self.over:
                self.finish()
                raise GameFailed(f"the game has ended before round {round}")
            time.sleep(_LOOK_SECONDS)  # the next look; nothing announces a row
        return reached

    def finish(self) -> dict[str, Any]:
        """Wait for the end of the command; return the summary."""
        if self._process.wait():
            raise GameFailed(self._errors.read_text(errors="replace"))
        summary: dict[str, Any] = json.loads(self._output.read_text())
        return summary

    def kill(self) -> None:
        """End the command, where it has not ended; its processes do not outlive it."""
        if not self.over:
            self._process.terminate()
            self._process.wait()


class Tree:
    """A checkout that can play games; without a path, the one that runs.

    Another checkout plays with its own `.venv` where it has one; else our interpreter plays, with its sources and its
    entry points first on the path.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._python, self._path = sys.executable, list[Path]()
        if root is None:
            return
        own = root.resolve() / ".venv" / "bin" / "python"
        if own.exists():
            self._python = str(own)
        else:
            self._metadata = tempfile.TemporaryDirectory()
            write_metadata(root / "pyproject.toml", Path(self._metadata.name))
            self._path = [Path(self._metadata.name), *(root.resolve() / each for each in SOURCES)]

    def command(self, *arguments: str) -> list[str]:
        """Return the program of `slaternet ARGUMENTS`."""
        return [self._python, "-m", "slaternet_lab", *arguments]

    @contextmanager
    def started(
        self,
        command: str,
        *arguments: str,
        settings: Sequence[str] = (),
        first: Sequence[Path] = (),
        variables: Mapping[str, str] | None = None,
    ) -> Iterator[Game]:
        """Start `slaternet COMMAND ARGUMENTS`, perhaps with other code first on the path; its files vanish with it."""
        inherited = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        path = [*map(str, first), *map(str, self._path), *inherited]
        environment = {**os.environ, **(variables or {}), **({"PYTHONPATH": os.pathsep.join(path)} if path else {})}
        options = [option for setting in settings for option in ("--set", setting)]
        with tempfile.TemporaryDirectory() as folder:
            game = Game(self.command(command, *arguments, *options), Path(folder), environment)
            try:
                yield game
            finally:
                game.kill()

    def play(
        self,
        command: str,
        *arguments: str,
        settings: Sequence[str] = (),
        first: Sequence[Path] = (),
        variables: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Play a game to its end and return the summary."""
        with self.started(command, *arguments, settings=settings, first=first, variables=variables) as game:
            return game.finish()


def write_metadata(project: Path, folder: Path) -> None:
    """Write the entry points of a pyproject.toml as an installed distribution has them."""
    table = tomllib.loads(project.read_text())["project"]
    groups = {"console_scripts": table["scripts"], **table["entry-points"]}
    lines = [line for group, entries in groups.items() for line in (f"[{group}]", *map(" = ".join, entries.items()))]
    distribution = folder / f"{table['name']}-{table['version']}.dist-info"
    distribution.mkdir()
    (distribution / "entry_points.txt").write_text("\n".join(lines) + "\n")
    heading = f"Metadata-Version: 2.1\nName: {table['name']}\nVersion: {table['version']}\n"
    (distribution / "METADATA").write_text(heading)
