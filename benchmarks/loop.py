"""The loop of a plugin's author: from a saved file, or an executed cell, to the result of 200 rounds with 10 agents."""

import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.table import Table

from benchmarks.claims import Claim, at_most, console

WATCH_SECONDS, NOTEBOOK_SECONDS = 1.5, 0.5
_SETTINGS = ("run.agents=10", "run.rounds=200")
_BOWL = """
import numpy as np

from slaternet_adversary import Adversary


class Functions:
    def __init__(self, centres, budget):
        self.centres, self.budget = centres, budget

    def loss(self, agents, points):
        return 0.5 * np.sum((points - self.centres[agents][:, None]) ** 2, axis=-1)

    def constraint(self, agents, points):
        return np.sum(points, axis=-1, keepdims=True) - self.budget


class Bowl(Adversary):
    constraints = 1

    def play(self, round, past):
        return Functions(np.ones((self.game.agents, self.game.dimension)), budget={budget})
"""
_NOTEBOOK = """
import json, linecache, pathlib, sys, time
from slaternet_lab import load, simulate

texts, settings = json.load(sys.stdin)
spec, seconds = load("paper-short", settings), []
for number, text in enumerate(texts):
    began, name = time.perf_counter(), f"<cell {number}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    exec(compile(text, name, "exec"))
    simulate(spec, adversary=Bowl, out=pathlib.Path(sys.argv[1]), force=True)
    seconds.append(time.perf_counter() - began)
print(json.dumps(seconds))
"""


def report(turns: int) -> list[Claim]:
    """Measure and print medians; return what we claim of them."""
    texts = [_BOWL.replace("{budget}", f"{1 + turn / 8}") for turn in range(turns + 1)]
    with tempfile.TemporaryDirectory() as folder:
        seconds = {"--watch": _watched(texts, Path(folder)), "a class in a notebook": _in_notebook(texts, Path(folder))}
    table = Table("from a save, or a cell, to the result", "seconds", "range", box=None)
    for name, values in seconds.items():
        table.add_row(name, f"{statistics.median(values):.2f}", f"{min(values):.2f} - {max(values):.2f}")
    console.print(table)
    return [
        at_most(f"{name}, 200 rounds, 10 agents", statistics.median(seconds[name]), limit, " s")
        for name, limit in zip(seconds, (WATCH_SECONDS, NOTEBOOK_SECONDS), strict=True)
    ]


def _watched(texts: list[str], folder: Path) -> list[float]:
    """Return the seconds from every save but the first to the line with the digest; figures follow, and are awaited."""
    file = folder / "bowl.py"
    file.write_text(texts[0])
    settings = [word for setting in _SETTINGS for word in ("--set", setting)]
    command = (
        sys.executable,
        "-m",
        "slaternet_lab",
        "simulate",
        "paper-short",
        "--adversary",
        f"{file}:Bowl",
        "--watch",
    )
    seconds = []
    with subprocess.Popen((*command, *settings, "--out", folder / "run"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout)
        next(line for line in lines if line.startswith("watching"))
        for text in texts[1:]:
            began = time.perf_counter()
            file.write_text(text)
            next(line for line in lines if line.startswith("digest"))
            seconds.append(time.perf_counter() - began)
            next(line for line in lines if line.startswith("watching"))
        process.send_signal(signal.SIGINT)
    return seconds


def _in_notebook(texts: list[str], folder: Path) -> list[float]:
    """Return the seconds from every cell but the first to its result, figures and assumptions included."""
    command = (sys.executable, "-c", _NOTEBOOK, folder / "cells")
    done = subprocess.run(command, input=json.dumps([texts, _SETTINGS]), capture_output=True, text=True, check=True)
    seconds: list[float] = json.loads(done.stdout)
    return seconds[1:]
