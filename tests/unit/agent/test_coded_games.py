"""A game in a gossip code: any seating, order and death plays the bits of one host, and copies agree everywhere."""

import functools
import random
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tests.support.agent_games import made
from tests.support.gossip_codes import SECTIONS, rule_of

from slaternet.attendance import Attendance
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import (
    Agents,
    Answer,
    Array,
    CodedFrame,
    Departure,
    Dispute,
    DisputedRows,
    Frame,
    Peer,
    Question,
    Seating,
    Topology,
    Values,
)
from slaternet.numerics.sets import Box
from slaternet_agent.algorithms import AlgorithmGame
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
from slaternet_agent.engine.host_state import restored, saved
from slaternet_agent.engine.public_copies import PeerCopies
from slaternet_agent.engine.rebuild import StateRebuild

N, P, T = 6, 3, 13
EVERYONE = np.arange(N)
FEW = replace(LIMITS, checkpoint_every=3, window=4, report_every=1)
GAME = AlgorithmGame(N, P, 2, T, 5, Box(P, -1.0, 2.0))
DEPARTURES = (Departure(4, np.array([2])), Departure(7, np.array([0, 3])))
ATTENDANCE = Attendance(N, DEPARTURES)
SEATINGS = ([np.array([0, 3]), np.array([1, 2, 4, 5])], [np.array([1]), np.array([0, 4]), np.array([2, 3, 5])])


@functools.cache
def weights(t: int, leave: bool) -> Array:
    """W_t: two random pairs of those that play meet half way."""
    order, result = np.random.default_rng(t).permutation(N), np.eye(N)
    playing = set(ATTENDANCE.players(t).tolist()) if leave else set(range(N))
    for i, j in ((order[0], order[1]), (order[2], order[3])):
        if {i, j} <= playing:
            result[i, i] = result[j, j] = 0.625
            result[i, j] = result[j, i] = 0.375
    return result


def answer(question: Question) -> Answer:
    """Values that depend on agent, round and point alone."""
    away = question.points - np.sin(7.0 * question.agents + question.round)[:, None, None]
    g = np.stack((question.points[..., 0] - 0.1, question.points[..., 1]), axis=-1)
    return Answer(question.round, question.agents, Values(np.add.reduce(away * away, axis=-1), g))


@dataclass
class Life:
    """One host: its engine, and what outlives it."""

    host: Host
    disk: dict[int, bytes]
    mark: int = 0
    finished: int = 0
    over: bool = False


