"""A host that comes back from a checkpoint says every bit again that it has said before."""

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.agent_games import made

from slaternet.attendance import Attendance
from slaternet.errors import BadSpec, Mismatch, RoundNotOpen
from slaternet.limits import LIMITS, Limits
from slaternet.model import (
    Agents,
    Answer,
    Array,
    Departure,
    Dispute,
    Frame,
    Peer,
    Question,
    Seating,
    StopAt,
    Topology,
    ValueAndGradient,
    Values,
)
from slaternet.numerics.sets import Box
from slaternet_agent.algorithms import Algorithm, AlgorithmGame
from slaternet_agent.algorithms.state_vector import covered
from slaternet_agent.engine.events import (
    Ask,
    Checkpoint,
    Effect,
    Event,
    Finish,
    FrameArrived,
    PeerWants,
    ReportRound,
    Send,
)
from slaternet_agent.engine.host import Host
from slaternet_agent.engine.host_state import restored

N, P, M, T = 5, 2, 2, 11
DEPARTURES = (Departure(4, np.array([2])), Departure(6, np.array([0, 3])), Departure(8, np.array([1])))
ATTENDANCE = Attendance(N, DEPARTURES)
FEW = replace(LIMITS, checkpoint_every=2, window=3, report_every=1)
GAME = AlgorithmGame(N, P, M, T, 5, Box(P, -1.0, 1.0))
ALGORITHMS: dict[str, dict[str, object]] = {
    "zhang2024": {},
    "yi2023": {},
    "yi2023 central": {"mode": "central"},
    "yuan2022": {},
    "yuan2022-full": {},
}


def made_anew(name: str) -> Algorithm:
    return made(name.split()[0], GAME, **ALGORITHMS[name])


@functools.cache
def weights(name: str, t: int, leave: bool = False) -> Array:
    """W_t: everyone with everyone for a central learner, else two random pairs that meet half way, if both play."""
    if "central" in name:
        return np.full((N, N), 1.0 / N)
    order, result = np.random.default_rng(t).permutation(N), np.eye(N)
    for i, j in ((order[0], order[1]), (order[2], order[3])):
        if not leave or {i, j} <= set(ATTENDANCE.players(t).tolist()):
            result[i, i] = result[j, j] = 0.625
            result[i, j] = result[j, i] = 0.375
    return result


def topology(
    name: str, seating: list[Agents], host: int, first: int, last: int, low_water: int, *, leave: bool = False
) -> Topology:
    own, peers = seating[host], [seats for other, seats in enumerate(seating) if other != host]
    if leave:
        own = some if (some := ATTENDANCE.of(own, first)).size else own
    starts, columns, entries, debts = [0], list[int](), list[float](), list[tuple[int, int, int]]()
    for t in range(first, last + 1):
        w = weights(name, t, leave)
        for i in own:
            columns += np.flatnonzero(w[i]).tolist()
            entries += w[i][w[i] > 0].tolist()
            starts.append(len(columns))
        debts += [(t - first, peer, j) for peer, seats in enumerate(peers) for j in own if w[seats, j].any()]
    owed = np.array(debts, dtype=np.intp).reshape(-1, 3)
    return Topology(first, last - first + 1, np.array(starts), np.array(columns), np.array(entries), owed, low_water)


def answer(question: Question) -> Answer:
    """Values that depend on agent, round and point alone, row by row."""
    agents = question.agents
    target = np.sin(7.0 * agents + question.round)[:, None]
    away = question.points - target[:, None]
    g = np.stack((question.points[..., 0] - 0.1, question.points[..., 1]), axis=-1)
    loss = constraint = None
    if question.anchor is not None:
        gap = question.anchor - target
        loss = ValueAndGradient(np.add.reduce(gap * gap, axis=-1), 2.0 * gap) if question.loss_gradient else None
        rows = np.tile(np.eye(M, P), (len(agents), 1, 1))
        constraint = ValueAndGradient(question.anchor[:, :M] - 0.1, rows) if question.constraint_gradient else None
    return Answer(question.round, agents, Values(np.add.reduce(away * away, axis=-1), g, loss, constraint))


def new_host(
    name: str,
    seating: list[Agents],
    host: int,
    since: Checkpoint | None = None,
    *,
    leave: bool = False,
    mark: int = 0,
    limits: Limits = FEW,
) -> Host:
    peers = tuple(Peer(f"host-{i}", "", 1, seats) for i, seats in enumerate(seating) if i != host)
    seated = Seating(seating[host], peers, departures=DEPARTURES if leave else (), low_water=mark)
    return gone_back(made_anew(name), seated, since, durable=True, limits=limits)


