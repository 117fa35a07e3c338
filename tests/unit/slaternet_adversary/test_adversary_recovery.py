"""Whenever the adversary dies, its next life goes on from the journal, and the run folder ends in the same bits."""

import csv
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulation.disk import Died, SimDisk
from small_specs import small_spec

from slaternet.errors import BadSpec, Diverged
from slaternet.limits import Limits
from slaternet.model import Agents, Answer, Array, Closing, Effort, LowWater, Question, StopAt
from slaternet.sets import Box
from slaternet_adversary import Adversary, Game, History
from slaternet_adversary.chronicle import JOURNAL, Chronicle, Entry, Purchase, Seats, read
from slaternet_adversary.commitments import Commitments
from slaternet_adversary.referee import Asked, Closed, Commit, Referee, Reply, Scored, Summarise
from slaternet_adversary.results import Results, retract
from slaternet_adversary.runtime import Outward, Runtime

N, P, M, T = 3, 2, 2, 4
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

    def referee(self) -> Referee:
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
            commitments=Commitments("0f" * 32, {}, 1),
            limits=Limits(burst=self.burst),
        )


KINDS = {
    "oblivious": Kind(),
    "adaptive": Kind(history=2, gradients=(True, True)),
    "scored at times": Kind(score_every=3, burst=16),
    "stopped": Kind(rounds=None, stop=4, history=1, gradients=(False, True)),
    "stopped within a burst": Kind(rounds=None, stop=3, burst=4),
}


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the real disk: only the process dies here, and the journal stands on another."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@dataclass
class Hosts:
    """Hosts that live longer than the adversary: whatever they were not told they ask for again, in the same words."""

    kind: Kind
    answers: dict[str, list[Answer]] = field(default_factory=lambda: {host: [] for host in SEATS})

    def question(self, host: str) -> Question:
        """Return what a host asks next; every value it has been told is in it."""
        t, agents = len(self.answers[host]) + 1, SEATS[host]
        x = np.zeros((len(agents), P))
        for answer in self.answers[host]:
            x = x / 2 + np.tanh(answer.f[:, :1] - answer.f[:, 1:] + answer.g.sum(axis=1)) / 4
            if answer.loss is not None:
                x = x - answer.loss.gradient / 8 + answer.loss.value[:, None] / 16
            if answer.constraint is not None:
                x = x - answer.constraint.value / 8
        loss, constraint = self.kind.gradients
        anchor = x / 2 if loss or constraint else None
        effort = Effort(t - 1, 10 * t, 0.25 * t, 20 * t) if t > 1 else Effort()
        return Question(t, agents, x, np.stack((x, x + 0.1), axis=1), effort, anchor, loss, constraint)

    def hear(self, out: list[Outward]) -> bool:
        """Take what the adversary says; True when the game is over."""
        for effect in out:
            if isinstance(effect, Reply):
                assert effect.answer.round == len(self.answers[effect.host]) + 1
                self.answers[effect.host].append(effect.answer)
        return any(isinstance(effect, Summarise) for effect in out)

    def play(self, runtime: Runtime, said: list[Outward]) -> None:
        """Play to the end; the adversary does a piece of its work after every question."""
        over = self.hear(said + runtime.seat(SEATS.items()))
        while not over:
            for host in SEATS:
                over |= self.hear(runtime.handle(self._next(host)))
                over |= not runtime.idle and self.hear(runtime.work())
            if self.kind.stop and len(self.answers["a"]) >= 2:
                over |= self.hear(runtime.handle(StopAt(self.kind.stop)))  # said again and again

    def _next(self, host: str) -> Asked | Closed:
        last = self.kind.stop or self.kind.rounds
        if len(self.answers[host]) == last:
            return Closed(host, Closing(Effort(9, 99, 0.5, 999)))
        return Asked(host, self.question(host))


