"""Everyone plays in turn, because only ratios measured side by side mean anything.

n = 100, the paper's example with 1000 rounds:

    plain       one vectorised numpy loop: no engines, no digest, no checks (benchmarks/plain_loop.py)
    simulate    the engines in one process
    run K       the services over gRPC on loopback with K agent hosts
    isolated 2  `run 2` with the adversary's functions in a worker process of their own
    forgetful 2 `run 2` without journal, checkpoints and register (benchmarks/forgetful)
    bare 2      the messages of `run 2` without everything else (benchmarks/bare.py)

n = 16, one agent per host, 300 rounds:

    run 16      the services over gRPC, 18 processes
    bare 16     its messages without everything else
    peer 16     one process per agent and one stream per pair of agents, in plain grpc.aio (benchmarks/peer.py)

Times are those of the game alone, without the start of processes. In the games `run 16` and `bare 16` the CPU time of
every process is read after a quarter and after three quarters of the rounds.
"""

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.table import Table

from benchmarks import bare, peer
from benchmarks.claims import Claim, at_least, at_most, console, ratio
from benchmarks.processes import Turn, cpu_seconds, members
from benchmarks.trees import SPAWN, Game, Tree

ROUNDS = 1000
AGENTS, FEWER_ROUNDS = 16, 300
"""Of the games with one agent per host."""
PAPER = ("paper", "--set", f"run.rounds={ROUNDS}")
ONE_EACH = ("paper", "--hosts", str(AGENTS), "--set", f"run.agents={AGENTS}", "--set", f"run.rounds={FEWER_ROUNDS}")
GAMES = {
    **{f"run {hosts}": ("run", *PAPER, "--hosts", hosts) for hosts in ("1", "4")},
    "simulate": ("simulate", *PAPER),
    "run 2": ("run", *PAPER, "--hosts", "2"),
    "isolated 2": ("run", *PAPER, "--hosts", "2", "--set", "adversary.isolation=process"),
    "run 16": ("run", *ONE_EACH),
}
"""The games that another checkout plays too."""
CLAIMS = (
    ("run 2", "bare 2", 0.40),
    ("run 2", "simulate", 0.42),
    ("run 16", "peer 16", 1.5),
    ("isolated 2", "run 2", 0.7),
    ("run 2", "forgetful 2", 0.85),
)
"""(who, against whom, at least this share of its rounds per second)"""
ADVERSARY_CPU, HOST_CPU = 1.6, 2.0
"""At most this multiple of the CPU time of `bare 16`: of the adversary per question, of a host per round."""
KEPT = 0.95
"""The share of the rounds per second of another checkout that must be kept."""
FORGETFUL = Path(__file__).parent / "forgetful"


def report(turns: int, before: Path | None) -> list[Claim]:
    """Let everyone play in turn and print medians and ranges; return what we claim of them."""
    games = contestants(before)
    played: dict[str, list[Turn]] = {name: [] for name in games}
    for turn in range(turns):
        console.print(f"turn {turn + 1} of {turns}, load average {os.getloadavg()[0]:.2f}")
        for name, play in games.items():
            played[name].append(play())
    times = {name: [turn.ms for turn in all_turns] for name, all_turns in played.items()}
    medians = {name: statistics.median(values) for name, values in times.items()}
    table = Table("contestant", "ms a round", "range", "rounds/s", *(["of before"] if before else []), box=None)
    for name, values in times.items():
        spread = f"{min(values):.2f} - {max(values):.2f}"
        beside = [f"{medians[f'{name} before'] / medians[name]:.2f}"] if f"{name} before" in medians else []
        table.add_row(name, f"{medians[name]:.2f}", spread, f"{1e3 / medians[name]:.0f}", *beside)
    console.print(table)
    kept = [(name, f"{name} before", KEPT) for name in ("simulate", "run 2", "run 16") if f"{name} before" in medians]
    return [at_least(times, *claim) for claim in (*CLAIMS, *kept)] + cpu_claims(played)


