"""Adversaries that walk, one of them not the same way twice."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from slaternet.model import Agents, Array
from slaternet_adversary import Adversary, Game, History

HELD = (60, 90, 120)
"""Rounds in which a walk that may be held does not answer the first time it is asked."""


class Bowls:
    """Bowls about a centre."""

    def __init__(self, centre: Array, held: Path | None = None, raised: float = 0.0) -> None:
        self._centre = centre
        self._held = held
        self._raised = raised

    def loss(self, agents: Agents, points: Array) -> Array:
        if self._held is not None and not self._held.exists():
            self._held.touch()
            signal.pause()
        time.sleep(0.005)  # so that the game is not over before it is disturbed
        away = points - self._centre
        return np.sum(away * away, axis=-1) + self._raised * (agents == 4)[:, None]

    def constraint(self, agents: Agents, points: Array) -> Array:
        return points[..., :1] - 0.5


class Walk(Adversary):
    """A walk that remembers where it is; in some rounds it touches a file of the folder `held` and waits for ever."""

    constraints = 1
    rowwise = True

    def __init__(self, game: Game, *, held: str = "") -> None:
        super().__init__(game)
        self._held = held
        self._centre = np.zeros(game.dimension)

    def play(self, round: int, past: History | None) -> Bowls:
        self._centre = self._centre / 2 + self.game.stream("step", 0, round).standard_normal(self.game.dimension)
        return Bowls(self._centre, Path(self._held, str(round)) if self._held and round in HELD else None)


class Drifts(Walk):
    """Adds a number that each process draws for itself to the losses of agent 4."""

    def __init__(self, game: Game) -> None:
        super().__init__(game)
        self._drawn = int.from_bytes(os.urandom(4), "little") / 2**32

    def play(self, round: int, past: History | None) -> Bowls:
        return Bowls(super().play(round, past)._centre, raised=self._drawn)
