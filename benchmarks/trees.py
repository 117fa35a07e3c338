"""Games of this checkout and of another one, started by the command line."""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SOURCES = ("proto", "agent", "coordinator", "adversary", "lab")


class Tree:
    """A checkout that can play the paper's example; without a path, the one that runs.

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

    def play(
        self,
        command: str,
        *arguments: str,
        settings: Sequence[str] = (),
        first: Sequence[Path] = (),
        variables: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Play by `slaternet COMMAND paper`, perhaps with other code first on the path, and return the summary."""
        inherited = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        path = [*map(str, first), *map(str, self._path), *inherited]
        environment = {**os.environ, **(variables or {}), **({"PYTHONPATH": os.pathsep.join(path)} if path else {})}
        with tempfile.TemporaryDirectory() as folder:
            options = [option for setting in settings for option in ("--set", setting)]
            program = [self._python, "-m", "slaternet_lab", command, "paper", *arguments, *options]
            process = subprocess.run(
                [*program, "--json", "--out", str(Path(folder) / "run")],
                capture_output=True,
                check=False,
                env=environment,
            )
        if process.returncode:
            sys.exit(process.stderr.decode())
        summary: dict[str, Any] = json.loads(process.stdout)
        return summary


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
