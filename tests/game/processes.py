"""The `slaternet` command as a user starts it, and its processes as the system sees them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slaternet.spec import Spec
from slaternet_adversary.shell.run_folder import COLUMNS
from slaternet_lab import Run
from slaternet_lab.games.simulation import Simulation

SLATERNET = str(Path(sys.executable).with_name("slaternet"))
PLUGINS = Path(__file__).parent / "plugins"
FORK_SERVER = "lab.games.fork_server"
DEADLINE = 100.0
PARTING = 5.0
"""How long a service may take to end that is asked to."""

SPEC = """
[run]
name = "small"
agents = {agents}
{rounds}
dimension = 3
seed = 7

[set]
kind = "box"
lower = -5.0
upper = 5.0

[algorithm]
name = "zhang2024"
schedule = "table2"

[graph]
name = "paper"
rho = 0.1

[adversary]
plugin = "{plugin}"
"""


def write_spec(
    folder: Path, *, rounds: int | None, agents: int = 6, plugin: str = "linear-regression", more: str = ""
) -> Path:
    """Write a small spec; without rounds, of a game that goes on until it is stopped."""
    path = folder / "small.toml"
    path.write_text(SPEC.format(agents=agents, plugin=plugin, rounds=f"rounds = {rounds}" if rounds else "") + more)
    return path


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


def slaternet(*arguments: object, seconds: float = DEADLINE) -> Outcome:
    """Run a command to its end."""
    done = subprocess.run([SLATERNET, *map(str, arguments)], capture_output=True, text=True, timeout=seconds)
    return Outcome(done.returncode, done.stdout, done.stderr)


def simulated(spec: Spec, folder: Path) -> Run:
    """Simulate a resolved spec without drawing anything."""
    folder.mkdir()
    simulation = Simulation(spec, folder)
    simulation.play()
    simulation.close()
    return Run.open(folder)


def digest(run: Run) -> str:
    """Return the digest of a run that is complete."""
    assert run.summary is not None
    return str(run.summary["digest"])


def eventually(condition: Callable[[], bool], seconds: float = DEADLINE) -> None:
    """Look until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the deadline has passed"
        time.sleep(0.02)  # the next look; nothing depends on its length


def recorded(folder: Path) -> int:
    """Return how many rounds metrics.csv holds; every row must be whole, and rounds follow one another."""
    try:
        lines = (folder / "metrics.csv").read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return 0
    rows = [line.split(",") for line in lines[1:] if line.endswith("\n")]
    assert all(len(row) == len(COLUMNS) for row in rows)
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1))
    return len(rows)


def alive(pid: int) -> bool:
    """Say whether a process runs; one that is dead but not yet taken note of does not."""
    status = _told(Path(f"/proc/{pid}/stat"))
    return bool(status) and status.rpartition(")")[2].split()[0] not in "ZX"


class Service:
    """One service of a game; its log is a file."""

    def __init__(self, folder: Path, name: str, *arguments: object) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        with self._log.open("w") as log:
            command = [SLATERNET, *map(str, arguments)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)

    def words(self) -> str:
        return self._log.read_text()

    def says(self, *words: str) -> str:
        """Wait until it has said all these words in one line; return the line."""

        def lines() -> list[str]:
            return [line for line in self.words().splitlines() if all(word in line for word in words)]

        eventually(lambda: bool(lines()) or self.process.poll() is not None)
        assert lines(), self.words()
        return lines()[0]

    def ends(self) -> None:
        """Ask it to end; require that it does so soon, as one that was interrupted."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PARTING) == 130, self.words()
        assert "Traceback" not in self.words()


class Playing:
    """`slaternet run` in the background."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self.process = process
        self.folder = folder

    def children(self) -> dict[str, int]:
        """Return the process ids of the services, by name."""
        return _services(self.process.pid)

    def fork_server(self) -> int:
        """Return the process id of the fork server."""
        return next(pid for pid in below(self.process.pid) if _name(pid) == FORK_SERVER)

    def under_way(self, rounds: int = 5) -> dict[str, int]:
        """Wait until some rounds are recorded; return the process ids of the services, by name."""
        eventually(lambda: self.process.poll() is not None or recorded(self.folder) >= rounds)
        assert self.process.poll() is None, self.outcome()
        return self.children()

    def switch_off(self, rounds: int) -> None:
        """Kill every process at once, their parent first, as soon as some rounds are recorded."""
        pids = [self.process.pid, *self.under_way(rounds).values()]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        eventually(lambda: not any(alive(pid) for pid in pids))

    def address(self) -> str:
        """Return where the coordinator listens."""
        log = (self.folder / "state" / "coordinator" / "log").read_text()
        return log.partition("address=")[2].split()[0]

    def outcome(self, seconds: float = DEADLINE) -> Outcome:
        """Wait for the end."""
        out, err = self.process.communicate(timeout=seconds)
        return Outcome(self.process.returncode, out, err)


def _told(path: Path) -> str:
    """Return what the system tells of a process; nothing of one that has gone since it was listed."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def below(parent: int) -> list[int]:
    """Return the process ids of the children of a process."""
    return [int(pid) for task in Path(f"/proc/{parent}/task").glob("*/children") for pid in _told(task).split()]


def _services(parent: int) -> dict[str, int]:
    services: dict[str, int] = {}
    for pid in below(parent):
        services |= _services(pid) if (name := _name(pid)) == FORK_SERVER else {name: pid}
    return services


def _name(pid: int) -> str:
    words = _told(Path(f"/proc/{pid}/cmdline")).split("\0")
    if "--name" in words:
        return words[words.index("--name") + 1]
    return next((word.removeprefix("slaternet_") for word in words if word.startswith("slaternet_")), f"pid {pid}")


@contextmanager
def playing(spec: Path, folder: Path, *arguments: object) -> Iterator[Playing]:
    """Start `slaternet run`; whatever is left of it is killed with the block."""
    with _started(folder, "run", spec, "--out", folder, *arguments) as game:
        yield game


@contextmanager
def resuming(folder: Path, *arguments: object) -> Iterator[Playing]:
    """Start `slaternet resume`; whatever is left of it is killed with the block."""
    with _started(folder, "resume", folder, *arguments) as game:
        yield game


@contextmanager
def _started(folder: Path, *arguments: object) -> Iterator[Playing]:
    command = [SLATERNET, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    game = Playing(process, folder)
    try:
        yield game
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
