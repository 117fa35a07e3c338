"""The services of one game, each on a machine of its own name."""

import functools
import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.cluster.machines import DEADLINE, PERFECT, SLATERNET, Machine, Network, Process, eventually, network
from tests.cluster.relay import Faults

COORDINATOR = "coordinator"
ADVERSARY = "adversary"
OPERATOR = "operator"
PORT = 7000
PAPER = ("paper",)
"""The spec of the paper's example; settings may follow a spec's name."""

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
    """Return what makes of a spec a game of so many rounds; None: one that nothing ends but a stop."""
    return ["--set", f"run.rounds={rounds or ''}"]


@functools.cache
def simulated(rounds: int, spec: tuple[str, ...] = PAPER) -> str:
    """Return the digest of `slaternet simulate` for so many rounds of a spec, with its settings."""
    with tempfile.TemporaryDirectory() as folder:
        summary = run("simulate", *spec, *settings(rounds), "--out", f"{folder}/run", "--json")
    return str(json.loads(summary)["digest"])


def digest(folder: Path) -> str:
    """Return the digest of a game that is over."""
    return str(json.loads((folder / "summary.json").read_text())["digest"])


class Services:
    """The services of a game; each is started by its name, and started again when it has ended."""

    def __init__(
        self,
        network: Network,
        number: int,
        rounds: int | None,
        wire: Wire,
        spec: Sequence[str] = PAPER,
        options: Sequence[str] = (),
    ) -> None:
        self.network = network
        self.hosts = hosts(number)
        self.names = [COORDINATOR, ADVERSARY, *self.hosts]
        self.address = f"{network[COORDINATOR].address}:{PORT}"
        self._coordinator = ["coordinator", *spec, *settings(rounds)]
        self._security = ("--insecure",) if wire is Wire.PLAIN else ("--tls", "certs")
        self._options = options
        self._processes: dict[str, Process] = {}

    def __getitem__(self, name: str) -> Process:
        return self._processes[name]

    def missing(self) -> list[str]:
        """Return who was never started."""
        return [name for name in self.names if name not in self._processes]

    def fallen(self) -> list[str]:
        """Return who has ended other than with exit code 0."""
        return [name for name, process in self._processes.items() if not process.alive and process.ends()]

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.network[ADVERSARY].folder / "run"

    def kill(self, *names: str) -> None:
        """Kill these services at once; when this returns, they are gone."""
        for name in names:
            self[name].signal(signal.SIGKILL)
        for name in names:
            self[name].ends()

    def start(self, *names: str, options: Sequence[str] = (), variables: dict[str, str] | None = None) -> None:
        """Start these services, in this order, with options and variables of their own."""
        for name in names:
            command = (*self._command(name), *self._security, *self._options, *options)
            self._processes[name] = self.network[name].slaternet(name, *command, variables=variables)

    def _command(self, name: str) -> list[object]:
        if name == COORDINATOR:
            everyone = ["--hosts", len(self.hosts), "--listen", self.address]
            return [*self._coordinator, *everyone]
        if name == ADVERSARY:
            return ["adversary", "--coordinator", self.address, "--out", "run"]
        return ["agent", "--coordinator", self.address, "--name", name]

    def status(self) -> Status:
        """Ask the coordinator how the game stands, from its own machine."""
        answer: Status = self.network[COORDINATOR].ask("status", self.address, *self._security)
        return answer

    def stop(self) -> None:
        """Ask the coordinator to end the game, from its own machine."""
        self.network[COORDINATOR].ask("stop", self.address, *self._security)

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

        def reached() -> bool:
            assert not self.fallen(), f"nobody waits for rounds that cannot come: {self.fallen()} have ended"
            return len(self.scored()) >= rounds

        eventually(reached, lambda: f"{len(self.scored())} rounds are scored")

    def scored(self) -> list[str]:
        """Return the lines of metrics.csv that are whole, one for each round that is scored."""
        table = self.run / "metrics.csv"
        lines = table.read_text().splitlines(keepends=True)[1:] if table.exists() else []
        return [line for line in lines if line.endswith("\n")]

    def end_well(self) -> str:
        """Wait until every service has ended with exit code 0; return the digest."""
        codes = {name: self[name].ends() for name in self.names}
        assert codes == dict.fromkeys(self.names, 0)
        return digest(self.run)


@contextmanager
def services(
    folder: Path,
    number: int,
    rounds: int | None,
    *,
    wire: Wire = Wire.PLAIN,
    faults: Faults = PERFECT,
    seed: int = 1,
    spec: Sequence[str] = PAPER,
    options: Sequence[str] = (),
) -> Iterator[Services]:
    """Make a machine for a coordinator, an adversary and that many agent hosts; nothing is started yet."""
    with network(folder, COORDINATOR, ADVERSARY, *hosts(number), seed=seed, faults=faults) as machines:
        if wire is Wire.TLS:
            hand_out(folder / "certs", number, machines)
        yield Services(machines, number, rounds, wire, spec, options)


def certify(folder: Path, number: int) -> None:
    """Make certificates for that many hosts, as an operator would."""
    run("certs", folder, "--hosts", number)


def hand_out(certificates: Path, number: int, network: Network) -> None:
    """Make certificates for that many hosts, and one for a host without a machine; each machine gets its own."""
    certify(certificates, number + 1)
    for machine in network.machines.values():
        hand_over(certificates, machine.name, machine)
    hand_over(certificates, OPERATOR, network[COORDINATOR])


def hand_over(certificates: Path, name: str, machine: Machine) -> None:
    """Copy what one process needs to its machine, and nothing else."""
    shutil.copytree(certificates / name, machine.folder / "certs" / name)
