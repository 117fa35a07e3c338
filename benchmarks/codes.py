"""What a gossip code saves on the wire, and what it costs: p = 1000, n = 20, two hosts, a grid of 8 bits.

The game of the paper's example is played in turns with rows as they are (`exact`) and in the code.
"""

import statistics

from rich.table import Table

from benchmarks.claims import Claim, at_least, at_most, console
from benchmarks.trees import Tree

_SIZE = {"run.agents": 20, "run.dimension": 1000, "run.rounds": 200}
_GAME = ("run", "paper", "--hosts", "2", *(part for key, size in _SIZE.items() for part in ("--set", f"{key}={size}")))
_GAMES = {"exact": (), "grid": ("--set", "gossip.code=grid", "--set", "gossip.width=0.05")}
BYTES, SPEED = 0.14, 0.95
"""Of exact's: at most so many bytes, and at least so many rounds per second."""


def report(turns: int) -> list[Claim]:
    """Let both play in turn; return what we claim of them."""
    times: dict[str, list[float]] = {name: [] for name in _GAMES}
    sent: dict[str, list[float]] = {name: [] for name in _GAMES}
    for _ in range(turns):
        for name, settings in _GAMES.items():
            with Tree().started(*_GAME, *settings) as playing:
                summary = playing.finish()
            times[name].append(1e3 * float(summary["seconds"]) / int(summary["rounds"]))
            sent[name].append(float(summary["network"]["gossip_bytes"]) / int(summary["rounds"]))
    table = Table("code", "ms a round", "gossip bytes a round", box=None)
    for name in _GAMES:
        table.add_row(name, f"{statistics.median(times[name]):.2f}", f"{statistics.median(sent[name]):.0f}")
    console.print(table)
    share = statistics.median(coded / exact for coded, exact in zip(sent["grid"], sent["exact"], strict=True))
    return [at_most("gossip bytes of grid against exact", share, BYTES), at_least(times, "grid", "exact", SPEED)]