def gone_back(
    algorithm: Algorithm, seated: Seating, since: Checkpoint | None, rounds: int | None = T, **options: Any
) -> Host:
    """Return a host that goes on from a checkpoint, if there is one."""
    if since is not None:
        options |= {"since": since.round, "state": restored(algorithm, since.payload, 0)}
    return Host(algorithm, seated, N, rounds, **{"limits": FEW} | options)


@dataclass
class Life:
    """One host: its engine, and what outlives it."""

    host: Host
    disk: dict[int, bytes]
    mark: int = 0  # the newest checkpoint it has told of, in this life
    finished: int = 0
    over: bool = False


class World:
    """Hosts, their disks and all others; whatever is under way arrives in any order, and anyone may die at any time."""

    def __init__(
        self, name: str, seating: list[Agents], chance: random.Random, deaths: int, *, leave: bool = False
    ) -> None:
        self.lives = [Life(new_host(name, seating, i, leave=leave), {}) for i in range(len(seating))]
        self._leave = leave
        self.x = np.full((T, N, P), np.nan)
        self.said: dict[tuple[object, ...], bytes] = {}
        self.origins = set[int]()  # whence someone has come back
        self.mark = 0
        self._name, self._seating, self._chance, self._left = name, seating, chance, deaths
        self._published = 0
        self._under_way: list[tuple[int, Event | Checkpoint]] = []

    def play(self) -> None:
        self._publish()
        while not all(life.over for life in self.lives):
            if self._left and self._chance.random() < 0.05:
                self._die(self._chance.randrange(len(self.lives)))
            assert self._under_way, [life.host.waiting_for for life in self.lives]  # else everyone waits for ever
            to, event = self._under_way.pop(self._chance.randrange(len(self._under_way)))
            if isinstance(event, Checkpoint):
                self._keep(to, event)
            else:
                for effect in self.lives[to].host.handle(event):
                    self._execute(to, effect)
            self._publish()

    def _keep(self, by: int, checkpoint: Checkpoint) -> None:
        if any(
            to == by and isinstance(each, Checkpoint) and each.round < checkpoint.round for to, each in self._under_way
        ):
            self._under_way.append((by, checkpoint))  # they are written in order
            return
        life = self.lives[by]
        assert life.disk.setdefault(checkpoint.round, checkpoint.payload) == checkpoint.payload
        life.mark = max(life.mark, checkpoint.round)

    def _execute(self, by: int, effect: Effect) -> None:
        match effect:
            case Send(peer, frame):
                to = peer + (peer >= by)
                self._same((frame.round, by, to), frame.agents.tobytes() + frame.rows.tobytes())
                self._under_way.append((to, FrameArrived(by - (by > to), frame)))
            case Ask(question):
                self._same((question.round, by), question.x.tobytes() + question.points.tobytes())
                self.x[question.round - 1, question.agents] = question.x
                self._under_way.append((by, answer(question)))
            case ReportRound(round):
                self.lives[by].finished = round
            case Checkpoint():
                self._under_way.append((by, effect))
            case Finish():
                self.lives[by].over = True
                self.lives[by].finished = self.lives[by].host.round - 1

    def _same(self, key: tuple[object, ...], bits: bytes) -> None:
        assert self.said.setdefault(key, bits) == bits, key

    def _publish(self) -> None:
        """Do what the coordinator does."""
        # a host whose agents have all left counts until its last checkpoint is written: it reports its end then
        writing = {to for to, each in self._under_way if isinstance(each, Checkpoint)}
        gone = [
            self._leave and life.over and life.finished < T and i not in writing for i, life in enumerate(self.lives)
        ]
        playing = [life for life, left in zip(self.lives, gone, strict=True) if not left] or self.lives
        self.mark = max(self.mark, min(life.mark for life in playing))
        frontier = min(min(life.finished for life in playing), self.mark + 2 * FEW.checkpoint_every) + FEW.window
        first, self._published = self._published + 1, max(self._published, min(frontier, T))
        for i in range(len(self.lives)):
            self._tell(i, first)

    def _tell(self, i: int, first: int) -> None:
        while first <= self._published:
            last = min(self._published, ATTENDANCE.until(first)) if self._leave else self._published
            news = topology(self._name, self._seating, i, first, last, self.mark, leave=self._leave)
            self._under_way.append((i, news))
            first = last + 1

    def _die(self, i: int) -> None:
        """Let a host die with its streams, maybe before its last checkpoints are written, and come back at once."""
        self._left -= 1
        self.origins.add(self.mark)
        self._under_way = [each for each in self._under_way if each[0] != i and self._survives(i, each)]
        disk, mark = self.lives[i].disk, self.mark
        gone = self._leave and mark >= ATTENDANCE.last(self._seating[i])  # nothing is left to go on from, or with
        since = Checkpoint(mark, disk[mark]) if mark and not gone else None
        host = new_host(self._name, self._seating, i, since, leave=self._leave, mark=mark)
        self.lives[i] = Life(host, disk, mark, host.round - 1, host.finished)
        self._tell(i, mark + 1)
        for other, life in enumerate(self.lives):
            if other != i:
                self._under_way.append((other, PeerWants(i - (i > other), host.wanted)))
                self._under_way.append((i, PeerWants(other - (other > i), life.host.wanted)))

    def _survives(self, dead: int, item: tuple[int, Event | Checkpoint]) -> bool:
        to, event = item
        lost = isinstance(event, FrameArrived) and event.peer == dead - (dead > to)
        return not lost or self._chance.random() < 0.5


