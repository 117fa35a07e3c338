"""An adversary that dies and lives again on one disk, and hosts that live longer than it does."""

import csv
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.simulation.disk import Died, SimDisk
from tests.support.specs import small_spec
from tests.support.telling import Telling, Told

from slaternet.errors import BadSpec, Diverged
from slaternet.limits import Limits
from slaternet.model import Agents, Answer, Array, Finished, LowWater, Question, StopAt, Usage
from slaternet.numerics.sets import Box
from slaternet_adversary import Adversary, Game, History
from slaternet_adversary.engine.amendments import Segment
from slaternet_adversary.engine.commitments import Commitments
from slaternet_adversary.engine.events import Asked, Reply, Used
from slaternet_adversary.engine.referee import Referee
from slaternet_adversary.journal.compaction import JournalTrimmer
from slaternet_adversary.journal.entries import Entry, Purchase
from slaternet_adversary.journal.journal import JOURNAL, AdversaryJournal, read
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_adversary.shell.run_folder import RunFolder, remove_conclusions

N, P, M, T = 3, 2, 2, 4
CODE, MENDED = "0f" * 32, "3e" * 32
"""Hashes of a plugin's code, before and after it was changed."""
BOX = Box(P, -1.0, 1.0)
SEATS = {"a": np.array([0]), "b": np.array([1, 2])}
SPEC = small_spec(N, P).replace(**{"record.decisions": True})


@dataclass
class Bowls:
    """f_i = |x - c_i|^2 / 2 and g_i = x - c_i."""

    centres: Array

    def loss(self, agents: Agents, points: Array) -> Array:
        away = points - self.centres[agents, None]
        loss: Array = (away * away).sum(axis=-1) / 2
        return loss

    def constraint(self, agents: Agents, points: Array) -> Array:
        rows: Array = points - self.centres[agents, None]
        return rows

    def loss_gradient(self, agents: Agents, points: Array) -> Array:
        return self.constraint(agents, points)

    def constraint_gradient(self, agents: Agents, points: Array) -> Array:
        return np.broadcast_to(np.eye(P), (*points.shape[:2], M, P))


class Walk(Adversary):
    """Moves its centres from round to round, and by the decisions it is told of: its state is its whole past."""

    constraints = M
    rowwise = True

    def __init__(self, history: int = 0) -> None:
        super().__init__(Game(N, P, 1, BOX))
        self.history = history
        self.played: list[int] = []
        self._rng = np.random.default_rng(7)
        self._centres = np.zeros((N, P))

    def play(self, round: int, past: History | None) -> Bowls:
        self.played.append(round)
        assert self.played == list(range(1, round + 1))  # each instance from the first on, in order
        self._centres = self._centres / 2 + self._rng.uniform(-0.3, 0.3, (N, P))
        if past is not None and len(past.decisions):
            self._centres = self._centres + past.decisions.sum(axis=0) / 10
        return Bowls(self._centres.copy())


@dataclass(frozen=True)
class Kind:
    """A game."""

    rounds: int | None = T
    history: int = 0
    gradients: tuple[bool, bool] = (False, False)
    score_every: int = 1
    stop: int = 0
    burst: int = 2

    def referee(self, played: Sequence[Segment] = (Segment(1, CODE),)) -> Referee:
        loss, constraint = self.gradients
        return Referee(
            N,
            BOX,
            points=2,
            constraints=M,
            rounds=self.rounds,
            loss_gradient=loss,
            constraint_gradient=constraint,
            history=self.history,
            score_every=self.score_every,
            commitments=Commitments(played[0].code, {}, 1, played[1:]),
            limits=Limits(burst=self.burst),
        )


KINDS = {
    "oblivious": Kind(),
    "adaptive": Kind(history=2, gradients=(True, True)),
    "scored at times": Kind(score_every=3, burst=16),
    "stopped": Kind(rounds=None, stop=4, history=1, gradients=(False, True)),
    "stopped within a burst": Kind(rounds=None, stop=3, burst=4),
}


@dataclass
class Hosts:
    """Hosts that live longer than the adversary: whatever they were not told they ask for again, in the same words."""

    kind: Kind
    answers: dict[str, list[Answer]] = field(default_factory=lambda: {host: [] for host in SEATS})

    def question(self, host: str) -> Question:
        """Return what a host asks next; every value it has been told is in it."""
        t, agents = len(self.answers[host]) + 1, SEATS[host]
        x = np.zeros((len(agents), P))
        for answer in (each.values for each in self.answers[host]):
            x = x / 2 + np.tanh(answer.f[:, :1] - answer.f[:, 1:] + answer.g.sum(axis=1)) / 4
            if answer.loss is not None:
                x = x - answer.loss.gradient / 8 + answer.loss.value[:, None] / 16
            if answer.constraint is not None:
                x = x - answer.constraint.value / 8
        loss, constraint = self.kind.gradients
        anchor = x / 2 if loss or constraint else None
        return Question(t, agents, x, np.stack((x, x + 0.1), axis=1), anchor, loss, constraint)

    def hear(self, out: list[Told]) -> bool:
        """Take what the adversary says; True when the game is over."""
        for effect in out:
            if isinstance(effect, Reply):
                assert effect.answer.round == len(self.answers[effect.host]) + 1
                self.answers[effect.host].append(effect.answer)
        return any(isinstance(effect, Finished) for effect in out)

    def play(self, runtime: Telling, said: list[Told]) -> None:
        """Play to the end; the adversary does a piece of its work after every question."""
        over = self.hear(said + runtime.seat(1, SEATS.items()))
        while not over:
            for host in SEATS:
                over |= self.hear(runtime.handle(self._next(host)))
                over |= not runtime.idle and self.hear(runtime.work())
                runtime.handle(LowWater(min(map(len, self.answers.values()))))
            if self.kind.stop and len(self.answers["a"]) >= 2:
                over |= self.hear(runtime.handle(StopAt(self.kind.stop)))  # said again and again

    def _next(self, host: str) -> Asked | Used:
        last = self.kind.stop or self.kind.rounds
        if len(self.answers[host]) == last:
            return Used(host, 1, Usage(last, 9, 99, 999, 0.5, 12, 88))
        return Asked(host, self.question(host))


