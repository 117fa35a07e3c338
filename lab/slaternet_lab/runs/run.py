"""Read a run folder: spec, summary, metrics and decisions; and find where two runs differ."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import BadSpec
from slaternet.model import Array
from slaternet.spec import Spec
from slaternet.storage.files import read_decisions, read_spec
from slaternet_lab.runs import reader

if TYPE_CHECKING:
    from slaternet_lab.audit.report import AuditReport


class Run:
    """One run, finished or not.

        run = Run.open("runs/paper-20240101-120000")
        run.spec.run.agents, run.summary["digest"], run.metrics["cumulative_loss"][-1]

    Arrays are read when first asked for.
    """

    def __init__(self, folder: Path, spec: Spec) -> None:
        self.folder = folder
        self.spec = spec

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        """Open a run folder; BadSpec where it is none."""
        folder = Path(folder)
        if not folder.is_dir():
            raise BadSpec(f"{folder} is not a run folder; name a folder that `slaternet run` has written")
        for name in ("spec.toml", "metrics.csv"):
            if not (folder / name).is_file():
                raise BadSpec(f"{folder} is not a run folder, because it lacks {name}; name one that a run has written")
        return cls(folder, read_spec(folder / "spec.toml"))

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """summary.json; empty while the game goes on, and where it failed."""
        path = self.folder / "summary.json"
        return reader.read_summary(path) if path.exists() else {}

    @functools.cached_property
    def metrics(self) -> dict[str, NDArray[Any]]:
        """metrics.csv by column, one entry per round; NaN where a round was not scored."""
        return reader.read_metrics(self.folder / "metrics.csv")

    @functools.cached_property
    def decisions(self) -> Array | None:
        """Every decision, (T, n, p), or None where `[record] decisions` was false."""
        path = self.folder / "decisions.npz"
        if not path.exists():
            return None
        return read_decisions(path, (self.rounds, self.spec.run.agents, self.spec.run.dimension))

    @property
    def rounds(self) -> int:
        """The rounds that metrics.csv holds."""
        return len(self.metrics["round"])

    def audit(self) -> "AuditReport":
        """Check the run from its journal and its spec; BadSpec where it has no journal, as a simulation has none."""
        from slaternet_lab.audit.auditor import audit

        return audit(self)

    @property
    def name(self) -> str:
        """The run's name in tables and legends: its folder."""
        return self.folder.resolve().name


@dataclass(frozen=True)
class Difference:
    """Where two runs differ first; `round` None where one is the beginning of the other, `agent` None where unknown."""

    round: int | None
    agent: int | None
    common: int
    """Rounds that both runs have and share."""


def diff(a: Run, b: Run) -> Difference | None:
    """Return where two runs differ first, or None where they are the same game to the bit."""
    if (index := parting(a, b)) is not None:
        return Difference(int(a.metrics["round"][index]), _first_agent(a, b, index), index)
    return None if a.rounds == b.rounds else Difference(None, None, min(a.rounds, b.rounds))


def parting(a: Run, b: Run) -> int | None:
    """Return how many rounds two runs share before they differ; None where one is the beginning of the other."""
    first, second = a.metrics["digest"], b.metrics["digest"]
    both = min(len(first), len(second))
    apart = np.flatnonzero(first[:both] != second[:both])
    return int(apart[0]) if len(apart) else None


def _first_agent(a: Run, b: Run, index: int) -> int | None:
    ours, theirs = a.decisions, b.decisions
    if ours is None or theirs is None or ours.shape[1:] != theirs.shape[1:]:
        return None
    bits = [np.ascontiguousarray(x[index]).view(np.uint64) for x in (ours, theirs)]
    agents = np.flatnonzero(np.any(bits[0] != bits[1], axis=1))
    return int(agents[0]) if len(agents) else None
