"""Makes the whole game over gRPC that the tests of services play available here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "service"))
