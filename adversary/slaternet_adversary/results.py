"""The run folder: the resolved spec, one row of metrics per round as the game goes, and at last the summary."""

import itertools
import json
import os
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import IO

import numpy as np

from slaternet.breaches import Breaches
from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet_adversary.costs import Network
from slaternet_adversary.referee import Commit, Record, Summarise

COLUMNS = (
    "round",
    "loss",
    "violation",
    "cumulative_loss",
    "cumulative_violation",
    "zero_loss",
    "zero_violation",
    "disagreement",
    "agents",
    "frames",
    "bytes_sent",
    "bytes_received",
    "waited",
    "skew",
    "seconds",
    "digest",
)
"""Of metrics.csv. The `zero_` columns are cumulative: the baseline that never moves from the centre."""

_DECISIONS = "decisions.f64"
"""Decisions as they come, raw float64; packed into decisions.npz when the game is over."""

_FILES = (
    "spec.toml",
    "metrics.csv",
    "commitments.csv",
    "summary.json",
    "decisions.npz",
    _DECISIONS,
    "assumptions.txt",
    "loss.png",
    "violation.png",
    "regret.csv",
    "regret.png",
)
_STATE = "state"
"""What the processes of a run leave behind. It alone does not make a run: `slaternet run` puts it there first."""


def new_folder(spec: Spec, runs: Path = Path("runs")) -> Path:
    """Return a path for a new run, runs/NAME-TIME, that does not exist yet."""
    stem = f"{spec.run.name}-{datetime.now():%Y%m%d-%H%M%S}"
    candidates = (runs / (stem if count == 1 else f"{stem}-{count}") for count in itertools.count(1))
    return next(path for path in candidates if not path.exists())


def claim(folder: Path, *, force: bool = False) -> None:
    """Make a run folder; one that holds a file of a run is refused unless forced, and then emptied of all of them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = [folder / name for name in _FILES if (folder / name).exists()]
        if held and not force:
            raise BadSpec(
                f"{folder} holds a run already ({held[0].name}); choose another --out, or overwrite it with --force"
            )
        for path in held:
            path.unlink()
        if force and (folder / _STATE).is_dir():
            shutil.rmtree(folder / _STATE)
    except OSError as error:
        raise BadSpec(f"cannot write the run folder {folder}: {error.strerror}; choose another --out") from None


class Results:
    """Writes a run folder. A row that is written is not lost, whatever happens to the process."""

    def __init__(self, folder: Path, spec: Spec, *, run: str, breaches: Breaches | None = None) -> None:
        self.folder = folder
        self._spec = spec
        self._run = run
        self._breaches = breaches or Breaches()
        self._totals = (0.0, 0.0, 0.0, 0.0)
        self.network = Network()
        _replace(folder / "spec.toml", spec.to_toml())
        self._metrics = _table(folder / "metrics.csv", COLUMNS)
        self._commitments = _table(folder / "commitments.csv", ("round", "commitment"))
        self._decisions: IO[bytes] | None = (folder / _DECISIONS).open("wb") if spec.record.decisions else None

    def commit(self, effect: Commit) -> None:
        """Append commitments; when this returns they outlive the process, and their rounds may be revealed."""
        self._commitments.writelines(f"{t},{each}\n" for t, each in enumerate(effect.commitments, effect.round))
        self._commitments.flush()

    def record(self, row: Record, seconds: float) -> None:
        """Append a round."""
        score, effort, totals = row.score, row.costs.effort, row.totals
        loss, violation, away = (score.loss, score.violation, score.disagreement) if score else ("", "", "")
        self._totals = totals
        self.network.add(row.costs)
        self._metrics.write(
            f"{row.round},{loss},{violation},{totals[0]},{totals[1]},{totals[2]},{totals[3]},{away},{row.agents},"
            f"{effort.frames},{effort.bytes_sent},{effort.bytes_received},{effort.waited:.6f},{row.costs.skew:.6f},"
            f"{seconds:.6f},{row.digest}\n"
        )
        self._metrics.flush()
        if self._decisions is not None:
            self._decisions.write(row.x.tobytes())
            self._decisions.flush()

    def finish(self, end: Summarise, seconds: float, seats: Mapping[str, int]) -> None:
        """Write what remains, the summary last and in one step: where it stands, the run is complete.

        `seats` says how many agents each host has seated.
        """
        spec = self._spec
        if spec.run.rounds != end.rounds:
            spec = spec.replace(**{"run.rounds": end.rounds})
            _replace(self.folder / "spec.toml", spec.to_toml())
        self.close()
        if spec.record.decisions:
            self._pack(end.rounds)
        summary = {
            "name": spec.run.name,
            "run": self._run,
            "algorithm": spec.algorithm.name,
            "adversary": spec.adversary.plugin,
            "graph": spec.graph.name,
            "agents": spec.run.agents,
            "rounds": end.rounds,
            "scored_rounds": end.rounds // spec.record.score_every,
            "seed": spec.run.seed,
            "hosts": len(seats),
            "cumulative_loss": self._totals[0],
            "cumulative_violation": self._totals[1],
            "zero_loss": self._totals[2],
            "zero_violation": self._totals[3],
            "digest": end.digest,
            "reproducible": spec.run.reproducible,
            "breaches": self._breaches.by_kind,
            "seconds": seconds,
            "rounds_per_second": end.rounds / seconds if seconds > 0 else 0.0,
            "network": self.network.summary(seats),
        }
        _replace(self.folder / "summary.json", json.dumps(summary, indent=2) + "\n")

    def _pack(self, rounds: int) -> None:
        raw = self.folder / _DECISIONS
        shape = (rounds, self._spec.run.agents, self._spec.run.dimension)
        np.savez(self.folder / "decisions.npz", x=np.fromfile(raw, dtype="<f8").reshape(shape))
        raw.unlink()

    def close(self) -> None:
        """Close the files; what was recorded stays."""
        self._metrics.close()
        self._commitments.close()
        if self._decisions is not None:
            self._decisions.close()


def _table(path: Path, columns: tuple[str, ...]) -> IO[str]:
    """Begin a file of comma-separated values."""
    table = path.open("w", encoding="utf-8", newline="")
    table.write(",".join(columns) + "\n")
    table.flush()
    return table


def _replace(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    draft = path.with_name(path.name + ".draft")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
