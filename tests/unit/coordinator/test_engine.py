import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.coordinator_games import EVE, EVE_JOIN, EVERYONE, GRAPH, HOST_JOIN, HOSTS, N, Play

from slaternet.errors import Mismatch, NotSeated, NotYours, RoundNotOpen, Superseded, Unknown
from slaternet.limits import LIMITS
from slaternet.model import (
    Acknowledged,
    Description,
    Failed,
    Finished,
    GameOver,
    Hold,
    Holding,
    Join,
    LowWater,
    Progress,
    Seating,
    StopAt,
    Topology,
)
from slaternet_coordinator.engine.events import HoldExpired, Joined, Leave, Opened, SetTimer, Tell
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.graphs.base import Matrix
from slaternet_coordinator.graphs.erdos_renyi import ErdosRenyi
from slaternet_coordinator.graphs.fixed import Complete


def rounds_of(topologies: list[Topology]) -> list[int]:
    return [t for one in topologies for t in range(one.round, one.round + one.rounds)]


def rows_of(topologies: list[Topology], seats: int) -> Iterator[tuple[int, int, list[int], bytes]]:
    for one in topologies:
        for index in range(one.rounds * seats):
            entries = slice(*one.starts[index : index + 2])
            offset, row = divmod(index, seats)
            yield one.round + offset, row, one.columns[entries].tolist(), one.weights[entries].tobytes()


# Gathering


@pytest.mark.parametrize("order", list(itertools.permutations(("a", "b", EVE, "description"))))
def test_whoever_comes_last_the_game_begins_when_all_are_there(order: tuple[str, ...]) -> None:
    if order.index("description") < order.index(EVE):
        return
    play = Play()
    for step, name in enumerate(order):
        assert play.coordinator.view.phase is Phase.GATHERING
        assert play.coordinator.view.epoch == 0
        assert bool(play.coordinator.status().waiting_for)
        if name == "description":
            play.say(EVE, Description(2))
        else:
            play.come(name)
        assert bool(play.told) is (step == 3)

    assert play.coordinator.view.phase is Phase.PLAYING
    assert play.coordinator.view.epoch == 1
    for name in EVERYONE:
        assert isinstance(play.told[name][0], Seating)
    assert rounds_of(play.topologies("a")) == list(range(1, LIMITS.window + 1))
    assert play.told[EVE][1:] == [LowWater(0)]


@pytest.mark.parametrize(("name", "join"), [("a", HOST_JOIN), (EVE, EVE_JOIN)])
def test_who_has_a_part_in_a_game_under_way_cannot_take_it_up_again(name: str, join: Join) -> None:
    play = Play().begin()

    with pytest.raises(Mismatch, match=f"{name} has its part in a game that is under way, .* anew with --state DIR"):
        play.coordinator.handle(Joined(name, join))


def test_who_comes_when_the_game_has_ended_is_refused() -> None:
    play = Play(rounds=5).begin()
    play.say(EVE, Failed("enough"))
    with pytest.raises(Mismatch, match="late comes too late: the game has failed; start the coordinator anew"):
        play.coordinator.handle(Joined("late", HOST_JOIN))

    play = Play(rounds=5).begin()
    for name in EVERYONE:
        play.say(name, Finished())
    with pytest.raises(Mismatch, match="late comes too late: the game is over; start the coordinator anew"):
        play.coordinator.handle(Joined("late", HOST_JOIN))


def test_before_the_seating_nothing_is_played_described_by_hosts_or_stopped() -> None:
    play = Play()
    play.join("a")

    with pytest.raises(NotSeated):
        play.say("a", Progress(1))
    with pytest.raises(NotYours, match="only the adversary"):
        play.say("a", Description(2))
    with pytest.raises(NotSeated, match="the game has not begun; end its processes instead"):
        play.stop()
    assert play.open("a") == []
    assert play.coordinator.view.phase is Phase.GATHERING


def test_only_the_newest_incarnation_opens_a_stream() -> None:
    play = Play()
    play.join("a")
    older = play.tickets["a"]
    play.join("a")

    with pytest.raises(Superseded):
        play.coordinator.handle(Opened("a", older))
    with pytest.raises(Unknown):
        play.coordinator.handle(Opened("a", replace(play.tickets["a"], ticket=bytes(32))))
    with pytest.raises(Unknown):
        play.coordinator.handle(Opened("nobody", older))
    assert not any(host.connected for host in play.coordinator.status().hosts)
    play.open("a")
    assert [host.connected for host in play.coordinator.status().hosts] == [True]


# Publishing