class World:
    """Hosts in a game with a code. What is under way arrives in any order, but on a stream in that of its sending."""

    def __init__(
        self, code: str, seating: list[Agents], chance: random.Random, deaths: int = 0, *, leave: bool = False
    ) -> None:
        self._code, self._seating, self._chance, self._left, self._leave = code, seating, chance, deaths, leave
        self.lives = [Life(self._host(i), {}) for i in range(len(seating))]
        self.x = np.full((T, N, P), np.nan)
        self.sent: dict[tuple[object, ...], bytes] = {}
        self.journal: dict[tuple[int, int], tuple[Question, Answer]] = {}  # by host and round
        self.full = 0  # frames of copies as they are
        self.mark = 0
        self._down = set[tuple[int, int]]()  # from whom to whom frames are dropped: a stream has broken
        self._published = 0
        self._under_way: list[tuple[int, Event | Checkpoint]] = []

    def _host(self, i: int, since: int = 0, payload: bytes = b"") -> Host:
        algorithm = made("zhang2024", GAME)
        rule = rule_of(self._code, algorithm, GAME)
        peers = tuple(Peer(f"host-{j}", "", 1, seats) for j, seats in enumerate(self._seating) if j != i)
        seating = Seating(self._seating[i], peers, departures=DEPARTURES if self._leave else (), low_water=since)
        state = restored(algorithm, payload, rule.width) if payload else None
        return Host(algorithm, seating, N, T, FEW, durable=True, since=since, state=state, copies=rule)

    def play(self) -> None:
        self._publish()
        while not all(life.over for life in self.lives):
            if self._left and self._chance.random() < 0.05:
                self._die(self._chance.randrange(len(self.lives)))
            assert self._under_way, [life.host.waiting_for for life in self.lives]
            to, event = self._next()
            if isinstance(event, Checkpoint):
                life = self.lives[to]
                assert life.disk.setdefault(event.round, event.payload) == event.payload
                life.mark = max(life.mark, event.round)
            else:
                if isinstance(event, PeerWants):
                    self._down.discard((to, event.peer + (event.peer >= to)))
                for effect in self.lives[to].host.handle(event):
                    self._execute(to, effect)
            self._publish()

    def _next(self) -> tuple[int, Event | Checkpoint]:
        drawn = self._under_way[self._chance.randrange(len(self._under_way))]
        first = next(each for each in self._under_way if self._stream(each) == self._stream(drawn))
        self._under_way.remove(first)
        return first

    def _stream(self, item: tuple[int, Event | Checkpoint]) -> object:
        """Return the stream of an event; what is no message of a peer comes in any order, checkpoints in theirs."""
        to, event = item
        if isinstance(event, FrameArrived | PeerWants):
            return to, event.peer
        return (to, "disk") if isinstance(event, Checkpoint) else id(event)

    def _execute(self, by: int, effect: Effect) -> None:
        match effect:
            case Send(peer, frame):
                to = peer + (peer >= by)
                if (by, to) in self._down:
                    return
                if isinstance(frame, Frame):
                    self.full += 1
                    bits: tuple[object, ...] = ("full", *frame.agents.tolist()), frame.rows.tobytes()
                else:
                    sent = b"" if frame.sent is None else frame.sent.tobytes()
                    parts = frame.symbols.scales.tobytes(), frame.symbols.numbers.tobytes()
                    bits = "coded", frame.agents.tobytes() + sent + b"".join(parts)
                assert self.sent.setdefault((frame.round, by, to, bits[0]), bits[1]) == bits[1]  # type: ignore[arg-type]
                self._under_way.append((to, FrameArrived(by - (by > to), frame)))
            case Ask(question):
                self.x[question.round - 1, question.agents] = question.x
                values = answer(question)
                self.journal[by, question.round] = question, values
                self._under_way.append((by, values))
            case ReportRound(round):
                self.lives[by].finished = round
            case Checkpoint():
                self._under_way.append((by, effect))
            case Finish():
                self.lives[by].over = True
                self.lives[by].finished = self.lives[by].host.round - 1

    def _publish(self) -> None:
        """Do what the coordinator does."""
        writing = {to for to, each in self._under_way if isinstance(each, Checkpoint)}
        playing = [
            life
            for i, life in enumerate(self.lives)
            if not (self._leave and life.over and life.finished < T and i not in writing)
        ] or self.lives
        self.mark = max(self.mark, min(life.mark for life in playing))
        frontier = min(min(life.finished for life in playing), self.mark + 2 * FEW.checkpoint_every) + FEW.window
        first, self._published = self._published + 1, max(self._published, min(frontier, T))
        for i in range(len(self.lives)):
            self._tell(i, first)

    def _tell(self, i: int, first: int) -> None:
        while first <= self._published:
            last = min(self._published, ATTENDANCE.until(first)) if self._leave else self._published
            self._under_way.append((i, self._topology(i, first, last)))
            first = last + 1

    def _topology(self, host: int, first: int, last: int) -> Topology:
        """Return the rows of W_t; debts by what is mixed or, for a code that remembers, of everybody, once."""
        own = self._seating[host]
        if self._leave:
            own = some if (some := ATTENDANCE.of(own, first)).size else own
        peers = [seats for other, seats in enumerate(self._seating) if other != host]
        starts, columns, entries, debts = [0], list[int](), list[float](), list[tuple[int, int, int]]()
        for t in range(first, last + 1):
            w = weights(t, self._leave)
            for i in own:
                columns += np.flatnonzero(w[i]).tolist()
                entries += w[i][w[i] > 0].tolist()
                starts.append(len(columns))
            if SECTIONS[self._code].remembers:
                debts += [(0, peer, j) for peer in range(len(peers)) for j in own] if t == first else []
            else:
                debts += [(t - first, peer, j) for peer, seats in enumerate(peers) for j in own if w[seats, j].any()]
        owed = np.array(debts, dtype=np.intp).reshape(-1, 3)
        arrays = np.array(starts), np.array(columns), np.array(entries), owed
        return Topology(first, last - first + 1, *arrays, self.mark)

    def _die(self, i: int) -> None:
        """Let a host die with its streams, perhaps before its last checkpoints are written, and come back at once."""
        self._left -= 1
        lost = set[object]()
        kept = []
        for item in self._under_way:
            to, event = item
            if to == i:
                continue
            broken = isinstance(event, FrameArrived | PeerWants) and event.peer == i - (i > to)
            if broken and (to in lost or isinstance(event, PeerWants) or self._chance.random() < 0.3):
                lost.add(to)  # of a stream that breaks the beginning may still arrive
            else:
                kept.append(item)
        self._under_way = kept
        disk, mark = self.lives[i].disk, self.mark
        gone = self._leave and mark >= ATTENDANCE.last(self._seating[i])
        host = self._host(i, mark, disk[mark] if mark and not gone else b"")
        self.lives[i] = Life(host, disk, mark, host.round - 1, host.finished)
        self._tell(i, mark + 1)
        for other, life in enumerate(self.lives):
            if other != i:
                self._down |= {(i, other), (other, i)}
                self._under_way.append((other, PeerWants(i - (i > other), host.wanted)))
                self._under_way.append((i, PeerWants(other - (other > i), life.host.wanted)))


