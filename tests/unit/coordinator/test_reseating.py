"""Hosts that never come back: they are given up, another takes their seats, and under `leave` agents depart."""

import numpy as np
import pytest
from tests.support.coordinator_games import EVE, HOST_JOIN, Play
from tests.support.seating_games import FOUR, LASTING, C, announced, begun, hold, leaving, played, seated, told

from slaternet.errors import Mismatch
from slaternet.model import (
    Departure,
    Failed,
    Hold,
    Progress,
    Seating,
    Topology,
)
from slaternet_coordinator.engine.events import Keep, Lost, Tell
from slaternet_coordinator.engine.rules import Policy

# Who is lost


def test_a_host_that_is_lost_is_kept_as_lost_before_the_others_are_told_to_hold() -> None:
    play = played(begun(), 20)
    play.close("b")

    effects = play.coordinator.handle(Lost("b"))

    assert isinstance(effects[0], Keep)
    assert [(entry.name, entry.lost) for entry in effects[0].saved.members if entry.lost] == [("b", True)]
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
    over.say(EVE, Failed("no more"))
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
    assert play.coordinator.view.epoch == 2
    assert [(each.name, each.seats, each.lost, each.spare) for each in play.coordinator.status().hosts[1:3]] == [
        ("a", 4, False, False),
        ("b", 0, True, False),
    ]


def test_everyone_hears_of_the_new_seating_and_is_told_the_topology_from_the_mark_on() -> None:
    play = played(begun(), 100)
    mark, published = play.coordinator.view.low_water, play.published
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
    assert (kept.saved.epoch, [each.round for each in kept.saved.departures]) == (2, [106])
    assert {entry.name: (len(entry.seats), entry.lost) for entry in kept.saved.members if entry.name != EVE} == {
        "a": (4, False),
        "b": (0, True),
        "c": (2, False),
        "d": (2, False),
    }
    assert {each.mark for each in kept.saved.members if each.name != EVE and not each.lost} == {mark}


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
    assert play.coordinator.view.epoch == 3


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
