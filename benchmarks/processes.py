"""What the processes of a game take: CPU time and memory, read from the kernel while they play."""

import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Turn:
    """One game of a contestant."""

    ms: float
    """Milliseconds per round."""
    cpu: dict[str, float] = field(default_factory=dict)
    """By name of process: milliseconds of CPU per round in the middle of the game, where that was measured."""


@dataclass(frozen=True)
class Memory:
    """What a process holds and held at most, in MB."""

    now: float
    peak: float


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process, also of those that have ended.

    It is the sum over /proc/PID/task/*/schedstat, to the nanosecond, by the clock that clock_getcpuclockid(3) names.
    """
    return time.clock_gettime(~pid << 3 | 2)


def memory(pid: int) -> Memory | None:
    """Return the memory of a process; None where it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        sizes = dict(re.findall(r"^Vm(RSS|HWM):\s+(\d+) kB$", (PROC / str(pid) / "status").read_text(), re.MULTILINE))
        if sizes:  # a process that nobody has waited for yet has none
            return Memory(int(sizes["RSS"]) / 1024, int(sizes["HWM"]) / 1024)
    return None


def members(command: int) -> dict[str, int]:
    """Return the processes of a game by name: the command that plays it, and all that it has started."""
    children: dict[int, list[int]] = {}
    for stat in PROC.glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found, seen = {"command": command}, [command]
    while seen:
        for pid in children.get(seen.pop(), ()):
            with suppress(FileNotFoundError, ProcessLookupError):
                name = _name(pid)
                found[name if name not in found else f"{name} {pid}"] = pid
            seen.append(pid)
    return found


def _name(pid: int) -> str:
    """Return a process's role: the name that it has given itself, or what its command line says."""
    name = (PROC / str(pid) / "comm").read_text().strip()
    words = (PROC / str(pid) / "cmdline").read_text().split("\0")
    service = next((word.removeprefix("slaternet_") for word in words if word.startswith("slaternet_")), name)
    if re.fullmatch(r"coordinator|adversary|agent-\d+", name):
        return name
    return words[words.index("--name") + 1] if "--name" in words else service