@functools.cache
def reference(code: str, leave: bool = False) -> bytes:
    world = World(code, [EVERYONE], random.Random(0), leave=leave)
    world.play()
    return world.x.tobytes()


@pytest.mark.parametrize("code", SECTIONS)
@given(seating=st.sampled_from(SEATINGS), seed=st.integers(0, 1 << 32), deaths=st.integers(0, 5))
@settings(max_examples=8, deadline=None)
def test_any_seating_order_and_death_plays_the_bits_of_one_host(
    code: str, seating: list[Agents], seed: int, deaths: int
) -> None:
    world = World(code, seating, random.Random(seed), deaths)

    world.play()

    assert world.x.tobytes() == reference(code)
    assert world.full == 0 or SECTIONS[code].remembers


@pytest.mark.parametrize("code", SECTIONS)
@given(seating=st.sampled_from(SEATINGS), seed=st.integers(0, 1 << 32), deaths=st.integers(0, 5))
@settings(max_examples=5, deadline=None)
def test_agents_leave_a_coded_game_and_the_others_play_on(
    code: str, seating: list[Agents], seed: int, deaths: int
) -> None:
    world = World(code, seating, random.Random(seed), deaths, leave=True)

    world.play()

    assert world.x.tobytes() == reference(code, leave=True)


@pytest.mark.parametrize("code", SECTIONS)
def test_copies_follow_from_the_journal_for_who_adopts_agents_and_for_who_judges_their_rows(code: str) -> None:
    world, mark = World(code, SEATINGS[0], random.Random(1)), 9
    world.play()
    host, algorithm = world.lives[1], made("zhang2024", GAME)
    rebuild = StateRebuild(algorithm, rule_of(code, algorithm, GAME), None, SEATINGS[0][1], mark)

    for t in range(1, mark + 1):
        for message in world.journal[1, t]:
            rebuild.apply(message)

    assert saved(rebuild.state) == host.disk[mark]
    assert rebuild.next_rows.tobytes() == host.host._sent.rows(mark + 1, SEATINGS[0][1]).tobytes()


