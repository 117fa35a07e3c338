"""The run folder: the resolved spec, one row of metrics per round, and at the end the summary."""

import itertools
import json
import os
import shutil
import stat
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter

from slaternet.errors import BadSpec, Damaged
from slaternet.model import DISTURBED, Departure, IncidentRecord
from slaternet.numerics.npz import add_array
from slaternet.refusals import RefusalCounter
from slaternet.spec import PublicSpec, Spec
from slaternet.storage.disk import DISK, Disk, is_link, open_data, refuse_link, replace_file, replacing
from slaternet.storage.files import read_decisions, read_json, read_spec
from slaternet_adversary.engine.events import Commit, RecordRound, Summarise
from slaternet_adversary.engine.host_costs import COSTS, NetworkTotals
from slaternet_adversary.journal.journal import JOURNAL
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_adversary.shell.failed_call import FAILED_CALL, FailedCalls
from slaternet_adversary.shell.incident_file import INCIDENTS, IncidentFile
from slaternet_adversary.shell.resumable_csv import ResumableCsv

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
    *COSTS,
    "skew",
    "seconds",
    "digest",
)
"""Of metrics.csv. The `zero_` columns are cumulative: the baseline, which never leaves the centre of X."""

TOTALS = ("cumulative_loss", "cumulative_violation", "zero_loss", "zero_violation")
"""Columns of metrics.csv, and entries of summary.json, with the referee's totals."""

_PASSING = (*COSTS, "skew", "seconds")
"""Columns of metrics.csv about the network, which may differ between two plays of the same game."""

ROWS = "gossip.csv"
"""What the rows of a simulation would take on the wire, which the simulation writes."""

_SPEC = "spec.toml"
_SUMMARY = "summary.json"
_DECISIONS = "decisions.f64"
"""Decisions round by round, raw float64; packed when the game is over."""
_PACKED = "decisions.npz"

_JSON = TypeAdapter(dict[str, Any])

_CONCLUSIONS = (_SUMMARY, _PACKED, "assumptions.txt", "loss.png", "violation.png", "regret.csv", "regret.png")
"""Files that are written when a game is over."""
_FILES = (
    _SPEC,
    "metrics.csv",
    "commitments.csv",
    ROWS,
    INCIDENTS,
    FAILED_CALL,
    str(JOURNAL),
    _DECISIONS,
    *_CONCLUSIONS,
)
_STATE = "state"
"""States of the processes of a run. It alone does not make a run: `slaternet run` creates it first."""


def new_folder(spec: PublicSpec, runs: Path = Path("runs")) -> Path:
    """Return a path for a new run, runs/NAME-TIME, that does not exist yet."""
    stem = f"{spec.run.name}-{datetime.now():%Y%m%d-%H%M%S}"
    candidates = (runs / (stem if count == 1 else f"{stem}-{count}") for count in itertools.count(1))
    return next(path for path in candidates if not path.exists())


def is_complete(folder: Path, *, disk: Disk = DISK) -> bool:
    """Whether a run folder has its summary: it is written last."""
    return _SUMMARY in disk.names(folder)


