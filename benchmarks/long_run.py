"""A long game: whether memory stays flat, and how long it takes to look at the result."""

import subprocess
import time
from collections import defaultdict

import numpy as np
from rich.table import Table

from benchmarks.claims import Claim, at_most, console
from benchmarks.processes import members, memory
from benchmarks.trees import Tree

ROUNDS, WARM_UP = 100_000, 20_000
SLOPE_MB = 1.0
"""Per 10 000 rounds after the warm-up."""
READ_SECONDS = 3.0
LOOK_SECONDS = 1.0

Samples = list[tuple[int, float]]
"""Rounds with the memory held then, in MB."""


def report() -> list[Claim]:
    """Play a long game, and look at it; return what we claim of it."""
    tree = Tree()
    samples: dict[str, Samples] = defaultdict(list)
    with tree.started("run", "paper-short", settings=[f"run.rounds={ROUNDS}"]) as game:
        while not game.over and (round := game.round) < ROUNDS:
            for name, pid in members(game.pid).items():
                if taken := memory(pid):
                    samples[name].append((round, taken.now))
            time.sleep(LOOK_SECONDS)  # the next sample
        game.finish()
        seconds = {}
        for command in ("show", "plot"):
            began = time.perf_counter()
            subprocess.run(tree.command(command, str(game.folder)), check=True, capture_output=True)
            seconds[command] = time.perf_counter() - began
    slopes = {name: slope(each) for name, each in samples.items()}
    table = Table("process", "MB at the end", "MB more per 10 000 rounds", box=None)
    for name, each in sorted(samples.items()):
        table.add_row(name, f"{each[-1][1]:.0f}", f"{slopes[name]:.2f}")
    console.print(table)
    grows = max(slopes, key=slopes.__getitem__)
    return [
        at_most(f"memory per 10 000 rounds of the process that grows most, {grows}", slopes[grows], SLOPE_MB, " MB"),
        *(at_most(f"{command} of {ROUNDS} rounds", each, READ_SECONDS, " s") for command, each in seconds.items()),
    ]


def slope(samples: Samples) -> float:
    """Return by how many MB a process grows per 10 000 rounds after the warm-up, by least squares."""
    rounds, held = np.array([each for each in samples if each[0] >= WARM_UP]).T
    return 1e4 * float(np.polyfit(rounds, held, 1)[0])
