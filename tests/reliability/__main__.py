"""`make reliability`: breaks everything that shall not break, and writes reliability-report.json.

Whatever fails does not keep the rest from being tried; the exit code is 1 if anything has. What needs root is skipped
without it, and the report says so.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from rich.console import Console
from tests.reliability.parts import PARTS, Scale
from tests.reliability.report import show, summed_up, tried, write


def main() -> int:
    """Try what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="these parts; all if absent")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--seeds", type=int, default=10_000, help="worlds of the simulator (10000)")
    parser.add_argument("--malformed", type=int, default=1_000_000, help="mutated messages (1000000)")
    parser.add_argument("--hostile", type=int, default=200, help="games with one hostile host among six (200)")
    parser.add_argument("--files", type=int, default=2_000, help="mutated run folders and specs (2000)")
    parser.add_argument("--kills", type=int, default=200, help="kill -9 between machines (200)")
    parser.add_argument("--others", type=int, default=100, help="other faults between machines (100)")
    parser.add_argument("--rounds", type=int, default=1000, help="of each game whose services are killed (1000)")
    parser.add_argument("--soak", type=float, default=180.0, help="seconds of the long game (180)")
    parser.add_argument("--connections", type=int, default=50_000, help="of the flood (50000)")
    parser.add_argument("--at-once", type=int, default=4000, help="of these connections (4000)")
    parser.add_argument("--streams", type=int, default=20_000, help="of the flood, none of them with a ticket (20000)")
    parser.add_argument("--out", type=Path, default=Path("reliability-report.json"), help="where the report goes")
    given = vars(parser.parse_args())
    names, out = given.pop("only"), given.pop("out")
    console, scale, parts = Console(), Scale(**given), []
    for name in names:
        attempt = partial(PARTS[name], scale)
        parts.append(tried(name, attempt, lambda words: console.print(words, markup=False, highlight=False)))
        write(summed_up(parts), out)  # what is known so far, should the rest take too long for somebody
    show(parts, console)
    console.print(f"written to {out}")
    return int(any(part.failures for part in parts))


if __name__ == "__main__":  # worlds are played out in processes that import this again
    sys.exit(main())