def claim(folder: Path, *, force: bool = False) -> None:
    """Create a run folder; one that holds files of a run is refused, or with `force` emptied of them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (str(JOURNAL.parent), _STATE):
            if force and not stat.S_ISDIR(_mode(folder / name)):
                (folder / name).unlink(missing_ok=True)
            refuse_link(folder / name)
        held = [name for name in _FILES if os.path.lexists(folder / name)]
        if held and not force:
            raise BadSpec(f"{folder} holds a run ({held[0]}); choose another --out, or overwrite it with --force")
        for name in held:
            (folder / name).unlink()
        for emptied in (JOURNAL.parent, _STATE) if force else ():
            shutil.rmtree(folder / emptied, ignore_errors=True)
    except OSError as error:
        raise BadSpec(f"cannot write the run folder {folder}: {error.strerror}; choose another --out") from None


def _mode(path: Path) -> int:
    """Return what a name stands for, itself and not where it leads; 0 where it does not exist."""
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0


def remove_conclusions(folder: Path) -> None:
    """Remove the conclusions of a game that is played on, so that no loss of power restores them."""
    held = DISK.names(folder)
    if _PACKED in held and _DECISIONS not in held:
        # unpack the decisions: those of the first rounds may be nowhere else
        with suppress(BadSpec):
            run = read_spec(folder / _SPEC).run
            shape = run.rounds or 0, run.agents, run.dimension
            replace_file(folder / _DECISIONS, read_decisions(folder / _PACKED, shape).data.cast("B"))
    for name in _CONCLUSIONS:
        if name in held:
            DISK.remove(folder / name)
    DISK.sync_folder(folder)


class RunFolder:
    """Writes a run folder. A row that is written outlives the process.

    `again`: a previous process has begun it. All that it has recorded is recorded again, and compared. Without a
    journal to restore them from, rows may be written `rows_at_once`: that costs a third.
    """

    def __init__(
        self,
        folder: Path,
        spec: Spec,
        *,
        run: str,
        breaches: RefusalCounter | None = None,
        again: bool = False,
        rows_at_once: int = 1,
        disk: Disk = DISK,
    ) -> None:
        self.folder = folder
        self._rows_at_once = rows_at_once
        self._rows: list[dict[str, object]] = []
        self._disk = disk
        self._spec = spec
        self._run = run
        self._breaches = breaches or RefusalCounter()
        self._totals = (0.0, 0.0, 0.0, 0.0)
        self.network = NetworkTotals()
        self._spent = self.network.spent  # when the last row was written
        for name in _FILES:
            if is_link(folder / name):  # what it leads to stays as it is, and rows are written anew from the journal
                disk.remove(folder / name)
        self.complete = again and is_complete(folder, disk=disk)
        """Whether the folder had its summary already."""
        self._metrics = ResumableCsv(folder / "metrics.csv", COLUMNS, passing=_PASSING, again=again, disk=disk)
        self._commitments = ResumableCsv(folder / "commitments.csv", ("round", "commitment"), again=again, disk=disk)
        self._incidents = IncidentFile(folder, disk=disk)
        self.failures = FailedCalls(folder, spec, disk)
        self._decisions: IO[bytes] | None = None
        self._settled = not again
        """Whether all that a previous process has recorded is recorded again: not before, spec.toml changes."""
        if not self.complete:
            self._write_spec(spec)
            # with `again`, decisions are written once more from the journal; those cut from it are in the file
            raw = folder / _DECISIONS
            if spec.record.decisions:
                self._decisions = open_data(raw, anew=not (again and raw.exists()))

    def depart(self, departures: Sequence[Departure]) -> None:
        """Add departures to the spec, so that it gives the same game when played again."""
        if departures and not self.complete:
            self._write_spec(self._spec.departing(departures))

    def _write_spec(self, spec: Spec) -> None:
        self._spec = spec
        if self._settled:
            replace_file(self.folder / _SPEC, spec.to_toml().encode(), disk=self._disk)

    def restore(self, snapshot: Snapshot) -> None:
        """Continue after the last round that was cut from the journal; its rows are written."""
        standing, round = snapshot.standing, snapshot.round
        self._totals, self.network = standing.totals, snapshot.network()
        self._spent = self.network.spent
        row, bound = self._metrics.skip_rows(round), self._commitments.skip_rows(round)
        sums = ",".join(map(str, standing.totals))
        whole = row.startswith(f"{round},") and f",{sums}," in row and row.endswith(f",{standing.digest.hex()[:16]}")
        if not whole or not bound.startswith(f"{round},"):
            raise Damaged(f"{self.folder} has another round {round} than its journal; put back the right one")
        if self._decisions is not None:
            size = 8 * round * self._spec.run.agents * self._spec.run.dimension
            if self._decisions.seek(0, os.SEEK_END) < size:
                raise Damaged(f"{self.folder / _DECISIONS} lacks decisions that the journal has no more; put it back")
            self._decisions.seek(size)

    def sync(self) -> None:
        """Return once all that was recorded would survive a loss of power."""
        self._metrics.sync()
        self._commitments.sync()
        if self._decisions is not None:
            os.fsync(self._decisions.fileno())

    def commit(self, effect: Commit) -> None:
        """Append commitments; when this returns they outlive the process, and their rounds may be revealed."""
        self._commitments.append(*(f"{t},{each}" for t, each in enumerate(effect.commitments, effect.round)))

    def renew_commitments(self) -> None:
        """Cut off the commitments of a previous process that were not recorded again: others take their place."""
        self._commitments.truncate_rest()
        self._commitments.sync()

    def record(self, row: RecordRound, seconds: float) -> None:
        """Append a round."""
        self._totals = row.totals
        skew = self.network.add(row.lags)
        spent = self.network.spent
        *counts, waited = (now - before for now, before in zip(spent, self._spent, strict=True))
        self._spent = spent
        passing = *counts, f"{waited:.6f}", f"{skew:.6f}", f"{seconds:.6f}"
        self._rows.append(lasting_columns(row) | dict(zip(_PASSING, passing, strict=True)))
        if len(self._rows) >= self._rows_at_once:
            self._write_rows()
        if self._decisions is not None:
            self._decisions.write(row.x.tobytes())
            self._decisions.flush()

    def _write_rows(self) -> None:
        rows, self._rows = self._rows, []
        self._metrics.append(*(",".join([str(fields[name]) for name in COLUMNS]) for fields in rows))

    def note(self, incident: IncidentRecord) -> None:
        """Append an incident, unless it is there already; one that disturbs the game stands in the summary, too."""
        self._incidents.append(incident)
        path = self.folder / _SUMMARY
        if incident.kind == DISTURBED and _SUMMARY in self._disk.names(self.folder):
            summary = read_json(path, _JSON, "is damaged; put back the right one", disk=self._disk) | {
                "disturbed": True
            }
            replace_file(path, (json.dumps(summary, indent=2) + "\n").encode(), disk=self._disk)

    def finish(self, end: Summarise, seconds: float, seats: Mapping[str, int]) -> None:
        """Complete the folder. The summary is written last and atomically: where it exists, the run is complete.

        `seats` is the number of agents of each host.
        """
        if self.complete:
            self._check_summary(end)
            return
        if self._spec.run.rounds != end.rounds:
            self._write_spec(self._spec.replace(**{"run.rounds": end.rounds}))
        spec = self._spec
        self.truncate_rest()
        self.sync()
        self.close()
        if FAILED_CALL in self._disk.names(self.folder):  # of a plugin that was mended
            self._disk.remove(self.folder / FAILED_CALL)
        if spec.record.decisions:
            self._pack(end.rounds)
        summary = {
            **lasting_summary(spec, self._run, len(seats), end, self._totals),
            "disturbed": self._incidents.disturbed,
            "breaches": self._breaches.by_kind,
            "seconds": seconds,
            "rounds_per_second": end.rounds / seconds if seconds > 0 else 0.0,
            "network": self.network.summary(seats, spec.gossip.row_width),
        }
        replace_file(self.folder / _SUMMARY, (json.dumps(summary, indent=2) + "\n").encode(), disk=self._disk)

    def _check_summary(self, end: Summarise) -> None:
        path = self.folder / _SUMMARY
        sentence = f"has not the digest that the journal gives, {end.digest}; put back the right one"
        try:
            digest = read_json(path, _JSON, sentence, disk=self._disk).get("digest")
        except BadSpec:
            digest = None
        if digest != end.digest:
            raise Damaged(f"{path} {sentence}")

    def truncate_rest(self) -> None:
        """Cut off rows of a previous process that were not recorded again: the journal does not have their rounds."""
        self._write_rows()
        self._metrics.truncate_rest()
        self._commitments.truncate_rest()
        if self._decisions is not None:
            self._decisions.truncate()
        if not self._settled:
            self._settled = True
            if not self.complete:
                self._write_spec(self._spec)

    def _pack(self, rounds: int) -> None:
        raw = self.folder / _DECISIONS
        shape = (rounds, self._spec.run.agents, self._spec.run.dimension)
        with raw.open("rb") as numbers, replacing(self.folder / _PACKED) as file, zipfile.ZipFile(file, "w") as archive:
            add_array(archive, "x", "<f8", shape, numbers)
        raw.unlink()

    def close(self) -> None:
        """Close the files."""
        self.failures.close()
        self._write_rows()
        self._metrics.close()
        self._commitments.close()
        if self._decisions is not None:
            with suppress(OSError):  # of decisions for which there was no room, as `record` has said
                self._decisions.close()


def lasting_columns(row: RecordRound) -> dict[str, object]:
    """Return those columns of a round in metrics.csv that are the same whenever the game is played."""
    score = row.score
    loss, violation, disagreement = (score.loss, score.violation, score.disagreement) if score else ("", "", "")
    return {
        "round": row.round,
        "loss": loss,
        "violation": violation,
        **dict(zip(TOTALS, row.totals, strict=True)),
        "disagreement": disagreement,
        "agents": row.agents,
        "digest": row.digest,
    }


def lasting_summary(
    spec: Spec, run: str, hosts: int, end: Summarise, totals: tuple[float, float, float, float]
) -> dict[str, object]:
    """Return those entries of summary.json that follow from the spec and the journal."""
    return {
        "name": spec.run.name,
        "run": run,
        "algorithm": spec.algorithm.name,
        "adversary": spec.adversary.plugin,
        "graph": spec.graph.name,
        "gossip": {
            "code": spec.gossip.code,
            "difference": bool(spec.gossip.difference),
            "trigger": spec.gossip.trigger,
        },
        "agents": spec.run.agents,
        "rounds": end.rounds,
        "scored_rounds": end.rounds // spec.record.score_every,
        "seed": spec.run.seed,
        "sealed": spec.sealed,
        "hosts": hosts,
        "departures": [{"round": each.round, "agents": each.agents} for each in spec.departures],
        **dict(zip(TOTALS, totals, strict=True)),
        "digest": end.digest,
        "reproducible": spec.run.reproducible,
    }
