"""The first seconds: from the command to the prompt, and from the command until forty hosts play."""

import statistics
import time

from rich.table import Table

from benchmarks.claims import Claim, at_most, console
from benchmarks.trees import Tree

MORE_SECONDS = 1.5
"""How much longer `run paper-short` may take than `simulate paper-short`."""
HOSTS, HOSTS_SECONDS = 40, 8.0


def report(turns: int) -> list[Claim]:
    """Measure in turn and print medians; return what we claim of them."""
    crowd = ("--hosts", str(HOSTS), "--set", f"run.agents={HOSTS}", "--set", "run.rounds=32")
    commands = {f"{command} paper-short": (command, "paper-short") for command in ("simulate", "run")}
    playing = f"until {HOSTS} hosts play"
    seconds: dict[str, list[float]] = {name: [] for name in (*commands, playing)}
    tree = Tree()
    for _ in range(turns):
        for name, arguments in commands.items():
            with tree.started(*arguments) as game:
                game.finish()
                seconds[name].append(time.perf_counter() - game.began)
        with tree.started("run", "paper-short", *crowd) as game:
            game.wait_for(1)
            seconds[playing].append(time.perf_counter() - game.began)
            game.finish()
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    table = Table("from the command", "seconds", "range", box=None)
    for name, values in seconds.items():
        table.add_row(name, f"{medians[name]:.2f}", f"{min(values):.2f} - {max(values):.2f}")
    console.print(table)
    longer = medians["run paper-short"] - medians["simulate paper-short"]
    return [
        at_most("run paper-short longer than simulate paper-short", longer, MORE_SECONDS, " s"),
        at_most(f"{HOSTS} hosts playing", medians[playing], HOSTS_SECONDS, " s"),
    ]
