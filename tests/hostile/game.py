"""A game of six hosts as processes, one of them hostile, and everything that must hold of it."""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.host import Plan

from slaternet.errors import SlaternetError
from slaternet.model import Status
from slaternet.network.client import Channel, open_channel
from slaternet.service.main import DEGRADED
from slaternet_coordinator.engine.rules import Policy
from slaternet_lab import Run
from slaternet_lab.games.simulation import Simulation
from slaternet_lab.specs.resolve import load
from slaternet_lab.status.operator import ask_status

HOSTS = 6
ROUNDS = 200
GROWTH = 50.0
"""MiB that an honest process may grow by."""
DEADLINE = 100.0
HOSTILE = "agent-3"
"""In the middle: some peers dial it, and it dials the others."""

_ROOT = Path(__file__).parents[2]
_ALONE = ("lost", "failed", "false-rows")
"""Kinds of incidents that only the hostile host may have."""
_SPEC = ("run.agents=12", "run.dimension=3", f"run.rounds={ROUNDS}", "record.decisions=false", "graph.rho=0.3")


@dataclass
class Outcome:
    """How a game ended."""

    digest: str
    disturbed: bool
    growth: float  # MiB, of the honest process that grew most
    kinds: set[str] = field(default_factory=set)  # of the hostile host's incidents


class Processes:
    """The processes of one game, with their output and memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._first: dict[str, float] = {}
        self._most: dict[str, float] = {}

    def start(self, name: str, *command: str) -> None:
        """Start a process, whose output goes to a file of its name."""
        with (self._folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-u", "-m", *command], cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def output(self) -> Iterator[tuple[str, str]]:
        """Return what every process has printed."""
        for path in sorted(self._folder.glob("*.log")):
            yield path.stem, path.read_text(errors="replace")

    def measure(self) -> None:
        """Note the memory of every process."""
        for name, process in self.running.items():
            with suppress(OSError):
                status = Path(f"/proc/{process.pid}/status").read_text()
                if found := re.search(r"VmRSS:\s+(\d+) kB", status):
                    size = int(found[1]) / 1024
                    self._first.setdefault(name, size)
                    self._most[name] = max(self._most.get(name, 0.0), size)

    def forget_sizes(self) -> None:
        """Measure growth from now on."""
        self._first.clear()
        self._most.clear()

    @property
    def growth(self) -> float:
        """MiB by which the process has grown that grew most."""
        honest = [name for name in self._first if name != HOSTILE]
        return max((self._most[name] - self._first[name] for name in honest), default=0.0)

    def end(self) -> None:
        """Kill whatever is left."""
        for process in self.running.values():
            process.kill()
            process.wait()


def played(seed: int, policy: Policy, folder: Path) -> Outcome:
    """Play the game of a seed to its end; AssertionError where anything does not hold."""
    folder.mkdir(parents=True)
    processes = Processes(folder)
    try:
        return _play(Plan.draw(seed), seed, policy, folder, processes)
    except AssertionError as error:
        logs = "\n".join(f"--- {name}\n{text[-3000:]}" for name, text in processes.output())
        again = f"python -m tests.hostile {seed} --policy {policy}"
        raise AssertionError(f"{error} in {Plan.draw(seed)}; again by: {again}\n{logs}") from error
    finally:
        processes.end()


def _play(plan: Plan, seed: int, policy: Policy, folder: Path, processes: Processes) -> Outcome:
    spec, game = folder / "spec.toml", folder / "game"
    spec.write_text(load("paper-short", _SPEC).to_toml())
    state = ("--state", str(folder / "state"))
    rules = ("--policy", policy, "--lost-after", "3", "--hosts", str(HOSTS), "--listen", "127.0.0.1:0")
    processes.start("coordinator", "slaternet_coordinator", str(spec), *rules, *state)
    address = _address(folder / "coordinator.log")
    common = ("--coordinator", address, "--listen", "127.0.0.1:0", *state)
    processes.start("adversary", "slaternet_adversary", *common, "--out", str(game))
    for number in range(1, HOSTS + 1):
        name, seats = f"agent-{number}", f"{2 * number - 2},{2 * number - 1}"
        if name == HOSTILE:
            processes.start(name, "tests.hostile.host", address, name, seats, str(folder / "state"), str(seed))
        else:
            processes.start(name, "slaternet_agent", *common, "--name", name, "--seats", seats)
    _watch(address, policy, processes, common)
    codes = {name: process.wait(DEADLINE) for name, process in processes.running.items() if name != HOSTILE}
    run = Run.open(game)
    _check_processes(codes, processes)
    kinds = _check_incidents(game, plan)
    assert processes.growth < GROWTH, f"a process has grown by {processes.growth:.0f} MiB"
    return _check_results(run, plan, policy, Outcome("", False, processes.growth, kinds), folder / "simulation")


def _looks() -> Iterator[None]:
    """Return for the next look, until the deadline has passed."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        yield
        time.sleep(0.05)  # nothing depends on its length
    raise AssertionError("the deadline has passed")


