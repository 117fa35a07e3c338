"""CPU time of the game alone, without imports: `simulate` beside the plain loop, in turns.

python -m benchmarks.cpu_time plain|simulate       prints milliseconds of CPU per round
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import plain_loop
from benchmarks.claims import Claim, at_least, console
from slaternet_lab.games.simulation import Simulation
from slaternet_lab.specs.resolve import load

ROUNDS, WARM_UP, TURNS = 1000, 64, 9
CLAIM = ("simulate's CPU time", "plain's CPU time", 0.95)


def simulate(rounds: int) -> float:
    """Play the paper's example by direct calls; return its seconds of CPU."""
    spec = load("paper", [f"run.rounds={rounds}"])
    with tempfile.TemporaryDirectory() as folder:
        game = Simulation(spec, Path(folder))
        began = time.process_time()
        game.play()
        game.close()
        return time.process_time() - began


def plain(rounds: int) -> float:
    """Play the plain loop; return its seconds of CPU."""
    began = time.process_time()
    plain_loop.play(rounds)
    return time.process_time() - began


PROGRAMS: dict[str, Callable[[int], float]] = {"plain": plain, "simulate": simulate}


def measure(name: str) -> float:
    """Return milliseconds of CPU per round, all threads of a fresh process added up."""
    program = [sys.executable, "-m", "benchmarks.cpu_time", name]
    return float(subprocess.run(program, check=True, capture_output=True, text=True).stdout)


def report() -> list[Claim]:
    """Let both play in turn and print medians and ranges; return what we claim of them."""
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(TURNS):
        for name, values in times.items():
            values.append(measure(name))
    for name, values in times.items():
        console.print(
            f"{name}: {statistics.median(values):.3f} ms of CPU a round, {min(values):.3f} - {max(values):.3f}"
        )
    return [at_least({f"{name}'s CPU time": values for name, values in times.items()}, *CLAIM)]


if __name__ == "__main__":
    play = PROGRAMS[sys.argv[1]]
    play(WARM_UP)  # imports what is imported late
    print(1e3 * play(ROUNDS) / ROUNDS)