@dataclass
class Life:
    """The adversary's processes, one after the other, on one disk."""

    kind: Kind
    folder: Path
    disk: SimDisk = field(default_factory=SimDisk)
    lives: int = 0
    low_water: int = 0

    def run(self, work: Callable[[Runtime, list[Outward]], None]) -> None:
        """Live once: go on from the journal where there is one, then do the work."""
        self.lives += 1
        again = JOURNAL.name in self.disk.names((self.folder / JOURNAL).parent)
        self.folder.mkdir(parents=True, exist_ok=True)
        opened = (Chronicle.resume if again else Chronicle.begin)(self.folder, "id", disk=self.disk)
        results = Results(self.folder, SPEC, run="id", again=again)
        runtime = Runtime(Walk(self.kind.history), self.kind.referee(), results, lambda: 0.0, opened)
        said: list[Outward] = []
        try:
            if again:
                for entry in opened.replay():
                    runtime.redo(entry)
                    runtime.handle(LowWater(self.low_water))
                said = runtime.recovered()
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
    def entries(self) -> list[Entry]:
        return list(read(self.folder, disk=self.disk))


def outcome(life: Life) -> dict[str, Any]:
    """Return everything that a run leaves behind, but for the time it took."""
    folder = life.folder
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with np.load(folder / "decisions.npz") as archive:
        decisions = archive["x"].tobytes()
    values = {}
    for entry in life.entries:
        if isinstance(entry, Purchase):
            key = entry.asked.host, entry.values.round
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