@pytest.mark.parametrize("code", [name for name, section in SECTIONS.items() if section.remembers])
def test_copies_that_are_not_those_that_came_before_are_disputed_and_a_ruling_changes_what_is_not_mixed(
    code: str,
) -> None:
    world = World(code, SEATINGS[0], random.Random(2))
    world.play()
    host, other = world.lives[0].host, world.lives[1].host
    round = next(t for t in range(T, 0, -1) if host._plans[t].needed.size)
    agents = host._plans[round].needed
    right = other._sent.rows(round, agents)

    host.handle(PeerWants(0, T))
    assert host.handle(FrameArrived(0, Frame(round, agents, right))) == []
    host.handle(PeerWants(0, T))
    [dispute] = host.handle(FrameArrived(0, Frame(round, agents, right + 1.0)))

    assert isinstance(dispute, Dispute)
    assert (dispute.round, dispute.host, dispute.agents.tolist()) == (round, "host-1", agents.tolist())
    assert dispute.rows.tobytes() == (right + 1.0).tobytes()
    assert host.handle(DisputedRows(round, agents, right)) == []  # what was mixed is what is right


def peer_copies(code: str) -> PeerCopies:
    algorithm = made("zhang2024", GAME)
    return PeerCopies(rule_of(code, algorithm, GAME), EVERYONE)


def coded(code: str, t: int) -> CodedFrame:
    """Return the message of a round in which every agent sends a row of its own."""
    rule = rule_of(code, made("zhang2024", GAME), GAME)
    rows = np.sin(np.arange(N * P, dtype=np.float64) + t).reshape(N, P)
    return rule.offer(rows, rule.first(EVERYONE), EVERYONE, t)[0]


REMEMBERING = [name for name, section in SECTIONS.items() if section.remembers]


@pytest.mark.parametrize("code", REMEMBERING)
def test_a_gap_in_a_stream_is_refused_and_never_guessed(code: str) -> None:
    copies = peer_copies(code)
    copies.take(coded(code, 1))

    with pytest.raises(Malformed, match="follow one another"):
        copies.take(coded(code, 3))


@pytest.mark.parametrize("code", REMEMBERING)
def test_copies_as_they_are_come_at_the_beginning_of_a_stream_alone(code: str) -> None:
    copies, rows = peer_copies(code), np.zeros((N, P))
    assert copies.take(Frame(4, EVERYONE, rows)).rows is rows
    assert copies.take(coded(code, 5)).round == 5

    with pytest.raises(Malformed, match="with which a stream begins"):
        copies.take(Frame(6, EVERYONE, rows))


@pytest.mark.parametrize("code", [name for name in SECTIONS if name not in REMEMBERING])
def test_rows_as_they_are_are_no_message_of_a_code_that_remembers_nothing(code: str) -> None:
    with pytest.raises(Malformed, match="in the game's code"):
        peer_copies(code).take(Frame(1, EVERYONE, np.zeros((N, P))))


@pytest.mark.parametrize("code", SECTIONS)
def test_whose_rows_are_sent_is_said_with_a_trigger_and_only_there(code: str) -> None:
    frame = coded(code, 1)
    sent = None if frame.sent is not None else np.ones(N, dtype=bool)

    with pytest.raises(Malformed, match="says whose rows it holds"):
        peer_copies(code).take(replace(frame, sent=sent))


def test_copies_that_are_not_finite_are_refused() -> None:
    rule = rule_of("sign", made("zhang2024", GAME), GAME)
    copies, frame = PeerCopies(rule, EVERYONE), coded("sign", 1)
    rule.code = SimpleNamespace(decode=lambda *of: np.full((N, P), np.inf))  # type: ignore[assignment]

    with pytest.raises(Malformed, match="finite"):
        copies.take(frame)


@pytest.mark.parametrize("code", SECTIONS)
def test_the_mean_of_mixed_rows_is_that_of_the_rows_whatever_the_code_loses(code: str) -> None:
    # rows that are not points of a set: what is mixed is not projected
    algorithm: Any = SimpleNamespace(width=P, start=lambda agents: agents, outgoing=lambda agents, t: np.ones((N, P)))
    rule = rule_of(code, algorithm, GAME)
    rows = np.sin(np.arange(N * P, dtype=np.float64)).reshape(N, P)
    _, copies = rule.offer(rows, rule.first(EVERYONE), EVERYONE, 1)

    mixed = rule.mixed(csr_array(weights(3, False)), copies, rows, copies, 1)

    np.testing.assert_allclose(mixed.mean(axis=0), rows.mean(axis=0), atol=1e-14)
