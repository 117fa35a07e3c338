"""An adversary that leaves code where the next process might look for it, and dies."""

import os
from pathlib import Path

import numpy as np

from slaternet.model import Agents, Array
from slaternet_adversary import Adversary, Game, History

NAMES = ("json", "numpy", "grpc", "slaternet", "structlog", "typing", "signal")
"""Modules that every process of ours imports."""


def set_trap(folder: Path) -> None:
    """Write modules into a folder that say, when they are imported, that they were."""
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'caught')!r}, 'a').write('{name} ')\n")


class Flat:
    """Losses that are not interesting."""

    def loss(self, agents: Agents, points: Array) -> Array:
        return np.sum(points * points, axis=-1)

    def constraint(self, agents: Agents, points: Array) -> Array:
        return points[..., :1] - 0.5


class LeavesCode(Adversary):
    """Plays, but for round 5: there it writes into a folder and exits, unless it has done so before."""

    constraints = 1
    rowwise = True

    def __init__(self, game: Game, *, folder: str = "") -> None:
        super().__init__(game)
        self._folder = folder

    def play(self, round: int, past: History | None) -> Flat:
        if round == 5 and self._folder and not Path(self._folder, "json.py").exists():
            set_trap(Path(self._folder))
            os._exit(17)
        return Flat()