@functools.cache
def reference(name: str, leave: bool = False) -> bytes:
    world = World(name, [np.arange(N)], random.Random(0), 0, leave=leave)
    world.play()
    for t in range(1, T + 1):
        players = ATTENDANCE.players(t) if leave else np.arange(N)
        assert np.isfinite(world.x[t - 1]).all(axis=1).tolist() == np.isin(np.arange(N), players).tolist()
    return world.x.tobytes()


SEATINGS = ([np.array([0, 3]), np.array([1, 2, 4])], [np.array([1]), np.array([0, 4]), np.array([2, 3])])


@pytest.mark.parametrize("name", ALGORITHMS)
@given(seating=st.sampled_from(SEATINGS), seed=st.integers(0, 1 << 32), deaths=st.integers(1, 6))
@settings(max_examples=6, deadline=None)
def test_whoever_dies_and_comes_back_plays_the_same_bits(
    name: str, seating: list[Agents], seed: int, deaths: int
) -> None:
    world = World(name, seating, random.Random(seed), deaths)

    world.play()

    assert world.x.tobytes() == reference(name)


@pytest.mark.parametrize("name", ["zhang2024", "yi2023"])
@given(seating=st.sampled_from(SEATINGS), seed=st.integers(0, 1 << 32), deaths=st.integers(0, 6))
@settings(max_examples=8, deadline=None)
def test_agents_leave_and_whoever_dies_comes_back_without_them(
    name: str, seating: list[Agents], seed: int, deaths: int
) -> None:
    world = World(name, seating, random.Random(seed), deaths, leave=True)

    world.play()

    assert world.x.tobytes() == reference(name, leave=True)
    assert [life.host.round - 1 for life in world.lives] == [min(T, ATTENDANCE.last(seats)) for seats in seating]


def test_a_checkpoint_covers_those_who_play_on_and_one_that_does_not_is_refused() -> None:
    world = World("yi2023", SEATINGS[0], random.Random(1), 0, leave=True)
    world.play()
    kept = world.lives[1].disk

    assert {t: covered(payload).tolist() for t, payload in kept.items() if t in (2, 4, 8)} == {
        2: [1, 2, 4],
        4: [1, 4],
        8: [4],
    }
    with pytest.raises(Mismatch, match="the checkpoint of round 4 holds nothing of agent 2, which plays on here"):
        new_host("yi2023", SEATINGS[0], 1, Checkpoint(4, kept[4]))


def test_hosts_die_in_these_worlds_and_come_back_from_later_rounds_than_the_first() -> None:
    origins = set[int]()
    for seed in range(8):
        world = World("zhang2024", SEATINGS[0], random.Random(seed), 6)
        world.play()
        origins |= world.origins
    assert {0, 2, 4} <= origins


# One host, seated alone, so that nothing is waited for


def alone(since: Checkpoint | None = None, **options: Any) -> Host:
    rounds = options.pop("rounds", T)
    return gone_back(made_anew("zhang2024"), Seating(np.arange(N), ()), since, rounds, **options)


def played(host: Host, last: int = T) -> list[Effect]:
    """Play to the end, or as far as the topology goes; return all effects in order."""
    todo = host.handle(topology("zhang2024", [np.arange(N)], 0, host.known + 1, last, 0))
    done: list[Effect] = []
    while todo:
        effect = todo.pop(0)
        done.append(effect)
        if isinstance(effect, Ask):
            todo += host.handle(answer(effect.question))
    return done


def kept(effects: list[Effect]) -> dict[int, bytes]:
    return {each.round: each.payload for each in effects if isinstance(each, Checkpoint)}


