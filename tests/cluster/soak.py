"""A long game under mild faults: whether the memory and the open files of its processes grow."""

import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.history import History
from tests.cluster.injections import Kill, Pause
from tests.cluster.loopback import on_loopback
from tests.cluster.machines import eventually
from tests.cluster.services import Services, simulated

SPEC = ("paper", "--set", "run.agents=12")
HOSTS = 3
MORTAL = "agent-1"
"""Who is killed now and then, and hence is not measured."""

_EVERY = 0.5
_WARM = 0.25  # of the time, at the start, when buffers come to their size
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MIB = 1 << 20
_MINUTE = 60.0


@dataclass(slots=True)
class Gauge:
    """What one process holds, as time goes on."""

    seconds: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def read(self, pid: int, now: float) -> None:
        """Take note of what it holds now."""
        self.seconds.append(now)
        self.memory.append(_PAGE * int(Path(f"/proc/{pid}/statm").read_text().split()[1]))
        self.files.append(len(os.listdir(f"/proc/{pid}/fd")))

    @property
    def slope(self) -> float:
        """MiB that it grows in a minute, by least squares, when it has come to its size."""
        warm = int(_WARM * len(self.seconds))
        times, sizes = self.seconds[warm:], self.memory[warm:]
        mean, size = sum(times) / len(times), sum(sizes) / len(sizes)
        growth = sum((t - mean) * (m - size) for t, m in zip(times, sizes, strict=True))
        return growth / sum((t - mean) ** 2 for t in times) * _MINUTE / _MIB

    @property
    def opened(self) -> int:
        """How many more files it holds open at the end than it did at most while it came to its size."""
        warm = max(int(_WARM * len(self.files)), 1)
        return self.files[-1] - max(self.files[:warm])


@dataclass(slots=True)
class Outcome:
    """How a long game went."""

    rounds: int
    faults: int
    gauges: dict[str, Gauge]


def play(folder: Path, *, seconds: float, seed: int = 1) -> Outcome:
    """Play for so long; the game must end in the bits of its simulation."""
    chance = random.Random(f"soak {seed}")
    with on_loopback(folder, HOSTS, None, spec=SPEC) as game:
        game.start(*game.names)
        history, faults = History(game), 0
        history.until(1)
        gauges = {name: Gauge() for name in game.names if name != MORTAL}
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            fault = chance.choice([Pause(chance.choice(game.names)), Kill((MORTAL,))])
            fault.begin(game)
            fault.end(game)
            faults += 1
            _watch(game, gauges, began, min(time.monotonic() + seconds / 10, began + seconds))
            history.heal()
        game.stop()
        digest, rounds = game.end_well(), len(game.scored())
        history.check()
    assert digest == simulated(rounds, SPEC)
    return Outcome(rounds, faults, gauges)


def _watch(game: Services, gauges: dict[str, Gauge], began: float, until: float) -> None:
    """Read the gauges at regular times until then."""
    while (now := time.monotonic()) < until:
        for name, gauge in gauges.items():
            gauge.read(game[name].pid, now - began)
        eventually(lambda: time.monotonic() >= min(now + _EVERY, until), lambda: "time stands still")
