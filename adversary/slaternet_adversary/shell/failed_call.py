"""failed-call.npz: what a plugin was asked when it failed, to be asked again by `slaternet adversary-call`."""

import io
import math
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slaternet.errors import BadSpec, PluginFailed
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array, Question
from slaternet.numerics import npz
from slaternet.spec import Spec
from slaternet.storage.disk import DISK, Disk, replace_file
from slaternet.storage.files import opened, refusing
from slaternet_adversary.engine.events import Play, Score

FAILED_CALL = "failed-call.npz"

METHODS = ("play", "loss", "constraint", "loss_gradient", "constraint_gradient", "values", "scoring")
"""What is asked again: `values` are loss and constraint, where it is not known which of them has failed."""


@dataclass(frozen=True)
class FailedCall:
    """A call of a plugin: the round is played, and then the method is asked."""

    method: str
    """One of METHODS."""
    round: int
    agents: Agents
    """(k,) that the call was about; none of `play`."""
    points: Array
    """(k, s, p); of `scoring` the decisions, s = 1."""
    past: Array | None = None
    """(t - 1, n, p): all earlier decisions, where the functions depend on them and no journal holds them."""

    def write(self, folder: Path, *, disk: Disk = DISK) -> None:
        """Write it to a run folder; the last one stays."""
        arrays = {"method": np.array(METHODS.index(self.method)), "round": np.array(self.round)}
        arrays |= {"agents": self.agents.astype(np.int64), "points": self.points}
        arrays |= {} if self.past is None else {"past": self.past}
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **arrays)
        replace_file(folder / FAILED_CALL, file.getbuffer(), disk=disk)

    @classmethod
    def read(cls, folder: Path, agents: int, dimension: int) -> "FailedCall":
        """Return the call in the run folder of a game of this size; BadSpec where there is none, or it is damaged."""
        path = folder / FAILED_CALL
        damaged = f"{path} is damaged; play the game again until the plugin fails"
        if not path.exists():
            raise BadSpec(f"{folder} has no {FAILED_CALL}: in this run no call of a plugin has failed")
        with opened(path) as file, refusing(damaged), npz.Archive(file) as archive:
            names = ("method", "round", "agents", "points", *(("past",) if "past" in archive else ()))
            kinds = [archive.head(name).dtype.kind for name in names]
            method, round, about, points, *past = (archive.array(name) for name in names)
            call = cls(METHODS[int(method)], int(round), about.astype(np.intp), points, *past)
            whole = kinds == ["i", "i", "i", "f", *["f" for _ in past]] and call._fits(agents, dimension)
        if not whole:
            raise BadSpec(damaged)
        return call

    def _fits(self, agents: int, dimension: int) -> bool:
        about, points, past = self.agents, self.points, self.past
        ascending = bool((np.diff(about) > 0).all()) and (not about.size or 0 <= about[0] <= about[-1] < agents)
        fits = points.ndim == 3 and len(points) == len(about) and points.shape[2] == dimension
        known = past is None or past.shape == (self.round - 1, agents, dimension)
        return self.round >= 1 and about.ndim == 1 and ascending and fits and known


class FailedCalls:
    """Saves the call with which a plugin has failed in a run, and tells the error how to ask it again."""

    def __init__(self, folder: Path, spec: Spec, disk: Disk = DISK) -> None:
        self._folder = folder
        self._spec = spec
        self._disk = disk
        self._past: tempfile.SpooledTemporaryFile[bytes] | None = None

    def keep_past(self, effects: Sequence[Play]) -> None:
        """Keep the newest decisions that an adaptive plugin is given, in a game without a journal."""
        for past in (each.past for each in effects if each.past is not None and len(each.past)):
            if self._past is None:
                self._past = tempfile.SpooledTemporaryFile(LIMITS.chunk_bytes)  # noqa: SIM115 - closed by `close`
            self._past.write(np.ascontiguousarray(past[-1]).tobytes())

    def save_play(self, error: PluginFailed, effects: Sequence[Play]) -> None:
        """Save which of some rounds could not be played."""
        round = _failed(error, [each.round for each in effects])
        self._save(error, FailedCall("play", round, np.empty(0, np.intp), np.empty((0, 0, self._spec.run.dimension))))

    def save_question(self, error: PluginFailed, question: Question) -> None:
        """Save a question that could not be answered."""
        method = error.fault.method if error.fault is not None else ""
        points = question.points
        if method.endswith("_gradient") and question.anchor is not None:
            points = question.anchor[:, None]
        elif method not in ("loss", "constraint"):
            method = "values"
        self._save(error, FailedCall(method, question.round, question.agents, points))

    def save_score(self, error: PluginFailed, effects: Sequence[Score]) -> None:
        """Save which of some rounds could not be scored."""
        round = _failed(error, [each.round for each in effects])
        effect = next(each for each in effects if each.round == round)
        self._save(error, FailedCall("scoring", round, effect.agents, effect.decisions[:, None]))

    def close(self) -> None:
        """Drop what was kept."""
        if self._past is not None:
            self._past.close()

    def _save(self, error: PluginFailed, call: FailedCall) -> None:
        if self._past is not None:
            self._past.seek(0)
            shape = call.round - 1, self._spec.run.agents, self._spec.run.dimension
            past = np.frombuffer(self._past.read(8 * math.prod(shape))).reshape(shape)
            call = FailedCall(call.method, call.round, call.agents, call.points, past)
        try:
            call.write(self._folder, disk=self._disk)
        except OSError:  # without room for it the plugin's error is still what the operator must see
            return
        error.command = shlex.join(("slaternet", "adversary-call", self._spec.adversary.plugin, str(self._folder)))


def _failed(error: PluginFailed, rounds: Sequence[int]) -> int:
    """Return which of some rounds an error is about: the first, unless it says so."""
    return error.fault.round if error.fault is not None and error.fault.round in rounds else rounds[0]
