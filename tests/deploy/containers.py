"""The container engine that `tests/deploy/engine` sets up, and games that podman-compose plays in it.

Everything made here bears a project's name of its own and goes with the block that made it, whatever happens there.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/slaternet"
COMPOSE = "docker-compose.yml"
MACHINES = "docker-compose.machines.yml"
USER = 1000
DEADLINE = 120.0

_CANNOT = 77
_projects = count(1)


class NoEngine(Exception):
    """This machine cannot have a container engine; the text says why."""


def eventually(condition: Callable[[], bool], otherwise: Callable[[], str], seconds: float = DEADLINE) -> None:
    """Look until the condition holds; where it does not in time, say what is seen instead."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the deadline has passed: {otherwise()}"
        time.sleep(0.1)  # the next look; nothing depends on its length


class Engine:
    """Podman and podman-compose, with images and containers of their own."""

    def __init__(self) -> None:
        done = subprocess.run([Path(__file__).with_name("engine")], capture_output=True, text=True)
        if done.returncode == _CANNOT:
            raise NoEngine(done.stderr.strip())
        assert done.returncode == 0, done.stderr
        # what the script prints is for a shell, so a shell says what it means
        shown = subprocess.run(["bash", "-c", f"{done.stdout}\nenv -0"], capture_output=True, text=True, check=True)
        self._environment = dict(line.split("=", 1) for line in shown.stdout.split("\0") if line)

    def podman(self, *arguments: object, code: int = 0) -> str:
        """Run a command of podman; return what it prints."""
        return self.run("podman", *arguments, code=code)

    def run(
        self,
        *command: object,
        folder: Path | None = None,
        variables: Mapping[str, str] = {},
        given: str = "",
        code: int = 0,
    ) -> str:
        """Run a command to its end, which must be this exit code; return its standard output."""
        done = subprocess.run(
            [str(each) for each in command],
            input=given,
            capture_output=True,
            text=True,
            cwd=folder,
            env={**self._environment, **variables},
            timeout=5 * DEADLINE,
        )
        assert done.returncode == code, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def inside(self, *command: object, image: str = IMAGE) -> str:
        """Run a program in a new container; return its standard output."""
        program, *arguments = command
        return self.podman("run", "--rm", "--network=none", f"--entrypoint={program}", image, *arguments)

    def simulated(self, spec: str, *settings: str, games: Path = ROOT / "examples") -> str:
        """Return the digest of the same image's simulation of a spec."""
        script = 'slaternet simulate "$@" --out /tmp/run >&2 && cat /tmp/run/summary.json'
        chosen = [part for setting in settings for part in ("--set", setting)]
        printed = self.podman(
            *("run", "--rm", "--network=none", f"--volume={games}:/slaternet/examples:ro", "--entrypoint=sh", IMAGE),
            *("-euc", script, "sh", spec, *chosen),
        )
        return str(json.loads(printed)["digest"])


class Project:
    """A folder as a user has it after a clone, with a game in it that podman-compose plays."""

    def __init__(self, engine: Engine, folder: Path, variables: Mapping[str, object], files: Sequence[str]) -> None:
        self.folder = folder
        self.name = f"slaternet-{os.getpid()}-{next(_projects)}"
        self.variables = {key: str(value) for key, value in variables.items()}
        self._engine = engine
        self._files = [part for file in files for part in ("-f", file)]
        for name in files:
            shutil.copy(ROOT / name, folder)
        shutil.copy(ROOT / ".env", folder)
        shutil.copytree(ROOT / "examples", folder / "examples")
        (folder / "runs").mkdir()
        os.chown(folder / "runs", USER, USER)  # whoever has cloned it is user 1000 on most machines, but root here

    def compose(self, *arguments: object, given: str = "") -> str:
        """Run a command of podman-compose; return what it prints."""
        return self._engine.run(
            *("podman-compose", *self._files, "-p", self.name),
            *arguments,
            folder=self.folder,
            variables=self.variables,
            given=given,
        )

    def up(self, *arguments: object) -> None:
        """Start the game; the image has been built before, once for all."""
        self.compose("up", "--detach", "--no-build", *arguments)

    def containers(self) -> dict[str, Any]:
        """Return what podman knows of each container, by its name without the project's."""
        ids = self._engine.podman("ps", "--all", "--quiet", "--filter", f"name=^{self.name}_").split()
        known = json.loads(self._engine.podman("inspect", "--type=container", *ids)) if ids else []
        return {each["Name"].removeprefix(f"{self.name}_"): each for each in known}

    def log(self, container: str) -> str:
        """Return what a container has printed so far."""
        return self._engine.run("bash", "-c", 'podman logs "$0" 2>&1', f"{self.name}_{container}")

    def inside(self, container: str, *command: object, code: int = 0) -> str:
        """Run a command in a container that runs; return what it prints."""
        return self._engine.podman("exec", f"{self.name}_{container}", *command, code=code)

    def ends(self) -> dict[str, int]:
        """Wait until no container runs; return their exit codes."""

        def running() -> list[str]:
            return [name for name, each in self.containers().items() if each["State"]["Running"]]

        eventually(lambda: not running(), lambda: f"{running()} still run")
        return {name: each["State"]["ExitCode"] for name, each in self.containers().items()}

    def scored(self) -> int:
        """Return how many rounds the run folder holds."""
        return sum(max(0, len(file.read_bytes().splitlines()) - 1) for file in self.folder.glob("runs/*/metrics.csv"))

    def summary(self) -> dict[str, Any]:
        """Return the summary of the one game that was played, read from the host's side of the mount."""
        (file,) = self.folder.glob("runs/*/summary.json")
        summary: dict[str, Any] = json.loads(file.read_text())
        return summary

    def logs(self) -> str:
        """Return what all containers have printed."""
        return "\n".join(f"--- {name}\n{self.log(name)}" for name in self.containers())

    def remove(self) -> None:
        """Remove its containers, volumes and network."""
        for container in self.containers().values():
            self._engine.podman("rm", "--force", "--volumes", "--time=0", container["Id"])
        for what in ("volume", "network"):
            for name in self._engine.podman(what, "ls", "--quiet", "--filter", f"name=^{self.name}_").split():
                self._engine.podman(what, "rm", "--force", name)


@contextmanager
def project(
    engine: Engine, folder: Path, variables: Mapping[str, object] = {}, files: Sequence[str] = (COMPOSE,)
) -> Iterator[Project]:
    """Offer a project; where the block fails, all its containers' logs are printed."""
    folder.mkdir()
    made = Project(engine, folder, variables, files)
    try:
        yield made
    except BaseException:
        print(made.logs())
        raise
    finally:
        made.remove()
