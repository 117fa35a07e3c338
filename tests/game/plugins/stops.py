"""Adversaries to be debugged: all have the same functions, and one of them raises an error instead."""

import pdb
import signal

import numpy as np

from slaternet.model import Agents, Array
from slaternet_adversary import Adversary, History

STOP = 3
"""The round in which a debugger is called."""


class Bowls:
    """Losses around one point, and a constraint on the first coordinate."""

    def __init__(self, centre: Array) -> None:
        self._centre = centre

    def loss(self, agents: Agents, points: Array) -> Array:
        return np.asarray(np.add.reduce((points - self._centre) ** 2, axis=-1))

    def constraint(self, agents: Agents, points: Array) -> Array:
        return points[..., :1] - 1.0


class Runs(Adversary):
    """Calls no debugger."""

    constraints = 1
    rowwise = True

    def play(self, round: int, past: History | None) -> Bowls:
        return Bowls(np.full(self.game.dimension, 0.1 * round))


class Stops(Runs):
    """Calls breakpoint()."""

    def play(self, round: int, past: History | None) -> Bowls:
        size = 17 * round
        if round == STOP:
            breakpoint()
            size += 1
        return super().play(round, past)


class Traces(Runs):
    """Calls pdb itself."""

    def play(self, round: int, past: History | None) -> Bowls:
        size = 17 * round
        if round == STOP:
            pdb.set_trace()
            size += 1
        return super().play(round, past)


class Stumbles(Runs):
    """Raises deep inside a library."""

    def play(self, round: int, past: History | None) -> Bowls:
        size = 17 * round
        if round == STOP:
            np.linalg.inv(np.zeros((size, size)))
        return super().play(round, past)


class Hangs(Runs):
    """Waits for a signal."""

    def play(self, round: int, past: History | None) -> Bowls:
        if round == STOP:
            print("here it hangs")
            signal.pause()
        return super().play(round, past)


class Talks(Runs):
    """Prints in every round: a line, a line that is not ended at once, and what is no text."""

    def play(self, round: int, past: History | None) -> Bowls:
        print("round", round)
        print("half", end=" ", flush=True)
        print("a line \x1b[31m")
        if round == STOP:
            import sys

            sys.stdout.flush()
            sys.stdout.buffer.write(b"caf\xe9\n")
            sys.stdout.buffer.flush()
        return super().play(round, past)