def _address(log: Path) -> str:
    for _ in _looks():
        if found := re.search(r"listening on (\S+)", log.read_text()):
            return found[1]
    raise AssertionError("never reached")


async def _opened(address: str) -> Channel:
    return open_channel(address)


def _watch(address: str, policy: Policy, processes: Processes, common: tuple[str, ...]) -> None:
    """Watch the game until the coordinator leaves; under `wait` let an honest process take the hostile one's name."""
    hostile, begun, replaced = processes.running[HOSTILE], False, policy is not Policy.WAIT
    with asyncio.Runner() as runner:  # one loop and one channel for all looks
        channel = runner.run(_opened(address))
        for _ in _looks():
            if processes.running["coordinator"].poll() is not None:
                break
            processes.measure()
            try:
                status = runner.run(ask_status(channel)).status
            except SlaternetError:
                continue  # it is starting, or leaving
            assert not status.failure, status.failure
            assert not [each.name for each in status.hosts if each.lost and each.name != HOSTILE]
            if not begun and status.phase != "gathering":
                begun = True
                processes.forget_sizes()
            if not replaced and hostile.poll() is not None and _names_the_hostile(status):
                processes.start(HOSTILE, "slaternet_agent", *common, "--name", HOSTILE)
                replaced = True
        runner.run(channel.close())


def _names_the_hostile(status: Status) -> bool:
    return status.waiting_for.startswith(f"{HOSTILE}, ")


def _check_processes(codes: dict[str, int], processes: Processes) -> None:
    assert codes.pop("coordinator") in (0, DEGRADED)
    assert set(codes.values()) == {0}, codes
    for name, text in processes.output():
        if name != HOSTILE:
            assert "Traceback (most recent call last)" not in text, name
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", text), f"{name} prints control characters"


def _check_incidents(game: Path, plan: Plan) -> set[str]:
    """Check that the right host is named, and return the kinds of its incidents."""
    path = game / "incidents.jsonl"
    incidents = [json.loads(line) for line in path.read_text().splitlines()]
    assert not [each for each in incidents if each["kind"] in _ALONE and each["process"] != HOSTILE], incidents
    kinds = {each["kind"] for each in incidents if each["process"] == HOSTILE}
    assert {"gone", "failed", "false-rows", "lost"} & kinds
    assert plan.end != "fail" or {"failed", "false-rows"} & kinds
    if {"false-second", "false-first"} & set(plan.acts.values()):
        assert "dispute" in kinds
    if "addresses" in plan.acts.values():
        assert "refused" in kinds
    return kinds


def _check_results(run: Run, plan: Plan, policy: Policy, outcome: Outcome, folder: Path) -> Outcome:
    assert run.summary is not None
    outcome.digest, outcome.disturbed = str(run.summary["digest"]), bool(run.summary["disturbed"])
    assert run.summary["rounds"] == ROUNDS
    assert bool(run.spec.departures) <= (policy is Policy.LEAVE)
    if outcome.disturbed:
        assert plan.mixes_false_rows, "disturbed without need"
        return outcome
    folder.mkdir()
    simulation = Simulation(run.spec, folder)
    simulation.play()
    simulation.close()
    expected = Run.open(folder).summary
    assert expected is not None
    assert outcome.digest == expected["digest"]
    return outcome