def contestants(before: Path | None) -> dict[str, Callable[[], Turn]]:
    """Return who plays, in order: those who are compared side by side, another checkout right after this one."""
    here, other = Tree(), Tree(before) if before else None
    games: dict[str, Callable[[], Turn]] = {"plain": plain}
    for name, arguments in GAMES.items():
        games[name] = partial(game, here, arguments, measured=FEWER_ROUNDS if name == "run 16" else 0)
        if other is not None:
            games[f"{name} before"] = partial(game, other, arguments)
        if name == "run 2":
            games["bare 2"] = lambda: asyncio.run(bare.play(2, 100, ROUNDS))
            games["forgetful 2"] = partial(game, here, arguments, first=[FORGETFUL], variables=SPAWN)
    games["bare 16"] = lambda: asyncio.run(bare.play(AGENTS, AGENTS, FEWER_ROUNDS))
    games["peer 16"] = lambda: Turn(asyncio.run(peer.play(AGENTS, FEWER_ROUNDS)).ms)
    return games


def plain() -> Turn:
    """Play the plain loop."""
    program = [sys.executable, "-m", "benchmarks.plain_loop", str(ROUNDS)]
    return Turn(float(subprocess.run(program, check=True, capture_output=True, text=True).stdout.split()[0]))


def game(
    tree: Tree,
    arguments: Sequence[str],
    measured: int = 0,
    first: Sequence[Path] = (),
    variables: Mapping[str, str] | None = None,
) -> Turn:
    """Play a game by the command line; where its number of rounds is given, measure the CPU time of its processes."""
    with tree.started(*arguments, first=first, variables=variables) as playing:
        cpu = cpu_per_round(playing, measured) if measured else {}
        summary = playing.finish()
    return Turn(1e3 * float(summary["seconds"]) / int(summary["rounds"]), cpu)


def cpu_per_round(playing: Game, rounds: int) -> dict[str, float]:
    """Return milliseconds of CPU per round of every process between a quarter and three quarters of a game.

    Rounds are those in metrics.csv, which grows in bursts: both readings are taken when a burst has just been written.
    """
    playing.wait_for(1)
    pids = members(playing.pid)
    first = playing.wait_for(rounds // 4)
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    last = playing.wait_for(3 * rounds // 4)
    return {name: 1e3 * (cpu_seconds(pid) - before[name]) / (last - first) for name, pid in pids.items()}


def cpu_claims(played: Mapping[str, list[Turn]]) -> list[Claim]:
    """Print what each role of a game with one agent per host costs beside the bare one; return what we claim of it."""
    frames = statistics.mean(len(peers) for each in bare.neighbours(AGENTS, AGENTS) for peers in each)
    ours, least = roles(played["run 16"]), roles(played["bare 16"])
    ratios = {role: ratio({"run": ours[role], "bare": least[role]}, "bare", "run") for role in ours}
    costs = {
        "adversary, a question": ("adversary", AGENTS),
        "host, a round": ("host", 1),
        f"host, a frame ({frames:.1f} sent a round)": ("host", frames),
        "coordinator, a round": ("coordinator", 1),
    }
    table = Table("CPU, ms", "run 16", "bare 16", "ratio", box=None)
    for text, (role, per) in costs.items():
        each = [f"{statistics.median(values[role]) / per:.3f}" for values in (ours, least)]
        table.add_row(text, *each, f"{ratios[role]:.2f}")
    console.print(table)
    return [
        at_most("adversary's CPU time per question in run 16 against bare 16", ratios["adversary"], ADVERSARY_CPU),
        at_most("a host's CPU time per round in run 16 against bare 16", ratios["host"], HOST_CPU),
    ]


def roles(turns: Sequence[Turn]) -> dict[str, list[float]]:
    """Return milliseconds of CPU per round in each turn, by role; of hosts their average."""
    return {
        "coordinator": [turn.cpu["coordinator"] for turn in turns],
        "adversary": [turn.cpu["adversary"] for turn in turns],
        "host": [statistics.mean(ms for name, ms in turn.cpu.items() if name.startswith("agent-")) for turn in turns],
    }