def test_a_durable_host_gives_out_a_checkpoint_every_few_rounds_and_after_the_last() -> None:
    effects = played(alone(durable=True))

    assert list(kept(effects)) == [2, 4, 6, 8, 10, 11]
    assert [type(each) for each in effects[-2:]] == [Checkpoint, Finish]


def test_a_host_that_cannot_come_back_gives_out_none() -> None:
    assert kept(played(alone())) == {}


def test_a_stop_at_a_round_already_finished_is_kept_once() -> None:
    host = alone(durable=True, rounds=None)
    assert list(kept(played(host, 7))) == [2, 4, 6]

    assert [type(each) for each in host.handle(StopAt(7))] == [Checkpoint, Finish]
    assert host.handle(StopAt(7)) == [Finish()]


def test_a_host_that_comes_back_to_its_end_has_finished() -> None:
    checkpoint = Checkpoint(T, kept(played(alone(durable=True)))[T])

    host = alone(checkpoint, durable=True)

    assert host.finished
    assert (host.round, host.known, host.wanted) == (T + 1, T, T + 1)
    assert host.handle(StopAt(T)) == [Finish()]


@pytest.mark.parametrize("change", [lambda bits: bits[:-8], lambda bits: bits + bytes(8), lambda bits: b""])
def test_a_checkpoint_of_another_shape_is_refused(change: Callable[[bytes], bytes]) -> None:
    payload = kept(played(alone(durable=True)))[4]

    with pytest.raises(BadSpec, match=r"a checkpoint (holds|of) \d+ bytes (where .* has 128|is no .*); bring back"):
        alone(Checkpoint(4, change(payload)))


def test_a_state_that_cannot_be_kept_is_refused_before_the_first_round() -> None:
    algorithm = made_anew("zhang2024")
    algorithm.start = lambda agents: {"z": np.zeros((N, P))}  # type: ignore[method-assign]

    with pytest.raises(BadSpec, match="a state that is no dataclass"):
        Host(algorithm, Seating(np.arange(N), ()), N, T, durable=True)


def test_a_host_that_has_come_back_takes_frames_of_those_who_are_far_ahead_and_no_further() -> None:
    seating = SEATINGS[0]
    host = new_host("zhang2024", seating, 0, Checkpoint(4, kept(played(alone(durable=True)))[4]))
    furthest = 4 + 2 * FEW.checkpoint_every + FEW.window
    frame = Frame(furthest, np.array([1]), np.zeros((1, P)))

    assert host.handle(FrameArrived(0, frame)) == []
    with pytest.raises(RoundNotOpen):
        host.handle(FrameArrived(0, replace(frame, round=furthest + 1)))
    assert host.handle(FrameArrived(0, replace(frame, round=4))) == []  # nothing of it is kept


def test_a_host_that_has_come_back_offers_what_it_has_played_since_and_nothing_before() -> None:
    seating = SEATINGS[0]
    host = new_host("zhang2024", seating, 0, Checkpoint(4, kept(played(alone(durable=True)))[4]))
    sent = host.handle(topology("zhang2024", seating, 0, 5, T, 4))

    again = host.handle(PeerWants(0, 1))

    assert [(each.frame.round, each.frame.rows.tobytes()) for each in again if isinstance(each, Send)] == [
        (each.frame.round, each.frame.rows.tobytes()) for each in sent if isinstance(each, Send)
    ]


@pytest.mark.parametrize("room", [0, FEW.rows_bytes], ids=["by its hash", "as it is"])
def test_a_row_of_a_round_long_played_is_still_compared(room: int) -> None:
    seating = SEATINGS[0]
    host, other = (new_host("yi2023 central", seating, each, limits=replace(FEW, rows_bytes=room)) for each in range(2))
    sent: list[Frame] = []
    todo: list[tuple[Host, Event]] = [
        (each, topology("yi2023 central", seating, i, 1, T, 0)) for i, each in enumerate((host, other))
    ]
    while todo:
        at, event = todo.pop(0)
        for effect in at.handle(event):
            match effect:
                case Send(_, frame):
                    todo.append((other if at is host else host, FrameArrived(0, frame)))
                    sent += [frame] if at is other else []
                case Ask(question):
                    todo.append((at, answer(question)))
    assert host.finished
    assert any(board.rows.size for board in host._boards.values()) == (room > 0)

    for frame in sent:
        assert host.handle(FrameArrived(0, frame)) == []
        [dispute] = host.handle(FrameArrived(0, replace(frame, rows=np.nextafter(frame.rows, 2.0))))
        assert isinstance(dispute, Dispute)
