"""`make bench`: what a round costs, what the first second costs, and how both grow.

    race      all contestants take turns (benchmarks/race.py); the CPU time of each role
    cpu       the CPU time of `simulate` beside that of a plain loop (benchmarks/cpu_time.py)
    calls     the calls of our own functions in a round (benchmarks/calls.py)
    start     from the command to the prompt, and until forty hosts play (benchmarks/start_up.py)
    loop      from a saved plugin to its result (benchmarks/loop.py)
    codes     a gossip code beside rows as they are (benchmarks/codes.py)
    agents    more and more of them, up to 10 000 (benchmarks/scaling.py)
    dimension p = 100 000 (benchmarks/scaling.py)
    long      100 000 rounds: memory, and reading the result (benchmarks/long_run.py); only where asked for

In the end every claim is printed with its verdict. `--before TREE` lets another checkout race too, in the same turns,
and compares.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import calls, codes, cpu_time, long_run, loop, race, scaling, start_up
from benchmarks.claims import Claim, console, judge
from benchmarks.trees import GameFailed


def main() -> int:
    """Run the benchmarks; exit code 1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description="What a round and the first second cost, and how both grow.")
    parser.add_argument("--turns", type=int, default=5, help="how often each contestant plays")
    parser.add_argument("--before", type=Path, metavar="TREE", help="a checkout to compare with")
    parser.add_argument("--long", action="store_true", help="play 100 000 rounds as well, which takes minutes")
    parser.add_argument(
        "--only",
        metavar="PARTS",
        help="these parts alone, with commas: race,cpu,calls,start,loop,codes,agents,dimension,long",
    )
    options = parser.parse_args()
    parts: dict[str, Callable[[], Sequence[Claim]]] = {
        "race": lambda: race.report(options.turns, options.before),
        "cpu": cpu_time.report,
        "calls": lambda: calls.report(options.before),
        "start": lambda: start_up.report(options.turns),
        "loop": lambda: loop.report(options.turns),
        "codes": lambda: codes.report(options.turns),
        "agents": lambda: scaling.agents(options.turns),
        "dimension": scaling.dimension,
        "long": long_run.report,
    }
    chosen = options.only.split(",") if options.only else [part for part in parts if part != "long" or options.long]
    claims: list[Claim] = []
    for part in chosen:
        console.rule(part)
        try:
            claims += parts[part]()
        except GameFailed as error:
            claims.append(Claim(f"all games of {part} can be played ({str(error).strip()[-300:]})", holds=False))
    console.rule("claims")
    return 0 if judge(claims) else 1


if __name__ == "__main__":
    sys.exit(main())
