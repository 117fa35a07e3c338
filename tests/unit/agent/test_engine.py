import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet.errors import Malformed, NotYours, RoundNotOpen, SlaternetError
from slaternet.limits import LIMITS, Limits
from slaternet.model import (
    Agents,
    Answer,
    Array,
    Dispute,
    DisputedRows,
    Disturbed,
    Frame,
    Hold,
    Holding,
    Peer,
    Question,
    RowRequest,
    Seating,
    StopAt,
    Topology,
    Values,
)
from slaternet.numerics.sets import Box
from slaternet_agent.algorithms.base import Algorithm, AlgorithmGame
from slaternet_agent.algorithms.schedules import make_schedule
from slaternet_agent.algorithms.zhang2024 import Zhang2024
from slaternet_agent.engine.events import Ask, AskedBefore, Effect, Event, Finish, FrameArrived, PeerWants, Send
from slaternet_agent.engine.host import Host

N, P, T = 7, 3, 6
BOX = Box(P, -1.0, 1.0)


def matrix(t: int) -> Array:
    """W_t: a few random pairs meet half way, the rest keep to themselves."""
    order = np.random.default_rng(t).permutation(N)
    result = np.eye(N)
    for i, j in ((order[0], order[1]), (order[2], order[3]), (order[4], order[5])):
        result[i, i] = result[j, j] = 0.625
        result[i, j] = result[j, i] = 0.375
    return result


def topology(seating: Sequence[Agents], host: int, first: int, last: int, low_water: int = 0) -> Topology:
    own, peers = seating[host], [seats for other, seats in enumerate(seating) if other != host]
    starts, columns, weights, debts = [0], list[int](), list[float](), list[tuple[int, int, int]]()
    for t in range(first, last + 1):
        w = matrix(t)
        for i in own:
            columns += np.flatnonzero(w[i]).tolist()
            weights += w[i][w[i] > 0].tolist()
            starts.append(len(columns))
        debts += [(t - first, peer, j) for peer, seats in enumerate(peers) for j in own if w[seats, j].any()]
    owed = np.array(debts, dtype=np.intp).reshape(-1, 3)
    rows = (np.array(starts), np.array(columns), np.array(weights))
    return Topology(first, last - first + 1, *rows, owed, low_water)


def new_host(seating: Sequence[Agents], host: int, rounds: int | None = T, limits: Limits = LIMITS) -> Host:
    peers = tuple(Peer(f"host-{i}", "", 1, seats) for i, seats in enumerate(seating) if i != host)
    game = AlgorithmGame(N, P, 2, rounds, 5, BOX)
    algorithm = cast("Algorithm", Zhang2024(game, make_schedule("table2", {}, game)))
    adversary = Peer("adversary", "", 1, np.empty(0, np.intp))
    return Host(algorithm, Seating(seating[host], peers, adversary), N, rounds, limits, set=BOX)


def answer(question: Question) -> Answer:
    """Values that depend on agent, round and point alone, row by row."""
    away = question.points - np.sin(7.0 * question.agents + question.round)[:, None, None]
    g = np.stack((question.points[..., 0] - 0.1, question.points[..., 1]), axis=-1)
    return Answer(question.round, question.agents, Values(np.add.reduce(away * away, axis=-1), g))


class Table:
    """Hosts wired together; whatever is under way is delivered in the order that chance draws."""

    def __init__(self, seating: Sequence[Agents], chance: random.Random, batch: int = 2, twice: float = 0.0) -> None:
        self.hosts = [new_host(seating, i) for i in range(len(seating))]
        self.x = np.full((T, N, P), np.nan)
        self.asked: list[tuple[int, int]] = []
        self.finished: list[int] = []
        self._chance = chance
        self._twice = twice
        self._under_way: list[tuple[int, Event]] = [
            (i, topology(seating, i, first, min(first + batch - 1, T)))
            for i in range(len(seating))
            for first in range(1, T + 1, batch)
        ]

    def play(self) -> None:
        while self._under_way:
            to, event = self._under_way.pop(self._chance.randrange(len(self._under_way)))
            for effect in self.hosts[to].handle(event):
                self._execute(to, effect)

    def _execute(self, by: int, effect: Effect) -> None:
        match effect:
            case Send(peer, frame):
                to = peer + (peer >= by)
                self._send(to, FrameArrived(by - (by > to), frame))
            case Ask(question):
                self.x[question.round - 1, question.agents] = question.x
                self.asked.append((by, question.round))
                self._send(by, answer(question))
            case Finish():
                self.finished.append(by)

    def _send(self, to: int, event: Event) -> None:
        self._under_way += [(to, event)] * (2 if self._chance.random() < self._twice else 1)


