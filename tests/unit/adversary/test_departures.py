"""A host is lost, another speaks for its agents or they leave: the run folder ends in the same bits as it should."""

import csv
import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tests.support.adversary_games import Bowls
from tests.support.specs import small_spec
from tests.support.telling import Telling, Told

from slaternet.attendance import FOREVER, Attendance
from slaternet.errors import Diverged, NotYours, RoundNotOpen
from slaternet.limits import Limits
from slaternet.model import Agents, Array, Departure, Finished, LowWater, Question, Usage, ValueAndGradient, Values
from slaternet.numerics.sets import Box
from slaternet.spec import Spec
from slaternet_adversary import Adversary, Game, History
from slaternet_adversary.engine.commitments import Commitments
from slaternet_adversary.engine.events import Asked, Reply, Used
from slaternet_adversary.engine.referee import Referee
from slaternet_adversary.journal.entries import Purchase, SeatingEntry
from slaternet_adversary.journal.journal import AdversaryJournal, read
from slaternet_adversary.journal.query import purchases_of
from slaternet_adversary.shell.run_folder import RunFolder

N, P, M, T = 5, 2, 2, 9
BOX = Box(P, -1.0, 1.0)
SPEC = small_spec(N, P).replace(**{"record.decisions": True, "run.rounds": T})
SEATS = {"a": np.array([0, 2]), "b": np.array([1, 3]), "c": np.array([4])}


class Walk(Adversary):
    """Moves its centres from round to round, and by the decisions that it is told of."""

    constraints = M
    rowwise = True

    def __init__(self, history: int) -> None:
        super().__init__(Game(N, P, 1, BOX))
        self.history = history
        self._rng = np.random.default_rng(7)
        self._centres = np.zeros((N, P))

    def play(self, round: int, past: History | None) -> Bowls:
        self._centres = self._centres / 2 + self._rng.uniform(-0.3, 0.3, (N, P))
        if past is not None and len(past.decisions):
            self._centres = self._centres + past.decisions[-1] / 10 + np.nansum(past.decisions) / 50
        return Bowls(self._centres.copy())


@dataclass
class Host:
    """A host as the adversary sees it: how far it has come in this seating."""

    name: str
    seats: Agents
    entered: int = 0
    finished: int = 0
    closed: bool = False


