"""`make bench`: what a round costs, and how that grows with the number of agents.

All contestants play the paper's example (n = 100) and take turns, several times over in one invocation, because only
ratios measured side by side mean anything. Times are those of the game alone, without the start of processes.

    plain      one vectorised numpy loop: no engines, no digest, no checks (benchmarks/plain_loop.py)
    simulate   the engines in one process
    run K      the services over gRPC on loopback with K agent hosts
    isolated K `run K` with the adversary's functions in a worker process of their own
    forgetful K `run K` without journal, checkpoints and register (benchmarks/forgetful)
    bare K     the messages of `run K` without everything else (benchmarks/bare.py)

Then the calls of our own functions in a round are counted (benchmarks/calls.py), and growing games are played.
`--before TREE` lets another checkout play too, in the same turns, and compares.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import bare, calls
from benchmarks.trees import Tree

ROUNDS = 1000
GAMES = {
    "simulate": ("simulate",),
    **{f"run {hosts}": ("run", "--hosts", str(hosts)) for hosts in (1, 2, 4)},
    "isolated 2": ("run", "--hosts", "2", "--set", "adversary.isolation=process"),
}
"""The games that another checkout plays too."""
SIZES, SCALING_ROUNDS = (100, 400, 1600), 124
GRAPHS = {"ring": [], "erdos-renyi": ["graph.degree=10"]}
CLAIMS = (
    ("simulate", "plain", 0.8),
    ("run 2", "bare 2", 0.5),
    ("run 2", "simulate", 0.3),
    ("run 2", "forgetful 2", 0.85),
)
"""(who, against whom, at least this share of its rounds per second)"""
KEPT = 0.95
"""The share of the rounds per second of another checkout that must be kept."""
FORGETFUL = Path(__file__).parent / "forgetful"
HERE = Tree()

console = Console(highlight=False)


def per_round(command: str, *arguments: str, first: Sequence[Path] = (), tree: Tree = HERE) -> float:
    """Return milliseconds per round of the paper's example."""
    summary = tree.play(command, *arguments, settings=[f"run.rounds={ROUNDS}"], first=first)
    return 1e3 * float(summary["seconds"]) / int(summary["rounds"])


def plain() -> float:
    """Return milliseconds per round of the plain loop."""
    program = [sys.executable, "-m", "benchmarks.plain_loop", str(ROUNDS)]
    return float(subprocess.run(program, check=True, capture_output=True, text=True).stdout.split()[0])


def bare_game(hosts: int) -> float:
    """Return milliseconds per round of the bare game."""
    return asyncio.run(bare.play(hosts, ROUNDS))


def contestants(before: Path | None) -> dict[str, Callable[[], float]]:
    """Return who plays, by name; another checkout plays each game right after this one."""
    other = Tree(before) if before else None
    games: dict[str, Callable[[], float]] = {"plain": plain}
    for name, arguments in GAMES.items():
        games[name] = partial(per_round, *arguments)
        if other is not None:
            games[f"{name} before"] = partial(per_round, *arguments, tree=other)
    games["forgetful 2"] = partial(per_round, *GAMES["run 2"], first=[FORGETFUL])
    games["bare 2"] = partial(bare_game, 2)
    return games


def race(turns: int, before: Path | None) -> dict[str, float]:
    """Let everyone play in turn and print medians and ranges; return the medians."""
    games = contestants(before)
    times: dict[str, list[float]] = {name: [] for name in games}
    for turn in range(turns):
        console.print(f"turn {turn + 1} of {turns}, load average {os.getloadavg()[0]:.2f}")
        for name, play in games.items():
            times[name].append(play())
    medians = {name: statistics.median(values) for name, values in times.items()}
    table = Table("contestant", "ms a round", "range", "rounds/s", *(["of before"] if before else []), box=None)
    for name, values in times.items():
        spread = f"{min(values):.2f} - {max(values):.2f}"
        beside = [f"{medians[f'{name} before'] / medians[name]:.2f}"] if f"{name} before" in medians else []
        table.add_row(name, f"{medians[name]:.2f}", spread, f"{1e3 / medians[name]:.0f}", *beside)
    console.print(table)
    return medians


def judge(medians: dict[str, float]) -> bool:
    """Print the ratios that we promise; say whether all hold."""
    holds = True
    compared = [(name, f"{name} before", KEPT) for name in ("simulate", "run 2") if f"{name} before" in medians]
    for who, against, least in (*CLAIMS, *compared):
        ratio = medians[against] / medians[who]
        holds &= ratio >= least
        verdict = "holds" if ratio >= least else "DOES NOT HOLD"
        console.print(f"{who} at {ratio:.2f} of {against} (at least {least}): {verdict}")
    console.print(f"the worker costs {medians['isolated 2'] - medians['run 2']:.2f} ms a round with 2 hosts")
    return holds


def scaling(turns: int) -> bool:
    """Print microseconds per agent and round for growing n, scoring apart; say whether playing stays flat."""
    flat = True
    table = Table("graph", "agents", "playing, us", "scoring, us", box=None)
    for graph, numbers in GRAPHS.items():
        costs = {size: agent_round(graph, numbers, size, turns) for size in SIZES}
        for size, (playing, scoring) in costs.items():
            table.add_row(graph, str(size), f"{playing:.2f}", f"{scoring:.2f}")
        flat &= costs[SIZES[-1]][0] <= costs[SIZES[0]][0]
    console.print(table)
    console.print(f"time per agent and round {'does not grow' if flat else 'GROWS'} from n = {SIZES[0]} to {SIZES[-1]}")
    return flat


def agent_round(graph: str, numbers: list[str], agents: int, turns: int) -> tuple[float, float]:
    """Return the microseconds that playing and that scoring cost per agent and round."""
    spec = [f"graph.name={graph}", *numbers, f"run.agents={agents}", f"run.rounds={SCALING_ROUNDS}"]
    unscored = [*spec, f"record.score_every={SCALING_ROUNDS + 1}"]
    scale = 1e6 / (agents * SCALING_ROUNDS)
    playing = statistics.median(HERE.play("simulate", settings=unscored)["seconds"] for _ in range(turns))
    both = statistics.median(HERE.play("simulate", settings=spec)["seconds"] for _ in range(turns))
    return scale * playing, scale * (both - playing)


def main() -> int:
    """Run the benchmarks; exit code 1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description="What a round costs, and how that grows with the number of agents.")
    parser.add_argument("--turns", type=int, default=5, help="how often each contestant plays")
    parser.add_argument("--before", type=Path, metavar="TREE", help="a checkout to compare with")
    options = parser.parse_args()
    holds = judge(race(options.turns, options.before))
    calls.report(options.before)
    return 0 if scaling(options.turns) and holds else 1


if __name__ == "__main__":
    sys.exit(main())
