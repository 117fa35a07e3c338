"""The services of one game, each on a machine of its own name."""

import functools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from machines import DEADLINE, PERFECT, SLATERNET, Machine, Network, Process, eventually, network
from relay import Faults

COORDINATOR = "coordinator"
ADVERSARY = "adversary"
OPERATOR = "operator"
PORT = 7000

Status = dict[str, Any]


class Wire(StrEnum):
    """How connections are secured."""

    PLAIN = "plain"
    TLS = "tls"


def hosts(number: int) -> list[str]:
    """Return the names of that many agent hosts."""
    return [f"agent-{index}" for index in range(1, number + 1)]


def run(*arguments: object) -> str:
    """Run a command of `slaternet` on this machine to its end; return what it prints."""
    done = subprocess.run([SLATERNET, *map(str, arguments)], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def settings(rounds: int | None) -> list[str]:
    """Return what makes of the paper's example a game of so many rounds; None: one that nothing ends but a stop."""
    return ["--set", f"run.rounds={rounds or ''}"]


@functools.cache
def simulated(rounds: int) -> str:
    """Return the digest of `slaternet simulate` for so many rounds of the paper's example."""
    with tempfile.TemporaryDirectory() as folder:
        summary = run("simulate", "paper", *settings(rounds), "--out", f"{folder}/run", "--json")
    return str(json.loads(summary)["digest"])


def digest(folder: Path) -> str:
    """Return the digest of a game that is over."""
    return str(json.loads((folder / "summary.json").read_text())["digest"])


class Services:
    """The services of a game of the paper's example; each is started by its name."""

    def __init__(self, network: Network, number: int, rounds: int | None, wire: Wire) -> None:
        self.network = network
        self.hosts = hosts(number)
        self.names = [COORDINATOR, ADVERSARY, *self.hosts]
        self.address = f"{network[COORDINATOR].address}:{PORT}"
        self._rounds = rounds
        self._security = ("--insecure",) if wire is Wire.PLAIN else ("--tls", "certs")
        self._processes: dict[str, Process] = {}

    def __getitem__(self, name: str) -> Process:
        return self._processes[name]

    def start(self, *names: str, options: Sequence[str] = ()) -> None:
        """Start these services, in this order, with options of their own."""
        for name in names:
            command = (*self._command(name), *self._security, *options)
            self._processes[name] = self.network[name].slaternet(name, *command)

    def _command(self, name: str) -> list[object]:
        if name == COORDINATOR:
            everyone = ["--hosts", len(self.hosts), "--listen", f"0.0.0.0:{PORT}"]
            return ["coordinator", "paper", *settings(self._rounds), *everyone]
        if name == ADVERSARY:
            return ["adversary", "--coordinator", self.address, "--out", "run"]
        return ["agent", "--coordinator", self.address, "--name", name]

    def status(self) -> Status:
        """Ask the coordinator how the game stands, from its own machine."""
        answer: Status = self.network[COORDINATOR].ask("status", self.address, *self._security)
        return answer

    def until(self, condition: Callable[[Status], bool]) -> Status:
        """Wait until the game stands as the condition says."""
        seen: list[Status] = []
        self[COORDINATOR].says("listening")

        def looked() -> bool:
            seen[:] = [self.status()]
            return condition(seen[0])

        eventually(looked, lambda: f"the game stands as {seen}")
        return seen[0]

    def under_way(self, rounds: int = 20) -> None:
        """Wait until so many rounds are scored."""
        table = self.network[ADVERSARY].folder / "run" / "metrics.csv"

        def scored() -> int:
            return len(table.read_text().splitlines()) - 1 if table.exists() else 0

        eventually(lambda: scored() >= rounds, lambda: f"{scored()} rounds are scored")

    def end_well(self) -> str:
        """Wait until every service has ended with exit code 0; return the digest."""
        codes = {name: self[name].ends() for name in self.names}
        assert codes == dict.fromkeys(self.names, 0)
        return digest(self.network[ADVERSARY].folder / "run")


@contextmanager
def services(
    folder: Path,
    number: int,
    rounds: int | None,
    *,
    wire: Wire = Wire.PLAIN,
    faults: Faults = PERFECT,
    seed: int = 1,
) -> Iterator[Services]:
    """Make a machine for a coordinator, an adversary and that many agent hosts; nothing is started yet."""
    with network(folder, COORDINATOR, ADVERSARY, *hosts(number), seed=seed, faults=faults) as machines:
        if wire is Wire.TLS:
            certify(folder / "certs", number)
            for machine in machines.machines.values():
                hand_over(folder / "certs", machine.name, machine)
            hand_over(folder / "certs", OPERATOR, machines[COORDINATOR])
        yield Services(machines, number, rounds, wire)


def certify(folder: Path, number: int) -> None:
    """Make certificates for that many hosts, as an operator would."""
    run("certs", folder, "--hosts", number)


def hand_over(certificates: Path, name: str, machine: Machine) -> None:
    """Copy what one process needs to its machine, and nothing else."""
    shutil.copytree(certificates / name, machine.folder / "certs" / name)
