"""In a sealed game nothing of the adversary's section reaches a host: not by its streams, not into its memory."""

import hashlib
import json
import os
import secrets
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
from tests.game.processes import Service, digest, eventually, recorded, simulated, slaternet, write_spec

from slaternet.spec import Spec
from slaternet_lab import Run

pytestmark = pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no /proc to read memory from")

HOSTS = ("agent-1", "agent-2")
PAGE = os.sysconf("SC_PAGE_SIZE")
PLUGIN = """
from dataclasses import dataclass
import numpy as np
from slaternet_adversary import Adversary

@dataclass
class Bowls:
    centres: np.ndarray

    def loss(self, agents, points):
        return ((points - self.centres[agents, None]) ** 2).sum(axis=-1)

    def constraint(self, agents, points):
        return points[..., :1] - 1.0

class {name}(Adversary):
    constraints, rowwise = 1, True

    def __init__(self, game, *, label, scale):
        super().__init__(game)
        self._label, self._scale = label, scale

    def play(self, round, past):
        drawn = self.game.stream(self._label, block=round).uniform(-1.0, 1.0, (self.game.agents, self.game.dimension))
        return Bowls(np.tanh(self._scale) * drawn)
"""


@dataclass(frozen=True)
class Secret:
    """What the adversary knows and hosts must not; nothing of it stands in a command line or variable of theirs."""

    seed: int = field(default_factory=lambda: (1 << 62) + secrets.randbits(62))
    label: str = field(default_factory=lambda: f"label-{secrets.token_hex(12)}")
    scale: float = field(default_factory=lambda: secrets.randbits(52) / (1 << 53) + 0.25)
    name: str = field(default_factory=lambda: f"Plugin{secrets.token_hex(8)}")

    def write(self, folder: Path) -> Path:
        """Write the plugin and a spec of a game without end."""
        plugin = folder / f"{self.name}.py"
        plugin.write_text(PLUGIN.format(name=self.name))
        more = f'seed = {self.seed}\noptions = {{ label = "{self.label}", scale = {self.scale!r} }}\n'
        return write_spec(folder, rounds=None, plugin=f"{plugin}:{self.name}", more=more)

    @property
    def forms(self) -> dict[str, bytes]:
        """The bytes that would show it."""
        limbs = (self.seed >> shift & (1 << 30) - 1 for shift in (0, 30, 60))
        return {
            "the seed in decimal digits": str(self.seed).encode(),
            "the seed in 8 bytes": self.seed.to_bytes(8, "little"),
            "the seed as Python holds it": struct.pack("<III", *limbs),
            "the text": self.label.encode(),
            "the number in digits": repr(self.scale).encode(),
            "the number in 8 bytes": struct.pack("<d", self.scale),
            "the plugin": self.name.encode(),
            "the plugin's hash": hashlib.sha256(PLUGIN.format(name=self.name).encode()).hexdigest().encode(),
        }


def found(forms: Mapping[str, bytes], data: bytes) -> set[str]:
    return {what for what, form in forms.items() if form in data}


def found_in_memory(forms: Mapping[str, bytes], pid: int) -> set[str]:
    """Return which of these forms occur in any memory of a process that can be read."""
    there: set[str] = set()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for start, length in touched(pid):
            with suppress(OSError):  # a process that runs may have given it back
                there |= found(forms, os.pread(memory.fileno(), length, start))
    return there


def touched(pid: int) -> Iterator[tuple[int, int]]:
    """Yield start and length of the readable memory of a process, without the pages that it has never touched."""
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            addresses, rights, *_ = line.split()
            first, last = (int(each, 16) // PAGE for each in addresses.split("-"))
            if "r" not in rights or "[v" in line:  # [vvar] and [vsyscall] are the kernel's
                continue
            entries = np.frombuffer(os.pread(pagemap.fileno(), 8 * (last - first), 8 * first), "<u8")
            there = np.concatenate(([False], entries >> np.uint64(62) > 0, [False]))  # in memory, or swapped out
            begins, ends = np.flatnonzero(there[1:] & ~there[:-1]), np.flatnonzero(there[:-1] & ~there[1:])
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
                yield (first + begin) * PAGE, (end - begin) * PAGE


class Tap:
    """A relay on the way to a server, which keeps what it passes on."""

    def __init__(self, server: Callable[[], str]) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        self.to_server, self.to_client = bytearray(), bytearray()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """End it; the processes at both ends of its connections have ended."""
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # until it is shut down
            while True:
                client, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._connect, args=(client,)))
                self._threads[-1].start()

    def _connect(self, client: socket.socket) -> None:
        host, _, port = self._server().rpartition(":")
        # a server that has left refuses
        with suppress(ConnectionRefusedError), client, socket.create_connection((host, int(port))) as server:
            back = threading.Thread(target=_pass_on, args=(server, client, self.to_client))
            back.start()
            _pass_on(client, server, self.to_server)
            back.join()


