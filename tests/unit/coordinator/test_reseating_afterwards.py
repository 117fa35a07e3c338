"""A game after hosts were lost: what is told besides, how it is stopped, and what holds whatever happens."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.coordinator_games import EVE, N
from tests.support.seating_games import FOUR, LASTING, C, begun, hold, leaving, played, seated, told

from slaternet.attendance import Attendance
from slaternet.model import (
    Acknowledged,
    Checkpointed,
    Departure,
    Finished,
    GameOver,
    Hold,
    Holding,
    Progress,
    Seating,
    StopAt,
    Topology,
    Waiting,
)
from slaternet_coordinator.engine.events import Effect, Leave, Lost, Tell
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.engine.roster import Member
from slaternet_coordinator.engine.rules import Policy

# What is told besides


def test_what_hosts_say_of_the_older_seating_is_ignored_and_what_the_adversary_says_is_not() -> None:
    play = played(begun(), 100)
    play.lose("b")
    hold(play, a=105, c=103, d=104)
    mark = play.coordinator.view.low_water

    for body in (Progress(100), Checkpointed(C), Waiting(105, ("b",)), Holding(105), Finished()):
        assert play.say("a", body, stale=True) == []
    play.say(EVE, Progress(101), stale=True)

    assert play.coordinator.view.scored == 101
    a = next(each for each in play.coordinator.status().hosts if each.name == "a")
    assert (a.round, a.waits_for) == (mark, ())
    assert not any(member.finished for member in play.register)


def test_all_go_back_to_the_mark_which_never_falls_and_nothing_more_is_published_while_they_hold() -> None:
    play = played(begun(), 80)
    mark, published = play.coordinator.view.low_water, play.published
    play.advance(published, "b")
    play.lose("b")
    assert play.say("a", Checkpointed(C)) == []
    assert play.advance(published, "a", "c", "d", EVE) == []
    hold(play, a=published, c=published, d=published)

    assert play.coordinator.view.low_water == mark
    assert {each.round for each in play.coordinator.status().hosts if each.seats} == {mark}
    assert not any(keep.saved.published > published for keep in play.kept)

    played(play, 5 * C, ("a", "c", "d"))
    assert play.coordinator.view.low_water > mark


def test_a_host_that_comes_back_while_others_hold_is_told_to_hold_too() -> None:
    play = played(begun(), 100)
    play.lose("b")
    hold(play, a=105, c=103)
    play.close("d")

    assert Hold() in play.come("d", LASTING)

    # it may have entered whatever was published before its death
    hold(play, d=C)
    assert leaving(play) == [(play.published + 1, [2, 3])]


def test_one_that_has_not_heard_of_the_new_seating_is_told_all_of_it_when_it_is_back() -> None:
    play = played(begun(), 100)
    play.lose("b")
    hold(play, a=105, c=103, d=104)
    play.close("c")

    bodies = play.open("c", have=play.published, stale=True)

    assert isinstance(bodies[0], Seating)
    topologies = [body for body in bodies if isinstance(body, Topology)]
    assert (topologies[0].round, topologies[-1].round + topologies[-1].rounds - 1) == (C + 1, play.published)
    assert Hold() not in bodies


def test_nobody_who_was_not_asked_holds() -> None:
    play = played(begun(), 100)
    play.say("a", Holding(1))

    assert told(play.lose("b"), "a", Hold) == [Hold()]
    assert hold(play, c=103, d=104) == []


def test_an_adoption_waits_until_one_is_there_who_adopts() -> None:
    play = played(begun(), 20)
    play.lose("b")
    hold(play, a=21, c=21)
    for name in ("a", "c", "d"):
        play.close(name)
    play.open("d", have=play.published)
    assert play.coordinator.view.epoch == 1

    assert seated(hold(play, d=20))["d"] == [2, 3, 6, 7]


# Stopping


def test_a_stop_settles_the_last_round_and_then_the_seats_are_given_on() -> None:
    play = played(begun(), 100)
    play.stop()
    hold(play, a=103, c=104, d=102)

    effects = play.lose("b")

    assert play.coordinator.view.settled == play.published  # nobody knows how far b has come
    for name in ("a", "c", "d"):
        bodies = [each.body for each in effects if isinstance(each, Tell) and each.name == name]
        last = max(index for index, body in enumerate(bodies) if isinstance(body, Seating))
        assert StopAt(play.published) in bodies[last:]
    assert leaving(play) == []
    assert seated(effects)["a"] == [0, 1, 2, 3]


def test_a_host_that_is_lost_after_the_stop_is_settled_holds_nobody_up() -> None:
    play = played(begun(), 100)
    play.stop()
    hold(play, a=103, b=101, c=104, d=102)
    assert play.coordinator.view.settled == 104

    effects = play.lose("b")

    assert not any(told(effects, name, Hold) for name in FOUR)
    assert seated(effects)["a"] == [0, 1, 2, 3]
    for name in ("a", "c", "d", EVE):
        play.say(name, Progress(104))
        play.say(name, Finished())
    assert play.coordinator.view.phase is Phase.OVER


def test_a_stop_while_hosts_hold_for_a_lost_one_goes_on_from_what_they_have_said() -> None:
    play = played(begun(), 100)
    play.lose("b")
    hold(play, a=103, c=104)

    stopped = play.stop()
    assert [each.name for each in stopped if isinstance(each, Tell)] == ["d"]
    effects = hold(play, d=101)

    assert play.coordinator.view.settled == play.published
    assert seated(effects)["a"] == [0, 1, 2, 3]
    assert leaving(play) == []


def test_a_stop_that_settles_while_nobody_is_there_gives_the_seats_to_the_first_who_is_back() -> None:
    play = played(begun(), 100)
    play.stop()
    play.lose("b")
    for name in ("a", "c", "d"):
        play.close(name)
    play.expire()
    assert (play.coordinator.view.settled, play.coordinator.view.epoch) == (play.published, 1)

    bodies = play.open("d", have=play.published)

    assert play.coordinator.view.epoch == 2
    assert isinstance(bodies[0], Seating)
    assert bodies[0].seats.tolist() == [2, 3, 6, 7]
    assert bodies[-1] == StopAt(play.published)


def test_a_game_ends_without_those_who_are_lost() -> None:
    play = played(begun(rounds=200), 100)
    play.lose("b")
    hold(play, a=105, c=103, d=104)
    effects: list[Effect] = []
    for name in ("a", "c", "d", EVE):
        play.say(name, Finished())
    assert play.coordinator.view.phase is Phase.OVER
    for name in ("a", "c", "d", EVE):
        assert GameOver() in play.told[name]
        effects = play.say(name, Acknowledged())
    assert effects == [Leave()]
    assert play.coordinator.view.departed


def test_what_the_adversary_has_finished_stays_finished() -> None:
    play = played(begun(rounds=100), 100)
    play.say(EVE, Finished())
    play.lose("b")
    hold(play, a=100, c=100, d=100)

    for name in ("a", "c", "d"):
        play.say(name, Finished())

    assert play.coordinator.view.phase is Phase.OVER
    assert not play.coordinator.view.departed


def test_what_a_host_had_entered_before_it_was_replaced_counts_when_the_game_is_stopped() -> None:
    play = played(begun(Policy.REPLACE), 100)
    play.lose("b")
    hold(play, a=105, c=103, d=104)
    published = play.published

    play.stop()
    hold(play, a=C + 1, c=C + 2, d=C + 1)

    assert play.coordinator.view.settled == published


def test_a_host_whose_agents_have_all_left_is_awaited_until_its_last_checkpoint_is_kept() -> None:
    play = begun(departures=(Departure(C + 10, np.array([0, 1])),))
    for name in ("b", "c", "d", EVE):
        play.say(name, Progress(play.published))
    play.say("a", Progress(play.published))
    play.advance(C + 9, "a")
    for name in ("b", "c", "d"):
        play.say(name, Checkpointed(C))
    play.advance(play.published, "b", "c", "d", EVE)
    assert play.coordinator.view.low_water == 0

    play.say("a", Checkpointed(C))
    played(play, 5 * C, ("b", "c", "d"))

    assert play.coordinator.view.low_water > C


# Whatever happens


class Hosts:
    """Four hosts and a spare that play, hold, die and come back in any order, each knowing only what it was told."""

    names = (*FOUR, "e")

    def __init__(self, policy: Policy) -> None:
        self.play = begun(policy, spares=("e",))
        self.entered = dict.fromkeys(self.names, 0)  # in the newest seating
        self.bought = np.zeros(N, int)  # the last round that an agent was played in, by whomever
        self.epoch = 1

    def act(self, action: str, name: str, count: int) -> None:
        """Let one of them do something, if it can."""
        member, coordinator = self.play.register[name], self.play.coordinator
        if action == "die" and member.connected:
            self.play.close(name)
        elif action == "lose" and not member.connected:
            self.play.coordinator.handle(Lost(name))
        elif action == "return" and not member.connected and not member.lost:
            self.play.come(name, LASTING)
            self.entered[name] = coordinator.view.low_water
        elif member.connected and member.seats.size:
            self._enter(member, 0 if action == "hold" else count)
        if coordinator.view.epoch > self.epoch:
            self.epoch = coordinator.view.epoch
            self.entered = dict.fromkeys(self.names, coordinator.view.low_water)

    def _enter(self, member: Member, count: int) -> None:
        if self.play.register.lost_with_seats:  # and so it holds
            self.play.say(member.name, Holding(self.entered[member.name]))
            return
        entered = min(self.entered[member.name] + count, self.play.published)
        self.entered[member.name] = entered
        playing = Attendance(N, self.play.coordinator._state.departures).of(member.seats, entered)
        self.bought[playing] = np.maximum(self.bought[playing], entered)
        self.play.say(member.name, Progress(max(entered - 1, 0)))


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["enter", "hold", "die", "return", "lose"]),
            st.sampled_from(Hosts.names),
            st.integers(1, 40),
        ),
        max_size=60,
    ),
    policy=st.sampled_from([Policy.REPLACE, Policy.LEAVE]),
)
@settings(max_examples=25, deadline=None)
def test_every_agent_has_one_host_and_who_stays_has_bought_nothing_before_others_leave(
    steps: list[tuple[str, str, int]], policy: Policy
) -> None:
    hosts = Hosts(policy)
    play, before = hosts.play, Attendance(N)
    for step in steps:
        hosts.act(*step)

        seats = [agent for host in play.register.players for agent in host.seats.tolist()]
        assert sorted(seats) == list(range(N))
        assert any(not host.lost for host in play.register.hosts)
        now = Attendance(N, play.coordinator._state.departures)
        for first in set(now.ends.tolist()) - set(before.ends.tolist()):
            assert policy is Policy.LEAVE
            staying = now.players(first)
            assert staying.size
            assert hosts.bought[staying].max() < first
        before = now
