"""Files of users that go wrong, written where a spec can name them."""

from pathlib import Path
from textwrap import dedent

GRAPH = """
from slaternet_coordinator.graphs.fixed import Ring
from slaternet_coordinator.graphs.base import Matrix

class Faulty(Ring):
    def __init__(self, agents, seed):
        super().__init__(agents, seed)

    def matrix(self, t):
        good = super().matrix(t)
        if t >= {first}:
            {fault}
        return good
"""
HALVED = "return Matrix(good.agents, good.starts, good.columns, good.weights * 0.5)"


def written(folder: Path, name: str, code: str) -> str:
    """Write a user's file and return the target that names its class."""
    path = folder / f"{name.lower()}.py"
    path.write_text(dedent(code))
    return f"{path}:{name}"