def _pass_on(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            kept += data
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


class Game:
    """The services of a game as processes of their own; between hosts and everyone else there are taps."""

    def __init__(self, folder: Path, spec: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self.services: dict[str, Service] = {}
        self.address = ""
        self._start("coordinator", spec, "--hosts", len(HOSTS), "--listen", "127.0.0.1:0")
        self.address = self.services["coordinator"].says("listening on ").partition("listening on ")[2]
        self.of_adversary = self._tap("coordinator")
        self.to_coordinator = self._tap("coordinator")
        self.to_adversary = self._tap("adversary")
        self.to_hosts = {name: self._tap(name) for name in HOSTS}
        self._join("adversary", self.of_adversary, self.to_adversary, "--out", folder / "run", "--metrics-values")
        for name in HOSTS:
            self._join(name, self.to_coordinator, self.to_hosts[name], "--name", name)

    def _tap(self, server: str) -> Tap:
        tap = Tap(lambda: self.services[server].says("listening", "address=").partition("address=")[2].split()[0])
        self._stack.callback(tap.close)
        return tap

    def _start(self, name: str, *arguments: object) -> None:
        folder = self.folder / name
        folder.mkdir()
        service = self.services[name] = Service(folder, name, "agent" if name in HOSTS else name, *arguments)
        self._stack.callback(service.process.wait)
        self._stack.callback(service.process.kill)

    def _join(self, name: str, coordinator: Tap, own: Tap, *more: object) -> None:
        there = ("--coordinator", coordinator.address, "--listen", "127.0.0.1:0", "--advertise", own.address)
        self._start(name, *there, *more)

    def pid(self, name: str) -> int:
        return self.services[name].process.pid

    def received_by_hosts(self) -> bytes:
        """Return every byte that a host has received, and what hosts have sent each other with it."""
        between = (bytes(way) for tap in self.to_hosts.values() for way in (tap.to_server, tap.to_client))
        return bytes(self.to_coordinator.to_client) + bytes(self.to_adversary.to_client) + b"".join(between)


@contextmanager
def playing(folder: Path, spec: Path) -> Iterator[Game]:
    with ExitStack() as stack:
        yield Game(folder, spec, stack)


@pytest.mark.slow
def test_nothing_of_the_adversarys_section_reaches_a_host(tmp_path: Path) -> None:
    secret = Secret()
    spec = secret.write(tmp_path)
    with playing(tmp_path, spec) as game:
        eventually(lambda: recorded(tmp_path / "run") >= 100)
        for name in HOSTS:
            os.kill(game.pid(name), signal.SIGSTOP)
        whole = Spec.parse((tmp_path / "run" / "spec.toml").read_text(), source="run")
        assert (whole.run.seed, whole.adversary.seed) == (7, secret.seed)
        forms = secret.forms | {"the spec's digest": whole.digest().encode()}

        assert {name: found_in_memory(forms, game.pid(name)) for name in HOSTS} == {name: set() for name in HOSTS}
        assert len(game.to_coordinator.to_client) > 1000
        assert len(game.to_adversary.to_client) > 10_000
        assert found(forms, game.received_by_hosts()) == set()

        # the same looks find it where it is
        in_bytes = {"the seed in 8 bytes"}
        assert found_in_memory(secret.forms, game.pid("adversary")) >= secret.forms.keys() - in_bytes
        told = {"the seed in decimal digits", "the text", "the number in digits", "the plugin", "the plugin's hash"}
        assert found(secret.forms, bytes(game.of_adversary.to_client)) == told
        here = bytearray(secret.seed.to_bytes(8, "little"))
        assert found_in_memory(secret.forms, os.getpid()) >= in_bytes, here

        for name in HOSTS:
            os.kill(game.pid(name), signal.SIGCONT)
        with urlopen(game.services["adversary"].says("metrics", "url=").partition("url=")[2].split()[0]) as shown:
            assert b"slaternet_cumulative_loss " in shown.read()  # as --metrics-values says
        assert json.loads(slaternet("status", game.address, "--json").out)["sealed"] is True
        assert slaternet("stop", game.address).code == 0
        assert [each.process.wait(60) for each in game.services.values()] == [0] * 4
    run = Run.open(tmp_path / "run")
    assert run.summary["sealed"] is True
    assert digest(simulated(run.spec, tmp_path / "simulation")) == digest(run)
