"""Plays out worlds: `python -m tests.simulation 7 --trace`, or `python -m tests.simulation 0 1000` for many."""

import argparse
import sys
from collections import Counter

from tests.simulation.world import Wrong, run

from slaternet_coordinator.engine.rules import Policy


def main() -> int:
    """Play out the worlds of some seeds; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("first", type=int, help="a seed")
    parser.add_argument("last", type=int, nargs="?", help="the seed before which to stop; none: just one")
    parser.add_argument("--trace", action="store_true", help="tell what happens")
    parser.add_argument("--harsh", action="store_true", help="let everything go wrong, and often")
    parser.add_argument("--policy", type=Policy, choices=list(Policy), help="whatever the seed says of lost hosts")
    parser.add_argument(
        "--coded",
        action=argparse.BooleanOptionalAction,
        help="whether rows travel in a gossip code, whatever the seed says",
    )
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + 1 if asked.last is None else asked.last)
    faults: Counter[str] = Counter()
    failed = 0
    for seed in seeds:
        try:
            outcome = run(
                seed, print if asked.trace else None, harsh=asked.harsh, policy=asked.policy, coded=asked.coded
            )
        except Wrong as error:
            failed += 1
            print(error, flush=True)
        else:
            faults += outcome.faults
    print(f"{len(seeds)} seeds, {failed} of them wrong;", ", ".join(f"{n} {what}" for what, n in faults.most_common()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
