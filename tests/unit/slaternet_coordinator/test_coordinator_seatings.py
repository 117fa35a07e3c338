"""Hosts that never come back: they are given up, another takes their seats, and under `leave` agents depart."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from coordinator_games import EVE, EVE_JOIN, HOST_JOIN, N, Play
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet.departures import Attendance
from slaternet.errors import Mismatch
from slaternet.limits import LIMITS
from slaternet.model import (
    Acknowledged,
    Checkpointed,
    Departure,
    Description,
    Failed,
    Finished,
    Hold,
    Holding,
    Over,
    Progress,
    Seating,
    StopAt,
    Topology,
    Waiting,
)
from slaternet_coordinator.engine import Phase
from slaternet_coordinator.events import Announce, Effect, Keep, Leave, Lost, Tell
from slaternet_coordinator.members import Member
from slaternet_coordinator.policy import Policy

C, L = LIMITS.checkpoint_every, LIMITS.window
LASTING = replace(HOST_JOIN, durable=True)
FOUR = ("a", "b", "c", "d")


def begun(
    policy: Policy = Policy.LEAVE,
    rounds: int | None = None,
    *,
    spares: Sequence[str] = (),
    together: bool = False,
    departures: tuple[Departure, ...] = (),
) -> Play:
    """Begin a game of four hosts that seat two agents each, and spares."""
    play = Play(rounds, hosts=4, policy=policy, departures=departures, together=together)
    play.join(EVE, replace(EVE_JOIN, durable=True))
    play.open(EVE)
    for name in (*FOUR, *spares):
        play.come(name, LASTING)
    play.say(EVE, Description(2))
    return play


def played(play: Play, round: int, hosts: Sequence[str] = FOUR) -> Play:
    """Let everyone come to a round, with all checkpoints on the way."""
    while play.coordinator.scored < round:
        furthest = min(round, play.published)
        for name in hosts:
            if furthest >= C:
                play.say(name, Checkpointed(furthest - furthest % C))
        play.advance(furthest, EVE, *hosts)
    return play


def hold(play: Play, **entered: int) -> list[Effect]:
    """Let hosts answer that they hold."""
    return [effect for name, round in entered.items() for effect in play.say(name, Holding(round))]


def told(effects: list[Effect], name: str, kind: type) -> list[object]:
    """Return what one process is told of a kind."""
    return [
        each.body for each in effects if isinstance(each, Tell) and each.name == name and isinstance(each.body, kind)
    ]


def seated(effects: list[Effect]) -> dict[str, list[int]]:
    """Return who sits where in the seating that some effects announce."""
    seatings = [(each.name, each.body) for each in effects if isinstance(each, Tell) and isinstance(each.body, Seating)]
    return {name: seating.seats.tolist() for name, seating in seatings if name != EVE}


def leaving(play: Play) -> list[tuple[int, list[int]]]:
    """Return the departures of a game."""
    return [(each.round, each.agents.tolist()) for each in play.coordinator.departures]


def announced(effects: list[Effect]) -> list[str]:
    """Return what the operator hears."""
    return [each.what for each in effects if isinstance(each, Announce)]


# Who is lost


def test_a_host_that_is_lost_is_kept_as_lost_before_the_others_are_told_to_hold() -> None:
    play = played(begun(), 20)
    play.close("b")

    effects = play.coordinator.handle(Lost("b"))

    assert isinstance(effects[0], Keep)
    assert [(entry.name, entry.lost) for entry in effects[0].entries] == [("b", True)]
    assert [each for each in effects if isinstance(each, Tell)] == [Tell(name, Hold()) for name in ("a", "c", "d")]
    assert announced(effects) == ["b is lost"]


def test_under_wait_nobody_is_lost() -> None:
    play = played(begun(Policy.WAIT), 20)

    assert play.lose("b") == []
    assert play.come("b", LASTING)


def test_a_host_that_is_back_is_not_lost_nor_is_the_adversary_or_a_spare() -> None:
    play = played(begun(spares=("e",)), 20)
    play.close("b")
    play.come("b", LASTING)

    assert play.coordinator.handle(Lost("b")) == []
    assert play.lose(EVE, "e") == []
    assert not any(each.lost for each in play.coordinator.status().hosts)


def test_before_the_game_has_begun_and_after_its_end_nobody_is_lost() -> None:
    play = Play(hosts=2, policy=Policy.LEAVE)
    play.come("a", LASTING)
    assert play.lose("a") == []

    over = begun()
    over.say("a", Failed("no more"))
    assert over.lose("b") == []


def test_the_last_host_that_could_play_on_is_waited_for() -> None:
    play = played(begun(), 20)
    for name in FOUR:
        play.close(name)

    assert play.lose(*FOUR) == []

    play.open("c", have=play.published)
    lost = play.lose("a", "b", "d")
    assert announced(lost) == ["a is lost", "b is lost", "d is lost"]
    play.close("c")
    assert play.coordinator.handle(Lost("c")) == []
    assert play.come("c", LASTING)


def test_who_is_lost_never_comes_back_under_its_name() -> None:
    play = played(begun(), 20)
    play.lose("b")

    with pytest.raises(Mismatch, match=r"b was away for too long .* start a host under another --name"):
        play.join("b", LASTING)
    with pytest.raises(Mismatch, match="given up"):
        play.open("b")
    hold(play, a=21, c=21, d=21)
    with pytest.raises(Mismatch, match="given up"):
        play.join("b", LASTING)
    with pytest.raises(Mismatch, match="given up"):
        play.say("b", Progress(20))


@pytest.mark.parametrize("policy", [Policy.REPLACE, Policy.LEAVE])
def test_who_keeps_nothing_is_refused_unless_the_lost_are_waited_for(policy: Policy) -> None:
    play = Play(hosts=2, policy=policy)

    with pytest.raises(Mismatch, match=rf"a keeps nothing, but under --policy {policy} .* start it with --state DIR"):
        play.join("a", HOST_JOIN)
    assert play.join("a", LASTING)


# The new seating


def test_under_leave_one_who_stays_plays_the_agents_of_the_lost_host_before_they_depart() -> None:
    play = played(begun(), 100)
    play.lose("b")
    assert hold(play, a=105, c=103) == []

    effects = hold(play, d=104)

    assert seated(effects) == {"a": [0, 1, 2, 3], "c": [4, 5], "d": [6, 7]}
    assert leaving(play) == [(106, [2, 3])]
    assert announced(effects) == ["b is lost: a plays its agents through round 105, then they depart"]
    assert play.coordinator.epoch == 2
    assert [(each.name, each.seats, each.lost, each.spare) for each in play.coordinator.status().hosts[1:3]] == [
        ("a", 4, False, False),
        ("b", 0, True, False),
    ]


def test_everyone_hears_of_the_new_seating_and_is_told_the_topology_from_the_mark_on() -> None:
    play = played(begun(), 100)
    mark, published = play.coordinator.low_water, play.published
    assert mark == C
    play.lose("b")

    effects = hold(play, a=105, c=103, d=104)

    [hers] = told(effects, EVE, Seating)
    assert isinstance(hers, Seating)
    assert [peer.name for peer in hers.peers] == ["a", "c", "d"]
    for name in ("a", "c", "d"):
        [seating] = told(effects, name, Seating)
        assert isinstance(seating, Seating)
        assert (seating.low_water, seating.recall) == (mark, True)
        assert [(each.round, each.agents.tolist()) for each in seating.departures] == [(106, [2, 3])]
        topologies = [each for each in told(effects, name, Topology) if isinstance(each, Topology)]
        rounds = [each.round + offset for each in topologies for offset in range(each.rounds)]
        assert rounds == list(range(mark + 1, published + 1))
    assert play.published == published
    kept = play.kept[-1]
    assert (kept.memory.epoch, [each.round for each in kept.memory.departures]) == (2, [106])
    assert {entry.name: (len(entry.seats), entry.lost) for entry in kept.entries} == {
        "a": (4, False),
        "b": (0, True),
        "c": (2, False),
        "d": (2, False),
    }
    assert {entry.mark for entry in kept.entries if not entry.lost} == {mark}


def test_under_replace_a_spare_plays_on_in_place_of_the_lost_host() -> None:
    play = played(begun(Policy.REPLACE, spares=("e", "f")), 100)
    play.lose("b")

    effects = hold(play, a=105, c=103, d=104)

    assert seated(effects) == {"a": [0, 1], "c": [4, 5], "d": [6, 7], "e": [2, 3]}
    assert leaving(play) == []
    assert announced(effects) == ["b is lost: e plays its agents from now on"]
    assert not told(effects, "f", Seating)
    assert [each.name for each in play.coordinator.status().hosts if each.spare] == ["f"]


def test_the_one_learner_that_all_are_together_moves_to_no_spare() -> None:
    play = played(begun(Policy.REPLACE, spares=("e",), together=True), 20)
    play.lose("b")

    assert seated(hold(play, a=21, c=21, d=21)) == {"a": [0, 1, 2, 3], "c": [4, 5], "d": [6, 7]}


def test_a_spare_that_is_away_adopts_nobody() -> None:
    play = played(begun(Policy.REPLACE, spares=("e",)), 20)
    play.close("e")
    play.lose("b")

    assert "e" not in seated(hold(play, a=21, c=21, d=21))


def test_who_has_the_fewest_seats_adopts_and_of_those_the_first_by_name() -> None:
    play = played(begun(), 20)
    play.lose("a")
    assert seated(hold(play, b=21, c=21, d=21))["b"] == [0, 1, 2, 3]

    play.lose("d")
    assert seated(hold(play, b=21, c=21)) == {"b": [0, 1, 2, 3], "c": [4, 5, 6, 7]}


def test_who_does_not_answer_is_waited_for_or_lost_in_its_turn() -> None:
    play = played(begun(), 100)
    play.lose("b")
    hold(play, a=101, c=103)
    assert play.waiting_for == "d to hold, because of b, which the game goes on without"

    effects = play.lose("d")

    assert seated(effects) == {"a": [0, 1, 2, 3, 6, 7], "c": [4, 5]}
    assert leaving(play) == [(104, [2, 3, 6, 7])]
    assert announced(effects) == [
        "d is lost",
        "b and d are lost: a plays their agents through round 103, then they depart",
    ]


def test_an_adopter_that_is_lost_leaves_with_its_own_agents_and_hands_the_others_on() -> None:
    play = played(begun(), 100)
    play.lose("b")
    hold(play, a=105, c=103, d=104)
    play.lose("a")

    effects = hold(play, c=C + 1, d=C + 5)

    # 105 was entered in the first seating: agents 0 and 1 may have bought it
    assert leaving(play) == [(106, [0, 1, 2, 3])]
    assert seated(effects) == {"c": [0, 1, 2, 3, 4, 5], "d": [6, 7]}
    assert play.coordinator.epoch == 3


def test_later_losses_make_later_departures() -> None:
    play = played(begun(), 100)
    play.lose("b")
    hold(play, a=105, c=103, d=104)
    played(play, 3 * C, ("a", "c", "d"))
    play.lose("d")

    hold(play, a=3 * C + 1, c=3 * C + 4)

    assert leaving(play) == [(106, [2, 3]), (3 * C + 5, [6, 7])]


def test_in_the_last_round_nobody_departs_but_the_agents_are_played_to_the_end() -> None:
    play = played(begun(rounds=100), 90)
    play.lose("b")

    effects = hold(play, a=100, c=99, d=99)

    assert leaving(play) == []
    assert announced(effects) == ["b is lost: a plays its agents from now on"]


def test_agents_never_depart_before_a_round_is_played() -> None:
    play = begun()
    play.lose("b")

    hold(play, a=0, c=0, d=0)

    assert leaving(play) == [(2, [2, 3])]


def test_departures_of_the_spec_are_kept_and_an_agent_leaves_once() -> None:
    later = (Departure(50, np.array([2])), Departure(150, np.array([3, 4])))
    play = played(begun(departures=later), 100)
    play.lose("b")

    hold(play, a=105, c=103, d=104)

    assert leaving(play) == [(50, [2]), (106, [3]), (150, [4])]


def test_where_all_who_still_play_are_lost_their_agents_stay() -> None:
    early = (Departure(10, np.array([0, 1, 4, 5, 6, 7])),)
    play = played(begun(departures=early), 100)
    play.lose("b")

    assert announced(hold(play, a=9, c=9, d=9)) == ["b is lost: a plays its agents from now on"]
    assert leaving(play) == [(10, [0, 1, 4, 5, 6, 7])]


# What is told besides


def test_what_hosts_say_of_the_older_seating_is_ignored_and_what_the_adversary_says_is_not() -> None:
    play = played(begun(), 100)
    play.lose("b")
    hold(play, a=105, c=103, d=104)
    mark = play.coordinator.low_water

    for body in (Progress(100), Checkpointed(C), Waiting(105, ("b",)), Holding(105), Finished()):
        assert play.say("a", body, stale=True) == []
    play.say(EVE, Progress(101), stale=True)

    assert play.coordinator.scored == 101
    a = next(each for each in play.coordinator.status().hosts if each.name == "a")
    assert (a.round, a.waits_for) == (mark, ())
    assert not any(member.finished for member in play.register)


def test_all_go_back_to_the_mark_which_never_falls_and_nothing_more_is_published_while_they_hold() -> None:
    play = played(begun(), 80)
    mark, published = play.coordinator.low_water, play.published
    play.advance(published, "b")
    play.lose("b")
    assert play.say("a", Checkpointed(C)) == []
    assert play.advance(published, "a", "c", "d", EVE) == []
    hold(play, a=published, c=published, d=published)

    assert play.coordinator.low_water == mark
    assert {each.round for each in play.coordinator.status().hosts if each.seats} == {mark}
    assert not any(keep.memory.published > published for keep in play.kept)

    played(play, 5 * C, ("a", "c", "d"))
    assert play.coordinator.low_water > mark


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
    assert play.coordinator.epoch == 1

    assert seated(hold(play, d=20))["d"] == [2, 3, 6, 7]


# Stopping


def test_a_stop_settles_the_last_round_and_then_the_seats_are_given_on() -> None:
    play = played(begun(), 100)
    play.stop()
    hold(play, a=103, c=104, d=102)

    effects = play.lose("b")

    assert play.coordinator.settled == play.published  # nobody knows how far b has come
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
    assert play.coordinator.settled == 104

    effects = play.lose("b")

    assert not any(told(effects, name, Hold) for name in FOUR)
    assert seated(effects)["a"] == [0, 1, 2, 3]
    for name in ("a", "c", "d", EVE):
        play.say(name, Progress(104))
        play.say(name, Finished())
    assert play.coordinator.phase is Phase.OVER


def test_a_stop_while_hosts_hold_for_a_lost_one_goes_on_from_what_they_have_said() -> None:
    play = played(begun(), 100)
    play.lose("b")
    hold(play, a=103, c=104)

    stopped = play.stop()
    assert [each.name for each in stopped if isinstance(each, Tell)] == ["d"]
    effects = hold(play, d=101)

    assert play.coordinator.settled == play.published
    assert seated(effects)["a"] == [0, 1, 2, 3]
    assert leaving(play) == []


def test_a_stop_that_settles_while_nobody_is_there_gives_the_seats_to_the_first_who_is_back() -> None:
    play = played(begun(), 100)
    play.stop()
    play.lose("b")
    for name in ("a", "c", "d"):
        play.close(name)
    play.expire()
    assert (play.coordinator.settled, play.coordinator.epoch) == (play.published, 1)

    bodies = play.open("d", have=play.published)

    assert play.coordinator.epoch == 2
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
    assert play.coordinator.phase is Phase.OVER
    for name in ("a", "c", "d", EVE):
        assert Over() in play.told[name]
        effects = play.say(name, Acknowledged())
    assert effects == [Leave()]
    assert play.coordinator.departed


def test_what_the_adversary_has_finished_stays_finished() -> None:
    play = played(begun(rounds=100), 100)
    play.say(EVE, Finished())
    play.lose("b")
    hold(play, a=100, c=100, d=100)

    for name in ("a", "c", "d"):
        play.say(name, Finished())

    assert play.coordinator.phase is Phase.OVER
    assert not play.coordinator.departed


def test_what_a_host_had_entered_before_it_was_replaced_counts_when_the_game_is_stopped() -> None:
    play = played(begun(Policy.REPLACE), 100)
    play.lose("b")
    hold(play, a=105, c=103, d=104)
    published = play.published

    play.stop()
    hold(play, a=C + 1, c=C + 2, d=C + 1)

    assert play.coordinator.settled == published


def test_a_host_whose_agents_have_all_left_is_awaited_until_its_last_checkpoint_is_kept() -> None:
    play = begun(departures=(Departure(C + 10, np.array([0, 1])),))
    for name in ("b", "c", "d", EVE):
        play.say(name, Progress(play.published))
    play.say("a", Progress(play.published))
    play.advance(C + 9, "a")
    for name in ("b", "c", "d"):
        play.say(name, Checkpointed(C))
    play.advance(play.published, "b", "c", "d", EVE)
    assert play.coordinator.low_water == 0

    play.say("a", Checkpointed(C))
    played(play, 5 * C, ("b", "c", "d"))

    assert play.coordinator.low_water > C


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
            self.entered[name] = coordinator.low_water
        elif member.connected and member.seats.size:
            self._enter(member, 0 if action == "hold" else count)
        if coordinator.epoch > self.epoch:
            self.epoch = coordinator.epoch
            self.entered = dict.fromkeys(self.names, coordinator.low_water)

    def _enter(self, member: Member, count: int) -> None:
        if self.play.register.orphaned:  # and so it holds
            self.play.say(member.name, Holding(self.entered[member.name]))
            return
        entered = min(self.entered[member.name] + count, self.play.published)
        self.entered[member.name] = entered
        playing = Attendance(N, self.play.coordinator.departures).of(member.seats, entered)
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
        now = Attendance(N, play.coordinator.departures)
        for first in set(now.ends.tolist()) - set(before.ends.tolist()):
            assert policy is Policy.LEAVE
            staying = now.players(first)
            assert staying.size
            assert hosts.bought[staying].max() < first
        before = now