@dataclass
class Life:
    """The adversary's processes, one after the other, on one disk."""

    kind: Kind
    folder: Path
    disk: SimDisk = field(default_factory=SimDisk)
    lives: int = 0
    low_water: int = 0
    keep: int = 0
    """How many rounds the journal keeps at least; 0: all."""
    code: str = CODE
    """Of the plugin, now."""

    def run(self, work: Callable[[Telling, list[Told]], None]) -> None:
        """Live once: go on from the journal where there is one, then do the work."""
        self.lives += 1
        again = JOURNAL.name in self.disk.names((self.folder / JOURNAL).parent)
        self.folder.mkdir(parents=True, exist_ok=True)
        opened = AdversaryJournal.open(self.folder, "id", again=again, disk=self.disk)
        played = opened.segments(CODE, self.code)
        results = RunFolder(self.folder, SPEC, run="id", again=again)
        trimmer = JournalTrimmer(opened.file, self.keep) if self.keep else None
        runtime = Telling(Walk(self.kind.history), self.kind.referee(played), results, lambda: 0.0, opened, trimmer)
        said: list[Told] = []
        try:
            if again:
                for entry in opened.replay():
                    runtime.apply_entry(entry)
                    for round in range(1, entry.round + 1) if isinstance(entry, Snapshot) else ():
                        runtime.replay_functions(round)
                    runtime.handle(LowWater(self.low_water))
                said = runtime.finish_recovery()
            work(runtime, said)
        finally:
            runtime.close()

    def die(self, hosts: Hosts, operations: int, written: int = 0) -> bool:
        """Live until that many operations of the journal's disk are done; False where the game was over before."""
        self.disk.die_after(operations, written)
        try:
            self.run(hosts.play)
        except Died:
            return True
        finally:
            self.disk.kill()
        return False

    @property
    def is_cut(self) -> bool:
        """Whether the journal begins with a snapshot, if it begins with anything."""
        with suppress(BadSpec, Diverged):
            return isinstance(next(read(self.folder, disk=self.disk), None), Snapshot)
        return False

    @property
    def entries(self) -> list[Entry]:
        return list(read(self.folder, disk=self.disk))


def outcome(life: Life) -> dict[str, Any]:
    """Return everything that a run leaves behind, but for the time it took."""
    folder = life.folder
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # which row is open when a host tells what it has spent depends on when a life ends; the sums do not
    for row in rows:
        for name in ("frames", "bytes_sent", "bytes_received", "rows_sent", "gossip_bytes", "waited"):
            del row[name]
    with np.load(folder / "decisions.npz") as archive:
        decisions = archive["x"].tobytes()
    values = {}
    for entry in life.entries:
        if isinstance(entry, Purchase):
            key = entry.asked.host, entry.asked.question.round
            assert key not in values
            values[key] = entry.values.f.tobytes() + entry.values.g.tobytes()
    return {
        "summary": json.loads((folder / "summary.json").read_text()),
        "rows": rows,
        "decisions": decisions,
        # whether the round after a stop was bound as well depends on when the stop was heard
        "commitments": (folder / "commitments.csv").read_text().splitlines()[: 1 + len(rows)],
        "values": values,
        "spec": (folder / "spec.toml").read_text(),
        "files": sorted(path.name for path in folder.iterdir()),
    }


def undisturbed(kind: Kind, folder: Path) -> tuple[dict[str, Any], int]:
    """Return what a game without deaths leaves behind, and how many entries its journal has."""
    life = Life(kind, folder)
    life.run(Hosts(kind).play)
    return outcome(life), len(life.entries)


def played_on(life: Life, hosts: Hosts, rounds: int) -> tuple[Life, Hosts]:
    """Return a game that is over with another last round, as `slaternet resume --rounds` leaves it."""
    remove_conclusions(life.folder)
    journal = AdversaryJournal.open(life.folder, "id", disk=life.disk, again=True)
    for _ in journal.replay():
        pass
    journal.append(StopAt(rounds))
    journal.close()
    kind = replace(life.kind, rounds=rounds, stop=0)
    return replace(life, kind=kind, low_water=life.kind.stop or T), replace(hosts, kind=kind)


def lasting(life: Life) -> dict[str, Any]:
    """Return what a game leaves behind that is the same however it came there."""
    left = outcome(life)
    rows = [[row[name] for name in ("round", "loss", "cumulative_violation", "digest")] for row in left["rows"]]
    return {"rows": rows, "digest": left["summary"]["digest"]} | {
        name: left[name] for name in ("decisions", "commitments", "values", "spec", "files")
    }
