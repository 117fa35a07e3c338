"""How many calls of our own functions a round costs, by process, in a live game.

The paper's example (n = 100) is played by `slaternet run` with 2 hosts, each service counting its calls
(benchmarks/counted). Two games are played, of FEW and of MANY rounds: start and end of a game cancel out in the
difference. Nothing depends on time but the number of progress reports.

    python -m benchmarks.calls [--before TREE] [--top 30]
"""

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.trees import Tree
from slaternet_lab.games.fork_server import SPAWN

AGENTS, HOSTS = 100, 2
FEW, MANY = 64, 256
"""Rounds of the two games; what happens every 16 or 64 rounds happens as often per round in the difference."""
COUNTED = Path(__file__).parent / "counted"

Counts = dict[str, Counter[str]]
"""By name of process: calls by function."""

console = Console(highlight=False)


def game(tree: Tree, rounds: int) -> Counts:
    """Play a game and return the calls of each service."""
    with tempfile.TemporaryDirectory() as folder:
        tree.play(
            "run",
            "--hosts",
            str(HOSTS),
            settings=[f"run.agents={AGENTS}", f"run.rounds={rounds}"],
            first=[COUNTED],
            variables={"SLATERNET_CALLS": folder, SPAWN: "1"},
        )
        documents = [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]
    assert len(documents) == HOSTS + 2, "every service writes its counts once"
    return {each["name"]: Counter(each["calls"]) for each in sorted(documents, key=lambda each: str(each["name"]))}


def per_round(tree: Tree) -> dict[str, dict[str, float]]:
    """Return calls per round, by process and function."""
    few, many = game(tree, FEW), game(tree, MANY)
    return {
        name: {function: (many[name][function] - few[name][function]) / (MANY - FEW) for function in many[name]}
        for name in many
    }


def sums(calls: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return calls per round by process, and of all."""
    by_process = {name: sum(functions.values()) for name, functions in calls.items()}
    return {**by_process, "all": sum(by_process.values())}


def report(before: Path | None = None, top: int = 0) -> None:
    """Count and print; with another checkout, beside what it calls."""
    calls = per_round(Tree())
    now, then = sums(calls), sums(per_round(Tree(before))) if before else {}
    table = Table("process", "calls a round", *(["before", "ratio"] if before else []), box=None)
    for name, number in now.items():
        beside = [f"{then[name]:.1f}", f"{number / then[name]:.2f}"] if name in then else []
        table.add_row(name, f"{number:.1f}", *beside)
    console.print(table)
    if top:
        list_functions(calls, top)


def list_functions(calls: dict[str, dict[str, float]], top: int) -> None:
    """Print the functions that are called most, over all processes."""
    names = {function for functions in calls.values() for function in functions}
    totals = {name: sum(functions.get(name, 0.0) for functions in calls.values()) for name in names}
    table = Table("calls a round", "function", box=None)
    for name in sorted(totals, key=lambda name: (-totals[name], name))[:top]:
        table.add_row(f"{totals[name]:.1f}", name)
    console.print(table)


def main() -> None:
    """Count the calls of a round."""
    parser = argparse.ArgumentParser(description="How many calls of our own functions a round costs, by process.")
    parser.add_argument("--before", type=Path, metavar="TREE", help="a checkout to compare with")
    parser.add_argument("--top", type=int, default=0, metavar="N", help="list the N functions that are called most")
    options = parser.parse_args()
    report(options.before, options.top)


if __name__ == "__main__":
    main()
