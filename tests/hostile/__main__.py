"""`python -m tests.hostile SEED --policy POLICY`: one game again, with what came of it."""

import argparse
import tempfile
from pathlib import Path

from tests.hostile.game import played
from tests.hostile.host import Plan

from slaternet_coordinator.engine.rules import Policy

parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
parser.add_argument("seed", type=int)
parser.add_argument("--policy", type=Policy, choices=list(Policy), default=Policy.WAIT)
given = parser.parse_args()
print(Plan.draw(given.seed))
with tempfile.TemporaryDirectory() as folder:
    print(played(given.seed, given.policy, Path(folder) / "game"))