@dataclass
class World:
    """Hosts and the adversary's processes, one life after the other; what happens next a seed draws."""

    folder: Path
    history: int = 0
    departures: tuple[Departure, ...] = ()
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    def __post_init__(self) -> None:
        self.hosts = {name: Host(name, seats) for name, seats in SEATS.items()}
        self.known: dict[tuple[int, int], bytes] = {}  # what an agent was told in a round
        self.rows: dict[tuple[int, int], tuple[Array, Array, Array]] = {}
        self.mark, self.reached, self.epoch, self.over, self.spans = 0, 1, 1, False, list[int]()
        self.folder.mkdir(parents=True)
        self.open(again=False)

    def open(self, *, again: bool) -> None:
        journal = AdversaryJournal.open(self.folder, "id", again=again)
        referee = Referee(
            N,
            BOX,
            points=2,
            constraints=M,
            rounds=T,
            loss_gradient=True,
            history=self.history,
            commitments=Commitments("0f" * 32, {}, 1),
            limits=Limits(burst=2),
        )
        results = RunFolder(self.folder, SPEC, run="id", again=again)
        self.journal = journal
        self.runtime = Telling(Walk(self.history), referee, results, lambda: 0.0, journal)
        if again:
            for entry in journal.replay():
                self.runtime.apply_entry(entry)
            self.runtime.handle(LowWater(self.mark))
            self.hear(self.runtime.finish_recovery())
        self.seat()

    def seat(self) -> None:
        seats = [(host.name, host.seats) for host in self.hosts.values()]
        self.hear(self.runtime.seat(self.epoch, seats, self.departures))

    def die(self) -> None:
        self.close()
        self.open(again=True)
        for host in self.hosts.values():  # whoever waits asks once more
            if host.entered > host.finished:
                self.hear(self.runtime.handle(Asked(host.name, self.question(host, host.entered))))

    def playing(self, host: Host, t: int) -> Agents:
        return Attendance(N, self.departures).of(host.seats, t)

    def question(self, host: Host, t: int) -> Question:
        agents = self.playing(host, t)
        x = np.array([self.decision(int(i), t) for i in agents])
        return Question(t, agents, x, np.stack((x, x + 0.1), axis=1), x / 2, True)

    def decision(self, agent: int, t: int) -> Array:
        """Return what an agent decides, from all that it was told before."""
        x = np.zeros(P)
        for before in range(1, t):
            f, g, slope = self.rows[agent, before]
            x = x / 2 + np.tanh(f[0] - f[1] + g.sum(axis=0)) / 4 - slope / 8
        return x

    def hear(self, out: list[Told]) -> None:
        for effect in out:
            if isinstance(effect, Reply):
                self.take(effect)
            self.over |= isinstance(effect, Finished)

    def take(self, reply: Reply) -> None:
        host, answer = self.hosts[reply.host], reply.answer
        assert answer.round == host.entered == host.finished + 1, "nobody is told what he has not asked"
        assert answer.agents.tolist() == self.playing(host, answer.round).tolist()
        assert answer.values.loss is not None
        host.finished = answer.round
        for row, i in enumerate(answer.agents.tolist()):
            told = answer.values.f[row], answer.values.g[row], answer.values.loss.gradient[row]
            bits = b"".join(each.tobytes() for each in told) + answer.values.loss.value[row].tobytes()
            assert self.known.setdefault((i, answer.round), bits) == bits
            self.rows[i, answer.round] = told

    def step(self) -> None:
        """Let one host do what it does next, or the adversary a piece of its work."""
        able = [host for host in self.hosts.values() if host.entered == host.finished and not host.closed]
        choice = self.chance.randrange(len(able) + (not self.runtime.idle))
        if choice == len(able):
            self.hear(self.runtime.work())
            return
        host = able[choice]
        last = min(T, Attendance(N, self.departures).last(host.seats))
        if host.finished == last:
            host.closed = True
            self.hear(self.runtime.handle(Used(host.name, 1, Usage(last, 9, 99, 9, 0.5))))
        elif host.entered + 1 <= min(each.finished for each in self.hosts.values() if not each.closed) + 3:
            host.entered += 1
            self.hear(self.runtime.handle(Asked(host.name, self.question(host, host.entered))))

    def play(self, deaths: float = 0.0) -> None:
        while not self.over:
            self.step()
            if self.chance.random() < deaths:
                self.die()
        self.close()

    def close(self) -> None:
        self.runtime.close()
        self.journal.close()

    def lose(self, name: str, adopter: str, *, leave: bool) -> None:
        """Give a host up: its agents go to another, which may be new, and everyone plays again from a mark."""
        lost = self.hosts.pop(name)
        self.mark = self.chance.randint(self.mark, min(lost.finished, *(h.finished for h in self.hosts.values())))
        self.reached = max(self.reached, *(host.entered for host in self.hosts.values()))
        end = 1 + self.reached  # nobody in the seats that stay has entered it, now or before
        self.spans.append(lost.entered - end)
        host = self.hosts.setdefault(adopter, Host(adopter, np.empty(0, np.intp)))
        host.seats = np.union1d(host.seats, lost.seats)
        if leave and end <= T:
            ends = Attendance(N, self.departures).ends
            ends[lost.seats] = np.minimum(ends[lost.seats], end)
            rounds = np.unique(ends[ends < FOREVER]).tolist()
            self.departures = tuple(Departure(each, np.flatnonzero(ends == each)) for each in rounds)
        self.epoch += 1
        self.runtime.handle(LowWater(self.mark))
        self.seat()
        for each in self.hosts.values():
            last = Attendance(N, self.departures).last(each.seats)
            each.entered = each.finished = min(self.mark, last)
            each.closed = False


def outcome(folder: Path) -> dict[str, object]:
    """Return what a run leaves behind, but for what it has cost."""
    with (folder / "metrics.csv").open() as file:
        passing = {"frames", "bytes_sent", "bytes_received", "rows_sent", "gossip_bytes", "waited", "skew", "seconds"}
        rows = [{key: cell for key, cell in row.items() if key not in passing} for row in csv.DictReader(file)]
    with np.load(folder / "decisions.npz") as archive:
        x = archive["x"]
    summary = json.loads((folder / "summary.json").read_text())
    keys = ("digest", "cumulative_loss", "cumulative_violation", "zero_loss", "rounds", "departures")
    return {
        "rows": rows,
        "x": x.tobytes(),
        "summary": {key: summary[key] for key in keys},
        "commitments": (folder / "commitments.csv").read_text(),
        "spec": Spec.parse((folder / "spec.toml").read_text(), source="run"),
    }


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the disk: only the process dies here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def reference(folder: Path, history: int, departures: tuple[Departure, ...]) -> dict[str, object]:
    world = World(folder, history, departures)
    world.play()
    return outcome(folder)