@pytest.mark.parametrize("name", KINDS)
def test_a_death_after_any_entry_changes_nothing(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    expected, entries = undisturbed(kind, tmp_path / "reference")
    assert len(expected["rows"]) == (kind.stop or T)

    for death in itertools.count():
        life, hosts = Life(kind, tmp_path / f"{death}"), Hosts(kind)
        if not life.die(hosts, death, written=death * 7):
            break
        life.low_water = min(map(len, hosts.answers.values()))
        life.run(hosts.play)
        assert outcome(life) == expected, f"death at operation {death}"
    assert death > entries


@pytest.mark.parametrize("name", KINDS)
def test_a_process_that_dies_again_and_again_gets_there(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    expected, _ = undisturbed(kind, tmp_path / "reference")

    life, hosts = Life(kind, tmp_path / "run"), Hosts(kind)
    while life.die(hosts, 6, written=30):
        pass

    assert life.lives > 3
    assert outcome(life) == expected


# What a crash may leave, and what it may not


def played_on(life: Life, hosts: Hosts, rounds: int) -> tuple[Life, Hosts]:
    """Return a game that is over with another last round, as `slaternet resume --rounds` leaves it."""
    retract(life.folder)
    journal = Chronicle.resume(life.folder, "id", disk=life.disk)
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


@pytest.mark.parametrize("name", KINDS)
def test_a_game_that_is_over_is_played_on_and_on_as_if_it_had_been_longer(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    longer = Life(replace(kind, rounds=9, stop=0), tmp_path / "reference")
    longer.run(Hosts(longer.kind).play)
    expected = lasting(longer)
    assert len(expected["rows"]) == 9

    for death in itertools.count():
        life, hosts = Life(kind, tmp_path / f"{death}"), Hosts(kind)
        life.run(hosts.play)
        life, hosts = played_on(life, hosts, 6)
        cut_short = life.die(hosts, death)
        life.run(hosts.play)
        life, hosts = played_on(life, hosts, 9)
        life.run(hosts.play)
        assert lasting(life) == expected, f"death at operation {death}"
        if not cut_short:
            break
    assert death > 2 * len(SEATS)


def died(tmp_path: Path, operations: int = 18) -> tuple[Life, Hosts]:
    """Return a game whose adversary has died with some rounds recorded."""
    life, hosts = Life(Kind(), tmp_path / "run"), Hosts(Kind())
    assert life.die(hosts, operations)
    assert 2 <= len((life.folder / "metrics.csv").read_text().splitlines()) - 1 < T
    return life, hosts


def tear(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


def run_ahead(file: Path) -> None:
    file.write_text(file.read_text() + "3,1.0\n4,1.0\n")  # a loss of power has taken what the journal said of them


def begin_again(file: Path) -> None:
    file.write_text("round,lo")


CRASHES = [(crash, name) for crash in (tear, begin_again, Path.unlink) for name in ("metrics.csv", "commitments.csv")]


@pytest.mark.parametrize(
    ("happen", "name"), [*CRASHES, (run_ahead, "metrics.csv"), (tear, "decisions.f64"), (Path.unlink, "spec.toml")]
)
def test_what_a_crash_does_to_a_file_is_mended(happen: Callable[[Path], None], name: str, tmp_path: Path) -> None:
    expected, _ = undisturbed(Kind(), tmp_path / "reference")
    life, hosts = died(tmp_path)
    happen(life.folder / name)

    life.run(hosts.play)

    assert outcome(life) == expected


def test_rows_that_stand_keep_the_time_they_were_written_at(tmp_path: Path) -> None:
    life, hosts = died(tmp_path)
    file = life.folder / "metrics.csv"
    file.write_text(file.read_text().replace(",0.000000,", ",8.250000,"))
    before = file.read_text()

    life.run(hosts.play)

    assert file.read_text().startswith(before)


def test_a_row_that_says_something_else_stops_the_run(tmp_path: Path) -> None:
    life, hosts = died(tmp_path)
    file = life.folder / "metrics.csv"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join((lines[0], lines[1].replace("0.", "1.", 1), *lines[2:])))

    with pytest.raises(Diverged, match=r"metrics.csv has another row where the journal gives 1,0\."):
        life.run(hosts.play)


def test_another_plugin_stops_the_run_and_the_first_round_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, hosts = died(tmp_path)
    monkeypatch.setattr(Commitments, "of", lambda self, t, digest=b"": f"{t:064x}")

    with pytest.raises(Diverged, match="the commitment of round 1 is not the one in the journal"):
        life.run(hosts.play)


def test_another_seating_stops_the_run(tmp_path: Path) -> None:
    life, _ = died(tmp_path)

    with pytest.raises(Diverged, match="the coordinator seats a, c otherwise than the journal says"):
        life.run(lambda runtime, _: Hosts(Kind()).play(runtime, runtime.seat([("c", SEATS["a"]), ("b", SEATS["b"])])))


def test_the_journal_of_another_game_is_refused(tmp_path: Path) -> None:
    life, _ = died(tmp_path)

    with pytest.raises(BadSpec, match="says run 'id' where 'another' is expected"):
        Chronicle.resume(life.folder, "another", disk=life.disk)


def test_a_run_that_is_complete_is_left_alone_and_still_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, hosts = Life(Kind(), tmp_path / "run"), Hosts(Kind())
    life.run(hosts.play)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in life.folder.iterdir()}
    monkeypatch.setattr(Walk, "play", None)  # nobody will ask for functions

    def ask_again(runtime: Runtime, said: list[Outward]) -> None:
        (end,) = said
        assert isinstance(end, Summarise)
        last = {host: answers.pop() for host, answers in hosts.answers.items()}
        for host, answer in last.items():
            (reply,) = runtime.handle(Asked(host, hosts.question(host)))
            assert isinstance(reply, Reply)
            assert reply.answer.f.tobytes() == answer.f.tobytes()

    life.run(ask_again)

    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in life.folder.iterdir()} == before


def test_a_summary_that_the_journal_does_not_give_stops_the_run(tmp_path: Path) -> None:
    life, hosts = Life(Kind(), tmp_path / "run"), Hosts(Kind())
    life.run(hosts.play)
    (life.folder / "summary.json").write_text('{"digest": "00"}')
    with pytest.raises(Diverged, match=r"summary\.json has not the digest that the journal gives"):
        life.run(hosts.play)

    other, hosts = died(tmp_path / "other")
    (other.folder / "summary.json").write_text("{}")
    with pytest.raises(Diverged, match="has a summary, and its journal ends in round 2"):
        other.run(hosts.play)


def test_nothing_is_revealed_before_it_is_bound_and_nothing_said_twice_is_written_twice(tmp_path: Path) -> None:
    kind = KINDS["stopped"]
    life, hosts = Life(kind, tmp_path / "run"), Hosts(kind)
    while life.die(hosts, 7):
        pass

    bound: Counter[int] = Counter()
    for entry in life.entries:
        match entry:
            case Commit(round, commitments):
                bound.update(range(round, round + len(commitments)))
            case Purchase(asked):
                assert bound[asked.question.round] == 1
    assert set(bound.values()) == {1}
    kinds = Counter(type(entry) for entry in life.entries)
    assert kinds == {Seats: 1, Commit: 4, Purchase: 8, Scored: 4, Closed: 2, StopAt: 1}