@given(
    steps=st.lists(st.tuples(st.sampled_from(EVERYONE), st.integers(1, 40)), max_size=80),
    window=st.sampled_from([1, 3, 8, 64]),
    rounds=st.sampled_from([None, 1, 7, 100]),
)
@settings(max_examples=60, deadline=None)
def test_the_graph_is_published_never_beyond_the_window_and_in_quarters_of_it(
    steps: list[tuple[str, int]], window: int, rounds: int | None
) -> None:
    play = Play(rounds, replace(LIMITS, window=window)).begin()
    done = dict.fromkeys(EVERYONE, 0)
    assert play.published == (window if rounds is None else min(window, rounds))

    for name, step in steps:
        done[name] = min(done[name] + step, play.published)
        before = play.published
        effects = play.say(name, Progress(done[name]))
        frontier = min(done.values()) + window
        target = frontier if rounds is None else min(frontier, rounds)
        assert play.published <= target
        assert target - play.published < max(window // 4, 1)  # no quarter is held back
        if play.published > before:
            assert play.published - before >= window // 4 or play.published == rounds
            assert Tell(EVE, LowWater(min(done.values()))) in effects  # what is not scored could not be rebuilt
        else:
            assert effects == []

    for name in HOSTS:
        assert rounds_of(play.topologies(name)) == list(range(1, play.published + 1))


def test_everything_up_to_the_last_round_is_published_and_is_the_graph() -> None:
    play = Play(rounds=150).begin()
    for done in range(8, 151, 8):
        play.advance(min(done, play.published))

    assert play.published == 150
    for first, name in ((0, "a"), (4, "b")):
        assert rounds_of(play.topologies(name)) == list(range(1, 151))
        for t, row, columns, weights in rows_of(play.topologies(name), 4):
            dense = GRAPH.matrix(t).dense()[first + row]
            assert columns == np.flatnonzero(dense).tolist()
            assert weights == dense[dense > 0].tobytes()


def test_progress_said_again_takes_nothing_back() -> None:
    play = Play().begin()
    play.advance(20)
    published = play.published
    play.say(EVE, Progress(24, 3.0, 4.0))

    assert play.say("a", Progress(2)) == []
    assert play.say(EVE, Progress(5, 1.0, 1.0)) == []

    status = play.coordinator.status()
    assert (status.published, status.round, status.cumulative_loss, status.cumulative_violation) == (
        published,
        24,
        3.0,
        4.0,
    )
    assert [host.round for host in status.hosts] == [24, 20, 20]
    assert play.coordinator.view.low_water == 20


def test_nobody_has_come_to_a_round_that_is_not_published() -> None:
    play = Play(rounds=None).begin()

    for name, body in (("a", Progress(65)), (EVE, Progress(65)), ("b", Holding(65))):
        with pytest.raises(RoundNotOpen):
            play.say(name, body)

    assert play.advance(64) != []
    play.stop()
    play.say("a", Holding(3))
    assert play.coordinator.view.last is None  # b's refused answer counts for nothing


class Swelling(Graph):
    """Complete in every fifth round, sparse in the others: sizes that no average foretells."""

    def __init__(self, agents: int) -> None:
        self._large = Complete(agents, 0)
        self._small = ErdosRenyi(agents, 0, degree=3)

    def matrix(self, t: int) -> Matrix:
        return (self._large if t % 5 == 0 else self._small).matrix(t)


def wire_bytes(topology: Topology) -> int:
    """Payload of a topology: float64 weights and uint32 starts, columns, debts."""
    ids = len(topology.starts) + len(topology.columns) + topology.debts.size
    return 8 * len(topology.weights) + 4 * ids


@pytest.mark.parametrize("degree", [3, 39])
def test_large_matrices_are_published_in_messages_that_stay_below_one_part(degree: int) -> None:
    agents = 40
    limits = replace(LIMITS, part_bytes=1 << 17)
    graph = ErdosRenyi(agents, 0, degree=degree)
    play = Play(rounds=None, limits=limits, graph=graph, agents=agents).begin()

    for name in HOSTS:
        sent = play.topologies(name)
        assert rounds_of(sent) == list(range(1, LIMITS.window + 1))
        assert max(map(wire_bytes, sent)) <= limits.part_bytes
        assert len(sent) < LIMITS.window // 2  # few messages all the same


def test_matrices_of_changing_size_are_all_published() -> None:
    play = Play(rounds=None, limits=replace(LIMITS, part_bytes=1 << 14), graph=Swelling(40), agents=40).begin()

    for name in HOSTS:
        assert rounds_of(play.topologies(name)) == list(range(1, LIMITS.window + 1))


def test_a_matrix_larger_than_a_part_travels_alone() -> None:
    limits = replace(LIMITS, part_bytes=1 << 8, window=4)
    play = Play(rounds=None, limits=limits, graph=Complete(N, 0)).begin()

    assert [one.rounds for one in play.topologies("a")] == [1, 1, 1, 1]


class Lopsided(Graph):
    def matrix(self, t: int) -> Matrix:
        good = GRAPH.matrix(t)
        return good if t < 70 else Matrix(good.agents, good.starts, good.columns, good.weights * 0.5)


def test_weights_that_are_not_doubly_stochastic_are_never_published() -> None:
    play = Play(graph=Lopsided()).begin()

    play.advance(40)

    assert play.published == 64
    assert play.coordinator.view.phase is Phase.FAILED
    assert "sums to" in play.coordinator.status().failure


# Opening a stream again


def test_a_host_that_opens_again_hears_its_seats_and_the_topology_it_lacks() -> None:
    play = Play().begin()
    play.advance(40)
    assert play.published == 104

    seating, *rest = play.open("a", have=70)

    assert isinstance(seating, Seating)
    assert seating.seats.tolist() == [0, 1, 2, 3]
    sent = [body for body in rest if isinstance(body, Topology)]
    assert (len(sent), rounds_of(sent)) == (len(rest), list(range(71, 105)))
    once = [row for row in rows_of(play.topologies("a"), 4) if row[0] > 70]
    assert list(rows_of(sent, 4)) == once[: len(once) // 2]  # the same rows as before
    assert [type(body) for body in play.open("a", have=104)] == [Seating]
    assert [type(body) for body in play.open(EVE)] == [Seating]


def test_what_was_said_about_the_end_is_said_again_to_whoever_opens() -> None:
    play = Play(rounds=None).begin()
    play.advance(10)

    play.stop()
    assert play.open("a", have=64)[1:] == [Hold()]
    assert play.open(EVE)[1:] == []
    for name in HOSTS:
        play.say(name, Holding(12))
    for name in EVERYONE:
        assert play.open(name, have=64)[1:] == [StopAt(12)]
    for name in EVERYONE:
        play.say(name, Finished())
    for name in EVERYONE:
        assert play.open(name, have=64)[1:] == [StopAt(12), GameOver()]


def test_a_failure_is_said_again_to_whoever_opens() -> None:
    play = Play().begin()
    play.say(EVE, Failed("the disk is full"))

    assert play.open("a", have=64)[1:] == [GameOver("adversary: the disk is full")]


# Stopping


def test_the_last_round_is_the_furthest_that_a_host_has_entered() -> None:
    play = Play(rounds=None).begin()
    play.advance(10)

    assert play.stop() == [Tell("a", Hold()), Tell("b", Hold()), SetTimer(LIMITS.hold_seconds, HoldExpired())]
    assert play.coordinator.view.phase is Phase.STOPPING
    assert play.stop() == []
    assert play.advance(40) == []  # nothing more is published
    assert play.say("a", Holding(41)) == []
    assert play.coordinator.status().rounds == 0  # not settled yet
    assert play.say("b", Holding(43)) == [Tell(name, StopAt(43)) for name in EVERYONE]

    assert (play.coordinator.view.last, play.coordinator.status().rounds) == (43, 43)
    assert play.expire() == []
    assert play.say("a", Holding(60)) == []  # settled is settled
    assert play.published == 64


def test_a_silent_host_counts_as_the_last_published_round() -> None:
    play = Play(rounds=None).begin()
    play.advance(16)
    assert play.published == 80
    play.stop()
    play.say("a", Holding(17))

    assert play.expire() == [Tell(name, StopAt(80)) for name in EVERYONE]
    assert play.say("b", Holding(18)) == []
    assert play.coordinator.view.last == 80


def test_a_game_stopped_before_its_first_round_plays_one() -> None:
    play = Play(rounds=None).begin()
    play.stop()
    play.say("a", Holding(0))

    assert Tell(EVE, StopAt(1)) in play.say("b", Holding(0))


def test_a_game_with_an_end_may_be_stopped_before_it() -> None:
    play = Play(rounds=200).begin()
    play.stop()
    play.say("a", Holding(3))
    play.say("b", Holding(2))

    assert play.coordinator.view.last == 3


# The end


@pytest.mark.parametrize("order", list(itertools.permutations(EVERYONE)))
def test_the_game_is_over_when_all_have_finished_and_the_summary_is_written(order: tuple[str, ...]) -> None:
    play = Play(rounds=5).begin()
    play.advance(5)

    assert play.say(order[0], Finished()) == []
    assert play.say(order[0], Finished()) == []  # said again after a reconnection
    assert play.say(order[1], Finished()) == []
    assert play.coordinator.status().phase == "playing"
    assert play.say(order[2], Finished()) == [Tell(name, GameOver()) for name in EVERYONE]

    assert play.coordinator.view.phase is Phase.OVER
    assert play.say(order[2], Finished()) == []
    assert play.say("a", Failed("too late to matter")) == []
    assert play.stop() == []


def test_an_adversary_that_cannot_go_on_ends_the_game_for_all() -> None:
    play = Play().begin()

    assert play.say(EVE, Failed("the plugin raised")) == [
        Tell(name, GameOver("adversary: the plugin raised")) for name in EVERYONE
    ]

    assert play.coordinator.view.phase is Phase.FAILED
    assert play.coordinator.status().failure == "adversary: the plugin raised"
    assert play.say("a", Failed("another thing")) == []
    assert play.advance(60) == []


def test_the_coordinator_leaves_when_everyone_has_acknowledged_or_is_gone() -> None:
    play = Play().begin()
    assert play.close("b") == []  # in the middle of a game it stays
    play.open("b")
    play.say(EVE, Failed("enough"))

    assert play.say(EVE, Acknowledged()) == []
    assert play.close("b") == []
    assert play.close(EVE) == []
    assert play.say("a", Acknowledged()) == [Leave()]


def test_the_last_stream_to_close_lets_the_coordinator_leave() -> None:
    play = Play().begin()
    play.say(EVE, Failed("enough"))
    play.close("a")
    play.close(EVE)

    assert play.close("b") == [Leave()]
