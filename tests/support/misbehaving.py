"""An adversary that does in its third round what its option says; a plugin file for the games of misbehaviour."""

import fcntl
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from slaternet.model import Agents, Array
from slaternet_adversary import Adversary, Game, History

ROUND = 3
WORDS = "the hidden value is 42.4242"


class Bowls:
    """Losses |x - 1|^2, constraint x_1 <= 1/2; `instead` is called in place of the loss."""

    def __init__(self, instead: Callable[[Array], object] | None) -> None:
        self._instead = instead

    def loss(self, agents: Agents, points: Array) -> Array:
        values = np.sum((points - 1.0) * (points - 1.0), axis=-1)
        return values if self._instead is None else self._instead(values)  # type: ignore[return-value]

    def constraint(self, agents: Agents, points: Array) -> Array:
        return points[..., :1] - 0.5


class Misbehaves(Adversary):
    """Plays bowls, but for round 3."""

    constraints = 1
    rowwise = True

    def __init__(self, game: Game, *, how: str, where: str = "") -> None:
        super().__init__(game)
        self._how: Callable[[Array], object] = getattr(self, f"_{how}")
        self._where = where

    def play(self, round: int, past: History | None) -> Bowls:
        return Bowls(self._how if round == ROUND else None)

    def _raises(self, values: Array) -> Array:
        raise ArithmeticError(WORDS)

    def _leaves(self, values: Array) -> Array:
        sys.exit(WORDS)

    def _exits(self, values: Array) -> Array:
        os._exit(17)

    def _says_nan(self, values: Array) -> Array:
        return values * np.nan

    def _says_too_little(self, values: Array) -> Array:
        return values[:, :1]

    def _says_words(self, values: Array) -> list[list[str]]:
        return [["42.4242" for _ in row] for row in values]

    def _hangs(self, values: Array) -> Array:
        Path(self._where).touch()
        threading.Event().wait()
        return values

    def _grabs(self, values: Array) -> Array:
        hoard = []
        while True:
            hoard.append(np.empty(1 << 22))  # address space is what is limited

    def _opens(self, values: Array) -> Array:
        files = []
        while True:
            files.append(open(os.devnull))  # noqa: SIM115

    def _prints(self, values: Array) -> Array:
        print("so much to say\n" * 70_000)
        return values

    def _guesses(self, values: Array) -> Array:
        return values + random.random()

    def _writes(self, values: Array) -> Array:
        Path(self._where).write_text("written")
        return values

    def _forks(self, values: Array) -> Array:
        """Leave children behind, one of them in a session of its own where that is of no use to it."""
        Path(self._where).touch()
        for own_session in (False, os.getppid() == 1):  # in a pid namespace
            if not os.fork():
                if own_session:
                    os.setsid()
                file = open(self._where, "a")  # noqa: SIM115 - as long as it lives
                fcntl.flock(file, fcntl.LOCK_SH)
                file.write("alive\n")
                file.flush()
                signal.pause()
        while Path(self._where).read_text().count("alive") < 2:
            time.sleep(0.005)  # the next look; nothing depends on its length
        return values

    def _kills_its_parent(self, values: Array) -> Array:
        os.kill(os.getppid(), signal.SIGKILL)
        return values

    def _kills_itself(self, values: Array) -> Array:
        os.kill(os.getpid(), signal.SIGKILL)
        return values

    def _crashes(self, values: Array) -> Array:
        signal.raise_signal(signal.SIGSEGV)  # in this thread; os.kill might end the process after the answer
        return values

    def _calls_out(self, values: Array) -> Array:
        host, _, port = self._where.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=5.0) as line:
            line.sendall(b"values")
        return values