@pytest.mark.parametrize("history", [0, 2])
@pytest.mark.parametrize("leave", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_game_in_which_hosts_are_lost_is_the_game_with_their_departures(
    seed: int, leave: bool, history: int, tmp_path: Path
) -> None:
    world = World(tmp_path / "run", history, chance=random.Random(seed))
    first, second = world.chance.sample([15, 30, 45, 60, 75], 2)
    for count in range(1, max(first, second) + 1):
        if not world.over:
            world.step()
        if count == first and not world.over:
            world.lose("b", world.chance.choice(["a", "c", "d"]), leave=leave)
        if count == second and not world.over and len(world.hosts) > 1:
            others = [name for name in world.hosts if name != "a"]
            world.lose("a", world.chance.choice([*others, "e"]), leave=leave)
        if world.chance.random() < 0.1 and not world.over:
            world.die()
    world.play(deaths=0.05)

    expected = reference(tmp_path / "reference", history, world.departures)
    assert outcome(tmp_path / "run") == expected
    bought = [(i, p.asked.question.round) for p in entries(world) for i in p.asked.question.agents.tolist()]
    assert len(set(bought)) == len(bought)  # nobody buys twice


def entries(world: World) -> list[Purchase]:
    return [entry for entry in read(world.folder) if isinstance(entry, Purchase)]


def test_hosts_are_lost_in_these_worlds_before_and_after_others_and_agents_leave(tmp_path: Path) -> None:
    ahead, departed = set[bool](), 0
    for seed in range(6):
        world = World(tmp_path / str(seed), chance=random.Random(seed))
        for _ in range(25):
            world.step()
        world.lose("b", "c", leave=True)
        ahead.add(world.spans[0] >= 0)  # it has asked about rounds that its agents do not play in the end
        departed += len(world.departures)
        world.play()
    assert ahead == {True, False}
    assert departed == 6


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Begin a game."""
    world = World(tmp_path / "run", chance=random.Random(4))
    for _ in range(35):
        world.step()
    yield world
    world.close()


def test_rounds_from_a_departure_on_are_those_of_the_agents_that_stay(tmp_path: Path) -> None:
    departures = (Departure(4, np.array([1, 3])), Departure(6, np.array([4])))
    found = reference(tmp_path / "run", 0, departures)

    with np.load(tmp_path / "run" / "decisions.npz") as archive:
        x = archive["x"]
    assert np.isnan(x[:, :, 0]).tolist() == [
        [t >= {1: 4, 3: 4, 4: 6}.get(i, T + 1) for i in range(N)] for t in range(1, T + 1)
    ]
    rows = found["rows"]
    assert isinstance(rows, list)
    assert [int(row["agents"]) for row in rows] == [5, 5, 5, 3, 3, 2, 2, 2, 2]
    plugin = Walk(0)
    for t in range(1, T + 1):
        bowls, stay = plugin.play(t, None), np.flatnonzero(~np.isnan(x[t - 1, :, 0]))
        here = x[t - 1, stay]
        losses = [np.mean([((v - bowls.centres[j]) ** 2).sum() / 2 for j in stay]) for v in here]
        excess = [np.linalg.norm(np.maximum([v - bowls.centres[j] for j in stay], 0.0)) for v in here]
        away = np.linalg.norm(here - here.mean(axis=0), axis=1)
        assert float(rows[t - 1]["loss"]) == pytest.approx(np.mean(losses), rel=1e-12)
        assert float(rows[t - 1]["violation"]) == pytest.approx(np.mean(excess), rel=1e-12)
        assert float(rows[t - 1]["disagreement"]) == pytest.approx(away.mean(), rel=1e-12)
    spec = found["spec"]
    assert isinstance(spec, Spec)
    assert [(each.round, each.agents) for each in spec.departures] == [(4, [1, 3]), (6, [4])]


def test_who_is_lost_or_has_left_is_not_heard(world: World) -> None:
    lost = world.hosts["b"]
    world.lose("b", "c", leave=True)
    (gone,) = world.departures

    with pytest.raises(NotYours):
        world.runtime.handle(Asked("b", world.question(Host("b", lost.seats), 1)))
    with pytest.raises(NotYours):
        world.runtime.handle(Used("b", 1, Usage(1)))
    for t in range(1, gone.round):
        for i in lost.seats.tolist():
            world.rows.setdefault((i, t), (np.zeros(2), np.zeros((2, M)), np.zeros(P)))
    while world.hosts["c"].finished < gone.round - 1:
        world.step()
    x = np.zeros((3, P))
    late = Question(gone.round, world.hosts["c"].seats, x, np.stack((x, x), axis=1), x, True)
    with pytest.raises(RoundNotOpen):
        world.runtime.handle(Asked("c", late))


def test_what_is_said_of_a_seating_once_more_must_be_the_same_and_an_older_one_is_passed_over(world: World) -> None:
    world.lose("b", "c", leave=True)
    seats = [(host.name, host.seats) for host in world.hosts.values()]

    assert world.runtime.seat(1, SEATS.items()) == []
    assert world.runtime.seat(2, seats, world.departures) == []
    with pytest.raises(Diverged, match="the coordinator seats b otherwise than the journal says"):
        world.runtime.seat(2, [*seats, ("b", np.array([1]))], world.departures)
    with pytest.raises(Diverged, match="the coordinator has other agents leave than the journal says"):
        world.runtime.seat(2, seats)
    told = [entry for entry in read(world.folder) if isinstance(entry, SeatingEntry)]
    assert [(entry.epoch, len(entry.hosts), len(entry.departures)) for entry in told] == [(1, 3, 0), (2, 2, 1)]


# What some agents have asked and seen


def whole(world: World, agents: list[int], t: int) -> tuple[bytes, ...]:
    """Return what the journal has of agents in a round, put together by hand."""
    rows: dict[int, tuple[Array, ...]] = {}
    for purchase in entries(world):
        asked, seen = purchase.asked.question, purchase.values
        for row, i in enumerate(asked.agents.tolist()):
            if asked.round == t and i in agents:
                assert asked.anchor is not None
                rows[i] = (asked.x[row], asked.points[row], asked.anchor[row], *numbers(seen, row))
    return tuple(b"".join(each.tobytes() for each in rows[i]) for i in sorted(agents))


def numbers(seen: Values, row: int) -> tuple[Array, ...]:
    assert seen.loss is not None
    return seen.f[row], seen.g[row], seen.loss.value[row : row + 1], seen.loss.gradient[row]


@pytest.mark.parametrize("agents", [[1, 3], [0, 1, 4], [2], [0, 1, 2, 3, 4]])
def test_what_agents_have_asked_and_seen_comes_back_round_by_round(agents: list[int], world: World) -> None:
    world.lose("b", "a", leave=False)
    while not world.over:
        world.step()

    found = list(purchases_of(world.folder, np.array(agents), 2, T))

    assert [question.round for question, _ in found] == list(range(2, T + 1))
    for question, answer in found:
        assert question.agents.tolist() == answer.agents.tolist() == agents
        assert (question.loss_gradient, question.constraint_gradient) == (True, False)
        assert isinstance(answer.values.loss, ValueAndGradient)
        assert question.anchor is not None
        parts = (
            question.x,
            question.points,
            question.anchor,
            answer.values.f,
            answer.values.g,
            answer.values.loss.value[:, None],
            answer.values.loss.gradient,
        )
        bits = tuple(b"".join(part[row].tobytes() for part in parts) for row in range(len(agents)))
        assert bits == whole(world, agents, question.round)


def test_what_is_not_in_the_journal_cannot_be_recalled_and_what_is_not_wanted_is_not_read(world: World) -> None:
    fewest = min(host.finished for host in world.hosts.values())
    assert fewest > 0
    assert len(list(purchases_of(world.folder, np.arange(N), 1, fewest))) == fewest
    assert list(purchases_of(world.folder, np.arange(N), 1, 0)) == []

    with pytest.raises(Diverged, match=r"lacks values of round \d"):
        list(purchases_of(world.folder, np.arange(N), 1, T))
