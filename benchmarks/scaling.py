"""How a game grows: with the number of agents, and with the dimension."""

import statistics
import time

from rich.table import Table

from benchmarks.claims import Claim, at_most, console
from benchmarks.processes import members, memory
from benchmarks.trees import Game, Tree

SIZES, ROUNDS = (100, 400, 1600), 124
"""Agents and rounds of the simulated games."""
GRAPHS = {"ring": [], "erdos-renyi": ["graph.degree=10"]}
NETWORK_SIZES, NETWORK_ROUNDS, SCORE_EVERY = (1600, 10_000), 100, 10
"""Agents and rounds of the games with two hosts, on the Erdos-Renyi graph."""
ADVERSARY_MB = 2048
DIMENSION, FEW_AGENTS, FEW_ROUNDS = 100_000, 20, 20
PROCESS_MB = 1536
LOOK_SECONDS = 0.1

HERE = Tree()


def agents(turns: int) -> list[Claim]:
    """Play games with more and more agents and print what they take; return what we claim of them."""
    return [*simulated(turns), *over_the_network(turns)]


def simulated(turns: int) -> list[Claim]:
    """Print microseconds per agent and round for growing n, scoring apart."""
    claims = []
    table = Table("simulate, graph", "agents", "playing, us", "scoring, us", box=None)
    for graph, numbers in GRAPHS.items():
        costs = {}
        for size in SIZES:
            spec = [f"graph.name={graph}", *numbers, f"run.agents={size}", f"run.rounds={ROUNDS}"]
            unscored = [*spec, f"record.score_every={ROUNDS + 1}"]
            playing, both = (
                statistics.median(HERE.play("simulate", "paper", settings=each)["seconds"] for _ in range(turns))
                for each in (unscored, spec)
            )
            scale = 1e6 / (size * ROUNDS)
            costs[size] = scale * playing
            table.add_row(graph, str(size), f"{scale * playing:.2f}", f"{scale * (both - playing):.2f}")
        ratio = costs[SIZES[-1]] / costs[SIZES[0]]
        claims.append(at_most(f"time per agent and round on {graph}, n = {SIZES[-1]} against {SIZES[0]}", ratio, 1.0))
    console.print(table)
    return claims


def over_the_network(turns: int) -> list[Claim]:
    """Print microseconds per agent and round over the network for n = 1600 and 10 000, and the adversary's memory."""
    table = Table("run 2, agents", "playing, us", "scoring every 10th, us", "adversary, MB", box=None)
    costs, peaks = {}, {}
    for size in NETWORK_SIZES:
        spec = ["graph.name=erdos-renyi", "graph.degree=10", f"run.agents={size}", f"run.rounds={NETWORK_ROUNDS}"]
        scale = 1e6 / (size * NETWORK_ROUNDS)
        seconds: dict[int, list[float]] = {NETWORK_ROUNDS + 1: [], SCORE_EVERY: []}
        for _ in range(turns):
            for every, values in seconds.items():
                with HERE.started("run", "paper", settings=[*spec, f"record.score_every={every}"]) as game:
                    taken = peak_memory(game)
                    values.append(game.finish()["seconds"])
                    peaks[size] = taken["adversary"]  # in the end, that of a game with scores
        playing, both = (scale * statistics.median(values) for values in seconds.values())
        costs[size] = playing
        table.add_row(str(size), f"{playing:.2f}", f"{both - playing:.2f}", f"{peaks[size]:.0f}")
    console.print(table)
    few, many = NETWORK_SIZES
    return [
        at_most(f"time per agent and round over the network, n = {many} against {few}", costs[many] / costs[few], 1.0),
        at_most(f"peak memory of the adversary, n = {many}", peaks[many], ADVERSARY_MB, " MB"),
    ]


def dimension() -> list[Claim]:
    """Play a game of large dimension over the network, and without one; return what we claim of it."""
    spec = [f"run.dimension={DIMENSION}", f"run.agents={FEW_AGENTS}", f"run.rounds={FEW_ROUNDS}"]
    with HERE.started("run", "paper", settings=spec) as game:
        peaks = peak_memory(game)
        summary = game.finish()
    digest = HERE.play("simulate", "paper", settings=spec)["digest"]
    table = Table(f"p = {DIMENSION}", "peak memory, MB", box=None)
    for name, peak in sorted(peaks.items()):
        table.add_row(name, f"{peak:.0f}")
    console.print(table)
    console.print(f"p = {DIMENSION}: {1e3 * summary['seconds'] / FEW_ROUNDS:.0f} ms a round")
    return [
        Claim(f"p = {DIMENSION} has the digest of simulate", summary["digest"] == digest),
        at_most(f"peak memory of each process, p = {DIMENSION}", max(peaks.values()), PROCESS_MB, " MB"),
    ]


def peak_memory(game: Game) -> dict[str, float]:
    """Return the peak memory of every process of a game in MB, by name; returns when the game is over."""
    peaks: dict[str, float] = {}
    while not game.over:
        for name, pid in members(game.pid).items():
            if taken := memory(pid):
                peaks[name] = max(taken.peak, peaks.get(name, 0.0))
        time.sleep(LOOK_SECONDS)  # the next sample
    return peaks
