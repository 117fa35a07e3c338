"""Playing a trace: functions that were recorded, or made elsewhere from real data.

    f_{i,t}(x) = 1/2 |A x - theta|^2      or      sum_j (1/2 curvature_j x_j^2 + slope_j x_j) + constant
    g_{i,t}(x) = B x - b

They stand for every agent and round in an uncompressed .npz file (`trace` says how); for instance

    numpy.savez("trace.npz", matrix=matrix, offset=offset, rows=4)

with matrix (T, n, rows + m, p), A above B, and offset (T, n, rows + m), theta before b. `slaternet record` writes such
a file from the adversary of a spec, and playing it gives the digest of the original. A round is read when it is played,
so that a trace may be longer than memory.
"""

from pathlib import Path

from slaternet.fields import checked
from slaternet_adversary.api import Adversary, CannotPlay, Game, History
from slaternet_adversary.builtin.forms import Functions
from slaternet_adversary.builtin.trace import Trace

_KEY = "adversary.options.path"


class Replay(Adversary):
    """The functions of a file, whatever is decided; with `repeat` from the beginning again after its last round."""

    rowwise = True

    @checked("adversary.options", CannotPlay)
    def __init__(self, game: Game, *, path: Path, repeat: bool = False) -> None:
        super().__init__(game)
        self._who = f"{_KEY} = {path}"
        self._trace = Trace(path, _KEY)
        for key, has, needed in (
            ("agents", self._trace.agents, game.agents),
            ("dimension", self._trace.dimension, game.dimension),
        ):
            if has != needed:
                raise CannotPlay(f"{self._who} is of a game with run.{key} = {has}; set that, not {needed}")
        self.constraints = self._trace.constraints
        self.rounds = None if repeat else self._trace.rounds
        """Rounds it has functions for; None: any number."""

    def play(self, round: int, past: History | None = None) -> Functions:
        """Return the functions of any round that the file holds."""
        del past  # oblivious
        if self.rounds is not None and round > self.rounds:
            remedy = f"set run.rounds to at most {self.rounds} or adversary.options.repeat = true"
            raise CannotPlay(f"{self._who} holds {self.rounds} rounds and no round {round}; {remedy}")
        return self._trace.functions((round - 1) % self._trace.rounds + 1)
