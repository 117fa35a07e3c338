"""Machines that are network namespaces, each with an address of its own, joined by the seeded relay.

Everything made here bears a prefix of its own and goes with the block that made it, whatever happens in the block.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.cluster.namespaces import inside, ip
from tests.cluster.relay import Faults, Statistics

SLATERNET = str(Path(sys.executable).with_name("slaternet"))
DEADLINE = 100.0
PERFECT = Faults()
CUT = Faults(loss=1.0)
NOBODY = "10.77.0.99"
"""An address in the machines' network that none of them has: what is sent there vanishes."""

_DEVICE = "wire"
_TAIL_LINES = 30
_networks = count(1)


def eventually(condition: Callable[[], bool], otherwise: Callable[[], str], seconds: float = DEADLINE) -> None:
    """Look until the condition holds; where it does not in time, say what is seen instead."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the deadline has passed: {otherwise()}"
        time.sleep(0.02)  # the next look; nothing depends on its length


class Process:
    """A command on a machine; what it prints is in its log, after what earlier ones of its name have left there."""

    def __init__(self, name: str, command: Sequence[str], log: Path, folder: Path, variables: dict[str, str]) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as file:
            self._start = file.tell()
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **variables},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal: SIGTERM, SIGKILL, SIGSTOP, SIGCONT."""
        self._popen.send_signal(number)

    def ends(self, seconds: float = DEADLINE) -> int:
        """Wait for its end; return its exit code, negative where a signal killed it."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended in {seconds:g} s; its log:\n{self.tail()}") from None

    def says(self, *words: str, seconds: float = DEADLINE) -> str:
        """Wait until a line of its log has all these words; return the line."""
        found: list[str] = []

        def heard() -> bool:
            ended = not self.alive
            found.extend(line for line in self.words().splitlines() if all(word in line for word in words))
            assert found or not ended, f"{self.name} has ended without saying {words}; its log:\n{self.tail()}"
            return bool(found)

        eventually(heard, lambda: f"{self.name} has not said {words}; its log:\n{self.tail()}", seconds)
        return found[0]

    def words(self) -> str:
        """Return all that it has said so far."""
        return self.log.read_bytes()[self._start :].decode(errors="replace")

    def tail(self) -> str:
        """Return the last it has said."""
        return "\n".join(self.words().splitlines()[-_TAIL_LINES:])


class Machine:
    """A network namespace with an address and a folder of its own."""

    def __init__(self, name: str, namespace: str, address: str, folder: Path) -> None:
        self.name = name
        self.namespace = namespace
        self.address = address
        self.folder = folder
        self.processes: list[Process] = []

    @property
    def entrance(self) -> tuple[str, ...]:
        """What stands before a command that shall run here."""
        return ("ip", "netns", "exec", self.namespace)

    def start(self, name: str, *command: object, variables: dict[str, str] | None = None) -> Process:
        """Start a command here, in the machine's folder."""
        process = Process(
            name, [*self.entrance, *map(str, command)], self.folder / f"{name}.log", self.folder, variables or {}
        )
        self.processes.append(process)
        return process

    def slaternet(self, name: str, *arguments: object, variables: dict[str, str] | None = None) -> Process:
        """Start a command of `slaternet` here."""
        return self.start(name, SLATERNET, *arguments, variables=variables)

    def ask(self, *arguments: object) -> Any:
        """Run a command of `slaternet` here to its end; return the JSON that it prints."""
        here = [*self.entrance, SLATERNET, *map(str, arguments), "--json"]
        done = subprocess.run(here, cwd=self.folder, capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def socket(self, kind: socket.SocketKind) -> socket.socket:
        """Return a socket of this machine at a free port of its address."""
        with inside(self.namespace):
            end = socket.socket(socket.AF_INET, kind)
        end.settimeout(DEADLINE)
        end.bind((self.address, 0))
        return end

    def plug(self, *, up: bool) -> None:
        """Have its wire up, or down."""
        ip("-n", self.namespace, "link", "set", _DEVICE, "up" if up else "down")

    def end(self) -> None:
        """Kill whatever was started here."""
        for process in self.processes:
            process.signal(signal.SIGKILL)
            process.ends()

    def clear(self) -> None:
        """Kill whatever still runs here."""
        self.end()
        # what a process has left, such as a plugin's worker: all that live in this namespace are ours
        for pid in ip("netns", "pids", self.namespace).split():
            os.kill(int(pid), signal.SIGKILL)


class Wires:
    """The relay between the machines, as a process that is told what to do to packets."""

    def __init__(self, seed: int, machines: Sequence[Machine]) -> None:
        places = [f"{each.name}:{each.namespace}:{each.address}" for each in machines]
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.relay", str(seed), _DEVICE, *places],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._answer() == {"machines": len(machines)}

    def set(self, faults: Faults, source: Machine | None = None, destination: Machine | None = None) -> None:
        """Set the faults of a link from now on; without a source or a destination, of all links that fit."""
        ends = {"source": source and source.name, "destination": destination and destination.name}
        answer = self._ask({"faults": asdict(faults)} | ends)
        assert answer["links"] > 0

    def statistics(self) -> dict[tuple[str, str], Statistics]:
        """Return what has happened so far on every link, by source and destination."""
        return {
            (each.pop("source"), each.pop("destination")): Statistics(**each)
            for each in self._ask({"statistics": True})
        }

    def total(self) -> Statistics:
        """Return what has happened so far on all links together."""
        rows = [asdict(each) for each in self.statistics().values()]
        return Statistics(**{key: sum(row[key] for row in rows) for key in rows[0]})

    def close(self) -> None:
        """End the relay."""
        self._popen.communicate(timeout=DEADLINE)

    def _ask(self, command: dict[str, Any]) -> Any:
        assert self._popen.stdin is not None
        print(json.dumps(command), file=self._popen.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        assert line, "the relay has ended"
        return json.loads(line)


class Network:
    """Some machines, and the wires between them where there are any."""

    def __init__(self, machines: Sequence[Machine], wires: Wires | None = None) -> None:
        self.machines = {each.name: each for each in machines}
        self._wires = wires

    @property
    def wires(self) -> Wires:
        """The wires of machines that have some."""
        assert self._wires is not None, "these machines are one: nothing lies between them"
        return self._wires

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]

    @property
    def processes(self) -> list[Process]:
        """Everything that was started on any machine."""
        return [process for machine in self.machines.values() for process in machine.processes]


@contextmanager
def network(folder: Path, *names: str, seed: int = 1, faults: Faults = PERFECT) -> Iterator[Network]:
    """Make a machine for each name, joined by wires; all goes with the block, and a failure shows every log."""
    _require_root()
    prefix = f"slaternet-{os.getpid()}-{next(_networks)}"
    machines = [
        Machine(name, f"{prefix}-{name}", f"10.77.0.{number}", folder / name) for number, name in enumerate(names, 1)
    ]
    with _terminated_in_order(), ExitStack() as stack:
        for machine in machines:
            machine.folder.mkdir(parents=True)
            ip("netns", "add", machine.namespace)
            stack.callback(ip, "netns", "delete", machine.namespace)
            stack.callback(machine.clear)
            ip("-n", machine.namespace, "tuntap", "add", "dev", _DEVICE, "mode", "tun")
            ip("-n", machine.namespace, "address", "add", f"{machine.address}/24", "dev", _DEVICE)
        wires = Wires(seed, machines)
        stack.callback(wires.close)
        wires.set(faults)
        for machine in machines:
            # not before: a device without its relay would come up later, and silently drop till then
            for device in ("lo", _DEVICE):
                ip("-n", machine.namespace, "link", "set", device, "up")
        with shown(machines):
            yield Network(machines, wires)


@contextmanager
def shown(machines: Sequence[Machine]) -> Iterator[None]:
    """Show the log of every process where the block fails, or of its last life."""
    try:
        yield
    except BaseException:
        for process in {each.name: each for machine in machines for each in machine.processes}.values():
            print(f"--- {process.name} ({'alive' if process.alive else process.ends()})\n{process.tail()}")
        raise


def _require_root() -> None:
    """Skip, saying so, where namespaces cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: network namespaces need root; run `make test-cluster` as root")
    if shutil.which("ip") is None:
        pytest.skip("NOT TESTED: there is no command ip; install Debian's iproute2")
    if not Path("/dev/net/tun").exists():
        pytest.skip("NOT TESTED: there is no /dev/net/tun; load the kernel's module tun")


@contextmanager
def _terminated_in_order() -> Iterator[None]:
    """Let SIGTERM, such as that of a CI job that took too long, end the tests with all that they made."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