def reference() -> Array:
    table = Table([np.arange(N)], random.Random(0))
    table.play()
    assert np.isfinite(table.x).all()
    return table.x


REFERENCE = reference()


@st.composite
def seatings(draw: st.DrawFn) -> list[Agents]:
    hosts = draw(st.integers(2, 4))
    owner = np.array([*range(hosts), *(draw(st.integers(0, hosts - 1)) for _ in range(N - hosts))])
    order = np.array(draw(st.permutations(range(N))))
    return [np.sort(order[owner == host]) for host in range(hosts)]


@given(seating=seatings(), chance=st.randoms(use_true_random=False), batch=st.integers(1, T))
@settings(max_examples=40, deadline=None)
def test_any_seating_and_any_order_of_arrival_play_the_bits_of_one_host(
    seating: list[Agents], chance: random.Random, batch: int
) -> None:
    table = Table(seating, chance, batch)

    table.play()

    assert table.x.tobytes() == REFERENCE.tobytes()
    assert sorted(table.finished) == list(range(len(seating)))


@given(seating=seatings(), chance=st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_what_arrives_twice_changes_nothing(seating: list[Agents], chance: random.Random) -> None:
    table = Table(seating, chance, twice=0.5)

    table.play()

    assert table.x.tobytes() == REFERENCE.tobytes()
    assert len(table.asked) == len(set(table.asked)) == T * len(seating)


# Two hosts: the first is watched, the second answers as the table's would.

SEATING = [np.array([0, 2, 3]), np.array([1, 4, 5, 6])]


def foreign_frames() -> dict[int, Frame]:
    """Return what the second host sends to the first, by round."""
    frames: dict[int, Frame] = {}
    hosts = [new_host(SEATING, 0), new_host(SEATING, 1)]
    todo: list[tuple[int, Event]] = [(i, topology(SEATING, i, 1, T)) for i in (0, 1)]
    while todo:
        at, event = todo.pop(0)
        for effect in hosts[at].handle(event):
            match effect:
                case Send(_, frame):
                    todo.append((1 - at, FrameArrived(0, frame)))
                    frames |= {frame.round: frame} if at == 1 else {}
                case Ask(question):
                    todo.append((at, answer(question)))
    return frames


FRAMES = foreign_frames()
MEETING = [t for t in range(1, T + 1) if t in FRAMES]  # rounds in which the first host waits for the second


def asked(effects: list[Effect]) -> Question:
    (question,) = [effect.question for effect in effects if isinstance(effect, Ask)]
    return question


def played_until(last: int, rounds: int | None = T, low_water: int = 0) -> tuple[Host, list[Effect]]:
    """Return the first host after the answer of round `last`, which lacks the frames after it, and its last effects."""
    host = new_host(SEATING, 0, rounds)
    effects = host.handle(topology(SEATING, 0, 1, T, low_water))
    for t in range(1, last + 1):
        if t in FRAMES:
            effects = host.handle(FrameArrived(0, FRAMES[t]))
        effects = host.handle(answer(asked(effects)))
    return host, effects


def test_the_hosts_meet_in_enough_rounds_for_these_tests() -> None:
    assert {1, 2, 3, 4} <= set(MEETING)


def test_a_round_is_offered_at_once_and_entered_when_all_its_rows_are_there() -> None:
    host = new_host(SEATING, 0)

    (sent,) = host.handle(topology(SEATING, 0, 1, T))
    assert isinstance(sent, Send)
    assert (sent.peer, sent.frame.round) == (0, 1)
    w = matrix(1)
    assert sent.frame.agents.tolist() == [j for j in SEATING[0] if w[SEATING[1], j].any()]
    assert host.pending is None
    assert (host.wanted, host.known) == (1, T)

    question = asked(host.handle(FrameArrived(0, FRAMES[1])))
    assert host.pending is question
    assert question.agents.tolist() == SEATING[0].tolist()
    assert question.x.tobytes() == REFERENCE[0, SEATING[0]].tobytes()
    assert host.wanted == 2  # the rows of a round that is entered are all there

    effects = host.handle(answer(question))
    assert [type(effect) for effect in effects] == [Send]
    assert (host.round, host.pending) == (2, None)


def test_a_host_names_those_without_whom_it_comes_no_further() -> None:
    (a, b), (c, d), (e, f) = np.argwhere(np.triu(matrix(1), 1))
    (alone,) = set(range(N)) - {a, b, c, d, e, f}
    host = new_host(seating := [np.sort([a, c, alone]), np.sort([b, e]), np.sort([d, f])], 0)
    row = np.zeros((1, P))

    assert list(host.waiting_for) == ["coordinator"]  # the topology
    host.handle(topology(seating, 0, 1, 1))
    assert list(host.waiting_for) == ["host-1", "host-2"]
    host.handle(FrameArrived(0, Frame(1, np.array([b]), row)))
    assert list(host.waiting_for) == ["host-2"]
    effects = host.handle(FrameArrived(1, Frame(1, np.array([d]), row)))
    assert list(host.waiting_for) == ["adversary"]
    host.handle(answer(asked(effects)))
    assert (host.round, list(host.waiting_for)) == (2, ["coordinator"])


def test_a_host_that_is_held_waits_for_the_coordinator_and_one_that_has_finished_for_nobody() -> None:
    host, _ = played_until(2, rounds=None)
    assert list(host.waiting_for) == ["host-1"]

    host.handle(Hold())
    assert list(host.waiting_for) == ["coordinator"]
    host.handle(StopAt(2))
    assert list(host.waiting_for) == []


def test_frames_that_come_before_the_topology_are_kept() -> None:
    host = new_host(SEATING, 0)
    for frame in FRAMES.values():
        assert host.handle(FrameArrived(0, frame)) == []

    effects = host.handle(topology(SEATING, 0, 1, T))
    for t in range(1, T + 1):
        question = asked(effects)
        assert question.x.tobytes() == REFERENCE[t - 1, SEATING[0]].tobytes()
        effects = host.handle(answer(question))

    assert effects == [Finish()]


def test_no_frame_follows_the_last_round_and_the_host_stays_to_serve() -> None:
    host, effects = played_until(T)

    assert effects == [Finish()]
    assert host.finished
    assert host.handle(topology(SEATING, 0, T + 1, T + 2)) == []
    again = host.handle(PeerWants(0, T))
    assert [effect.frame.round for effect in again if isinstance(effect, Send)] == [T]


def test_hold_is_answered_with_the_last_round_entered() -> None:
    fresh = new_host(SEATING, 0)
    assert fresh.handle(Hold()) == [Holding(0)]

    between, _ = played_until(2)
    assert between.handle(Hold()) == [Holding(2)]

    inside, _ = played_until(2)
    inside.handle(FrameArrived(0, FRAMES[3]))
    assert inside.handle(Hold()) == [Holding(3)]


def test_while_held_a_host_finishes_and_offers_but_enters_nothing() -> None:
    host, _ = played_until(1, rounds=None)
    question = asked(host.handle(FrameArrived(0, FRAMES[2])))
    assert host.handle(Hold()) == [Holding(2)]

    effects = host.handle(answer(question))
    assert [type(effect) for effect in effects] == [Send]
    assert host.handle(FrameArrived(0, FRAMES[3])) == []
    assert host.handle(topology(SEATING, 0, 1, T)) == []
    assert host.handle(Hold()) == [Holding(2)]  # said again on a new stream

    resumed = asked(host.handle(StopAt(3)))
    assert resumed.round == 3
    assert host.handle(answer(resumed)) == [Finish()]


def test_a_stop_at_a_round_already_finished_ends_the_game_at_once() -> None:
    host, _ = played_until(3, rounds=None)
    host.handle(Hold())

    assert not host.finished
    assert host.handle(StopAt(3)) == [Finish()]
    assert host.finished
    assert host.handle(FrameArrived(0, FRAMES[4])) == []


def test_a_stop_is_heard_while_an_answer_is_awaited() -> None:
    host, _ = played_until(2, rounds=None)
    question = asked(host.handle(FrameArrived(0, FRAMES[3])))
    host.handle(Hold())

    assert host.handle(StopAt(3)) == []
    assert host.handle(answer(question)) == [Finish()]


@pytest.mark.parametrize("first", [0, 1, 2, 4, 5, T + 3])
def test_a_peer_is_sent_again_exactly_what_it_wants(first: int) -> None:
    host = new_host(SEATING, 0)
    sent = [effect for effect in host.handle(topology(SEATING, 0, 1, T)) if isinstance(effect, Send)]
    for t in range(1, 5):
        question = asked(host.handle(FrameArrived(0, FRAMES[t])))
        sent += [effect for effect in host.handle(answer(question)) if isinstance(effect, Send)]
    assert {effect.frame.round for effect in sent} >= {1, 2, 3, 4}

    again = host.handle(PeerWants(0, first))

    wanted = [effect for effect in sent if effect.frame.round >= first]
    assert len(again) == len(wanted)
    for one, other in zip(again, wanted, strict=True):
        assert isinstance(one, Send)
        assert (one.peer, one.frame.round) == (other.peer, other.frame.round)
        assert one.frame.agents.tolist() == other.frame.agents.tolist()
        assert one.frame.rows.tobytes() == other.frame.rows.tobytes()


def test_a_peer_is_not_sent_what_is_owed_to_another() -> None:
    seating = [np.array([0, 2, 3]), np.array([1, 4]), np.array([5, 6])]
    host = new_host(seating, 0)
    host.handle(topology(seating, 0, 1, T))

    for peer in (0, 1):
        owed = [j for j in seating[0] if matrix(1)[seating[peer + 1], j].any()]
        again = [effect for effect in host.handle(PeerWants(peer, 1)) if isinstance(effect, Send)]
        assert [effect.peer for effect in again] == [peer] * len(again)
        assert [j for effect in again for j in effect.frame.agents] == owed


def test_below_the_low_water_mark_everything_is_forgotten() -> None:
    host, _ = played_until(4)

    host.handle(topology(SEATING, 0, 1, T, low_water=3))

    again = [effect.frame.round for effect in host.handle(PeerWants(0, 1)) if isinstance(effect, Send)]
    assert min(again) == 3
    other = replace(FRAMES[2], rows=FRAMES[2].rows + 1.0)
    assert host.handle(FrameArrived(0, other)) == []  # nothing left to compare with
    [dispute] = host.handle(FrameArrived(0, replace(FRAMES[3], rows=FRAMES[3].rows + 1.0)))
    assert isinstance(dispute, Dispute)


def test_a_mark_ahead_of_the_host_forgets_nothing_it_still_needs() -> None:
    host, _ = played_until(2)

    host.handle(topology(SEATING, 0, 1, T, low_water=T))

    question = asked(host.handle(FrameArrived(0, FRAMES[3])))
    assert question.x.tobytes() == REFERENCE[2, SEATING[0]].tobytes()


def strange(change: Callable[[Frame], Frame]) -> FrameArrived:
    return FrameArrived(0, change(FRAMES[3]))


def wrong(change: Callable[[Answer], Answer]) -> Callable[[Question], Event]:
    return lambda question: change(answer(question))


BEYOND = topology(SEATING, 0, T + 1, T + 1)
REFUSALS: list[tuple[type[SlaternetError], Event | Callable[[Question], Event]]] = [
    (NotYours, strange(lambda frame: Frame(3, np.array([0]), np.zeros((1, P))))),
    (NotYours, strange(lambda frame: Frame(3, np.array([1, 2]), np.zeros((2, P))))),
    (NotYours, strange(lambda frame: Frame(3, np.array([1, N]), np.zeros((2, P))))),
    (RoundNotOpen, strange(lambda frame: replace(frame, round=3 + LIMITS.window + 2 * LIMITS.checkpoint_every))),
    (RoundNotOpen, wrong(lambda a: replace(a, round=4))),
    (Malformed, wrong(lambda a: replace(a, values=replace(a.values, f=a.values.f[:, :1])))),
    (Malformed, wrong(lambda a: replace(a, values=Values(a.values.f[:2], a.values.g[:2])))),
    (Malformed, wrong(lambda a: replace(a, agents=a.agents[:2]))),
    (Malformed, wrong(lambda a: replace(a, agents=SEATING[1][:3]))),
    (Malformed, replace(BEYOND, weights=2.0 * BEYOND.weights)),
]


@pytest.mark.parametrize(("error", "event"), REFUSALS)
def test_what_breaks_the_rules_is_refused_and_changes_nothing(
    error: type[SlaternetError], event: Event | Callable[[Question], Event]
) -> None:
    host, _ = played_until(2)
    question = asked(host.handle(FrameArrived(0, FRAMES[3])))

    with pytest.raises(error):
        host.handle(event(question) if callable(event) else event)

    assert host.pending is question
    effects = host.handle(answer(question))
    for t in range(4, T + 1):
        if t in FRAMES:
            effects = host.handle(FrameArrived(0, FRAMES[t]))
        assert asked(effects).x.tobytes() == REFERENCE[t - 1, SEATING[0]].tobytes()
        effects = host.handle(answer(asked(effects)))


# Disputes


def false(frame: Frame) -> Frame:
    """Return a frame with other rows."""
    return replace(frame, rows=np.nextafter(frame.rows, 2.0))


def told_twice(first: Frame, second: Frame, *, mixed: bool) -> tuple[Host, Dispute]:
    """Return a host that was sent two frames of round 3, after or before it mixed the first, and its dispute."""
    host, _ = played_until(2 if mixed else 1)
    effects = host.handle(FrameArrived(0, first))
    assert any(isinstance(each, Ask) for each in effects) is mixed
    [dispute] = host.handle(FrameArrived(0, second))
    assert isinstance(dispute, Dispute)
    assert (dispute.round, dispute.host, dispute.rows.tobytes()) == (3, "host-1", second.rows.tobytes())
    assert dispute.agents.tolist() == FRAMES[3].agents.tolist()
    assert host.disputes == [dispute]
    return host, dispute


@pytest.mark.parametrize("order", [(FRAMES[3], false(FRAMES[3])), (false(FRAMES[3]), FRAMES[3])], ids=["true", "false"])
def test_disputed_rows_are_missing_until_the_ruling_and_then_as_it_says(order: tuple[Frame, Frame]) -> None:
    host, _ = told_twice(*order, mixed=False)
    question = asked(host.handle(FrameArrived(0, FRAMES[2]))) if host.pending is None else host.pending
    host.handle(answer(question))
    assert host.round == 3
    for frame in order:
        assert host.handle(FrameArrived(0, frame)) == []
    assert (host.pending, host.waiting_for) == (None, ("host-1",))

    question = asked(host.handle(DisputedRows(3, FRAMES[3].agents, FRAMES[3].rows)))

    assert question.x.tobytes() == REFERENCE[2, SEATING[0]].tobytes()
    assert host.disputes == []
    assert host.handle(DisputedRows(3, FRAMES[3].agents, FRAMES[3].rows)) == []  # said again


def test_without_a_ruling_for_any_the_rows_that_came_first_are_used() -> None:
    host, _ = told_twice(FRAMES[3], false(FRAMES[3]), mixed=False)
    host.handle(answer(asked(host.handle(FrameArrived(0, FRAMES[2]))) if host.pending is None else host.pending))

    question = asked(host.handle(DisputedRows(3, FRAMES[3].agents, np.empty((len(FRAMES[3].agents), 0)))))

    assert question.x.tobytes() == REFERENCE[2, SEATING[0]].tobytes()


def test_a_false_row_that_was_mixed_stays_mixed_and_the_game_is_disturbed() -> None:
    for later in (False, True):
        host, _ = told_twice(false(FRAMES[3]), FRAMES[3], mixed=True)
        if later:
            assert host.pending is not None
            host.handle(answer(host.pending))

        [disturbed] = host.handle(DisputedRows(3, FRAMES[3].agents, FRAMES[3].rows))

        assert isinstance(disturbed, Disturbed)
        assert (disturbed.round, disturbed.agents.tolist()) == (3, SEATING[0].tolist())


def test_a_true_row_that_was_mixed_is_not_disturbed_by_a_false_one() -> None:
    host, _ = told_twice(FRAMES[3], false(FRAMES[3]), mixed=True)

    assert host.handle(DisputedRows(3, FRAMES[3].agents, FRAMES[3].rows)) == []


def test_a_peer_whose_rows_differ_again_and_again_is_ignored() -> None:
    host = new_host(SEATING, 0, limits=replace(LIMITS, complaints=2))
    host.handle(topology(SEATING, 0, 1, T))
    later, disputes = sorted(set(FRAMES) - {1}), 0
    assert len(later) > 2
    for round in later:
        host.handle(FrameArrived(0, FRAMES[round]))
        disputes += len(host.handle(FrameArrived(0, false(FRAMES[round]))))

    assert disputes == 2


def test_rows_that_are_not_mixed_here_are_not_disputed() -> None:
    host, _ = played_until(2)
    others = np.setdiff1d(SEATING[1], FRAMES[3].agents)[:1]
    assert others.size

    for value in (0.0, 0.1, 9.0):
        assert host.handle(FrameArrived(0, Frame(3, others, np.full((1, P), value)))) == []


def test_rows_that_came_before_their_topology_are_disputed_after_it_and_no_flood_of_them_is_kept() -> None:
    host = new_host(SEATING, 0)
    effects = host.handle(topology(SEATING, 0, 1, 2))
    for t in (1, 2):
        effects = host.handle(FrameArrived(0, FRAMES[t])) if t in FRAMES else effects
        effects = host.handle(answer(asked(effects)))
    outside = replace(FRAMES[4], rows=np.full_like(FRAMES[4].rows, 9.0))
    for frame in (FRAMES[3], false(FRAMES[3]), outside, *[false(false(FRAMES[3]))] * 100):
        assert host.handle(FrameArrived(0, frame)) == []
    assert host.disputes == []
    assert {t: list(rows) for t, rows in host._contested.items()} == {3: FRAMES[3].agents.tolist()}

    effects = host.handle(topology(SEATING, 0, 3, T))

    assert [each.round for each in effects if isinstance(each, Dispute)] == [3]
    assert [each.rows.tobytes() for each in host.disputes] == [false(FRAMES[3]).rows.tobytes()]
    assert not host._contested
    question = asked(host.handle(DisputedRows(3, FRAMES[3].agents, FRAMES[3].rows)))
    assert question.x.tobytes() == REFERENCE[2, SEATING[0]].tobytes()
    [dispute] = [each for each in host.handle(answer(question)) if isinstance(each, Dispute)]  # as they are to be mixed
    assert (dispute.round, dispute.rows.tobytes()) == (4, outside.rows.tobytes())


def test_rows_that_do_not_fit_into_a_message_are_disputed_and_stated_without_numbers() -> None:
    host = new_host(SEATING, 0, limits=replace(LIMITS, part_bytes=8 * P - 1))
    host.handle(topology(SEATING, 0, 1, T))

    host.handle(FrameArrived(0, FRAMES[3]))
    [dispute] = host.handle(FrameArrived(0, false(FRAMES[3])))
    [stated] = host.handle(RowRequest(1, SEATING[0]))

    assert isinstance(dispute, Dispute)
    assert dispute.rows.shape == (1, 0)
    assert isinstance(stated, DisputedRows)
    assert stated.rows.shape == (len(SEATING[0]), 0)


@pytest.mark.parametrize("row", [1e300, -1.0, 0.999], ids=["far away", "at the edge", "where exploring leaves X"])
def test_a_row_that_cannot_be_right_is_disputed_and_not_mixed(row: float) -> None:
    host, _ = played_until(2)
    impossible = replace(FRAMES[3], rows=np.full_like(FRAMES[3].rows, row))

    [dispute] = host.handle(FrameArrived(0, impossible))
    assert host.handle(FrameArrived(0, impossible)) == host.handle(FrameArrived(0, FRAMES[3])) == []

    assert isinstance(dispute, Dispute)
    assert dispute.rows.tobytes() == impossible.rows.tobytes()
    assert host.pending is None
    question = asked(host.handle(DisputedRows(3, FRAMES[3].agents, FRAMES[3].rows)))
    assert question.x.tobytes() == REFERENCE[2, SEATING[0]].tobytes()


def test_a_row_that_cannot_be_right_is_not_mixed_though_no_further_dispute_is_allowed() -> None:
    host = new_host(SEATING, 0, limits=replace(LIMITS, complaints=0))
    effects = host.handle(topology(SEATING, 0, 1, T))
    for t in (1, 2):
        effects = host.handle(FrameArrived(0, FRAMES[t])) if t in FRAMES else effects
        effects = host.handle(answer(asked(effects)))

    assert host.handle(FrameArrived(0, replace(FRAMES[3], rows=np.full_like(FRAMES[3].rows, 9.0)))) == []

    assert (host.pending, host.waiting_for) == (None, ("host-1",))
    question = asked(host.handle(FrameArrived(0, FRAMES[3])))
    assert question.x.tobytes() == REFERENCE[2, SEATING[0]].tobytes()


def test_peers_that_are_owed_the_same_rows_get_one_frame() -> None:
    seating = [np.array([0, 1]), *(np.array([each]) for each in range(2, N))]
    debts = np.array([(0, 0, 0), (0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 3, 0), (0, 3, 1)])
    alone = Topology(1, 1, np.array([0, 1, 2]), np.array([0, 1]), np.ones(2), debts)

    sent = [each for each in new_host(seating, 0).handle(alone) if isinstance(each, Send)]

    assert [(each.peer, each.frame.agents.tolist()) for each in sent] == [(0, [0]), (1, [0, 1]), (2, [0]), (3, [0, 1])]
    assert sent[0].frame is sent[2].frame
    assert sent[1].frame is sent[3].frame


@pytest.mark.parametrize(("seats", "own"), [([3, 4, 5], 4), ([3, 5, 6], 5)], ids=["side by side", "scattered"])
def test_a_frame_with_a_row_of_somebody_else_s_agent_is_refused(seats: list[int], own: int) -> None:
    rest = np.setdiff1d(np.arange(N), seats)
    host = new_host([rest[:1], np.array(seats), rest[1:]], 0)
    assert host.handle(FrameArrived(0, Frame(1, np.array([own]), np.zeros((1, P))))) == []

    for other in rest.tolist():
        with pytest.raises(NotYours):
            host.handle(FrameArrived(0, Frame(1, np.array(sorted({own, other})), np.zeros((2, P)))))


def test_where_nobody_can_judge_a_row_that_cannot_be_right_the_next_is_taken() -> None:
    host, _ = played_until(2)
    host.handle(FrameArrived(0, replace(FRAMES[3], rows=np.full_like(FRAMES[3].rows, 9.0))))

    assert host.handle(DisputedRows(3, FRAMES[3].agents, np.empty((len(FRAMES[3].agents), 0)))) == []

    question = asked(host.handle(FrameArrived(0, FRAMES[3])))
    assert question.x.tobytes() == REFERENCE[2, SEATING[0]].tobytes()


def test_a_host_states_the_rows_it_has_sent_and_no_others() -> None:
    host, _ = played_until(3)
    [stated] = host.handle(RowRequest(2, SEATING[0][:2]))
    [sent] = [each for each in host.handle(PeerWants(0, 2)) if isinstance(each, Send) and each.frame.round == 2]

    assert isinstance(stated, DisputedRows)
    own = np.isin(SEATING[0][:2], sent.frame.agents)
    place = np.searchsorted(sent.frame.agents, SEATING[0][:2][own])
    assert stated.rows[own].tobytes() == sent.frame.rows[place].tobytes()
    for request in (RowRequest(99, SEATING[0][:2]), RowRequest(2, SEATING[1][:1])):
        [unknown] = host.handle(request)
        assert isinstance(unknown, DisputedRows)
        assert unknown.rows.shape[1] == 0


def test_what_was_asked_before_is_asked_again_for_those_agents_and_marked() -> None:
    host, _ = played_until(2)
    question = asked(host.handle(FrameArrived(0, FRAMES[3])))
    before = replace(question, agents=question.agents[1:], x=question.x[1:] / 2, points=question.points[1:] / 2)

    disturbed, ask = host.handle(AskedBefore(before))

    assert isinstance(disturbed, Disturbed)
    assert (disturbed.round, disturbed.agents.tolist()) == (3, before.agents.tolist())
    assert isinstance(ask, Ask)
    assert ask.question.x[1:].tobytes() == before.x.tobytes()
    assert ask.question.x[0].tobytes() == question.x[0].tobytes()
    assert ask.question.points[1:].tobytes() == before.points.tobytes()
    host.handle(answer(ask.question))
    assert host.round == 4
    assert host.handle(AskedBefore(before)) == []


def test_a_frame_at_the_end_of_the_window_is_taken() -> None:
    host, _ = played_until(2)

    assert host.handle(FrameArrived(0, replace(FRAMES[3], round=3 + LIMITS.window))) == []


def test_an_answer_before_its_question_is_refused_and_a_late_one_dropped() -> None:
    host, _ = played_until(2)
    early = Answer(3, SEATING[0], Values(np.zeros((3, 2)), np.zeros((3, 2, 2))))

    with pytest.raises(RoundNotOpen):
        host.handle(early)
    assert host.handle(replace(early, round=2)) == []
