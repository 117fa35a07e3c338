import itertools
from collections.abc import Callable

import pytest
from tests.support.coordinator_games import EVE, HOST_JOIN, Play, wanting, wanting_agents

from slaternet.errors import NotSeated, NotYours
from slaternet.limits import LIMITS
from slaternet.model import (
    Acknowledged,
    Description,
    Failed,
    Finished,
    GameOver,
    Holding,
    Join,
    Progress,
    Seating,
    Standby,
    StopAt,
    Topology,
    Waiting,
)
from slaternet_coordinator.engine.events import Announce, Dismiss, Leave, MemberMessage, Quiet, SetTimer, Tell
from slaternet_coordinator.engine.game_state import Phase


def seats(play: Play) -> dict[str, int]:
    """Return how many agents each host seats."""
    return {each.name: each.seats for each in play.coordinator.status().hosts if each.name != EVE}


def spares(play: Play) -> list[str]:
    return [each.name for each in play.coordinator.status().hosts if each.spare]


# Without a number of hosts


def test_seats_are_shared_once_nobody_new_came_for_a_while() -> None:
    play = Play(hosts=None)
    play.come(EVE)
    play.say(EVE, Description(2))

    for arrivals, name in enumerate(("a", "b"), 1):
        assert SetTimer(LIMITS.gathering_seconds, Quiet(arrivals)) in play.join(name)
        play.open(name)
    assert play.calm(1) == []  # somebody came since
    assert play.waiting_for == f"further agent hosts, until none has come for {LIMITS.gathering_seconds:g} s"
    assert play.calm(2) != []

    assert play.coordinator.view.phase is Phase.PLAYING
    assert seats(play) == {"a": 4, "b": 4}


@pytest.mark.parametrize("order", list(itertools.permutations(("host", "adversary", "description", "quiet"))))
def test_quiet_description_and_host_may_come_in_any_order(order: tuple[str, ...]) -> None:
    if order.index("description") < order.index("adversary") or order.index("quiet") < order.index("host"):
        return
    play = Play(hosts=None)
    steps: dict[str, Callable[[], object]] = {
        "host": lambda: play.come("a"),
        "adversary": lambda: play.come(EVE),
        "description": lambda: play.say(EVE, Description(2)),
        "quiet": lambda: play.calm(1),
    }

    for step in order:
        assert play.coordinator.view.phase is Phase.GATHERING
        assert play.waiting_for
        steps[step]()

    assert play.coordinator.view.phase is Phase.PLAYING


def test_a_host_that_comes_again_is_waited_for_like_a_new_one() -> None:
    play = Play(hosts=None)
    play.join(EVE)
    play.say(EVE, Description(2))
    play.join("a")

    assert SetTimer(LIMITS.gathering_seconds, Quiet(2)) in play.join("a")
    play.open("a")
    assert play.calm(1) == []
    assert play.calm(2) != []


def test_the_game_begins_at_once_when_all_seats_are_asked_for() -> None:
    play = Play(hosts=None)
    play.join(EVE)
    play.say(EVE, Description(2))
    play.come("a", HOST_JOIN)
    play.come("b", wanting(3))
    assert play.waiting_for

    play.come("c", wanting_agents(1, 3, 4, 6, 7))

    assert play.coordinator.view.phase is Phase.PLAYING
    assert seats(play) == {"a": 0, "b": 3, "c": 5}
    assert spares(play) == ["a"]
    seating = play.told["b"][0]
    assert isinstance(seating, Seating)
    assert seating.seats.tolist() == [0, 2, 5]
    assert [peer.name for peer in seating.peers] == ["c"]
    assert isinstance(play.told["a"][0], Standby)
    assert not any(isinstance(body, Topology) for body in play.told["a"])


def test_hosts_with_fixed_seats_wait_for_the_rest_however_quiet_it_is() -> None:
    play = Play(hosts=None)
    play.join(EVE)
    play.say(EVE, Description(2))
    play.come("a", wanting(3))

    assert play.calm(1) == []
    assert play.waiting_for == "agent hosts for 5 of 8 seats"
    play.come("b")
    assert play.calm(2) != []
    assert seats(play) == {"a": 3, "b": 5}


def test_a_host_lost_before_the_beginning_has_no_seats_and_is_a_spare_when_it_is_back() -> None:
    play = Play(hosts=2)
    play.come(EVE)
    for name in ("a", "b"):
        play.come(name)
    play.close("a")
    play.say(EVE, Description(2))
    assert play.waiting_for == "1 of 2 agent hosts"

    assert isinstance(play.come("c")[0], Seating)

    assert seats(play) == {"a": 0, "b": 4, "c": 4}
    assert [type(body) for body in play.open("a")] == [Standby]


def test_a_host_that_is_back_before_the_beginning_may_be_the_last_that_was_missing() -> None:
    play = Play(hosts=2)
    play.come(EVE)
    for name in ("a", "b"):
        play.come(name)
    play.close("a")
    play.say(EVE, Description(2))

    told = play.open("a")

    assert play.coordinator.view.phase is Phase.PLAYING
    assert {type(body) for body in told} >= {Seating, Topology}
    assert [type(body) for body in play.told["a"]].count(Seating) == 1


def test_a_host_that_dies_between_joining_and_its_stream_does_not_get_into_a_game_it_could_never_come_back_to() -> None:
    play = Play(hosts=2)
    play.come(EVE)
    play.say(EVE, Description(2))
    for name in ("a", "b"):
        play.join(name)
    assert play.waiting_for == "2 agent hosts to connect"
    play.open("b")
    assert play.waiting_for == "a to connect"

    play.come("a")  # started again

    assert play.coordinator.view.phase is Phase.PLAYING
    assert seats(play) == {"a": 4, "b": 4}


@pytest.mark.parametrize(("hosts", "join"), [(None, HOST_JOIN), (None, wanting(8)), (1, HOST_JOIN)])
def test_who_has_opened_no_stream_once_it_is_quiet_holds_no_seats(hosts: int | None, join: Join) -> None:
    play = Play(hosts=hosts)
    play.come(EVE)
    play.say(EVE, Description(2))
    play.join("a", join)
    assert SetTimer(LIMITS.gathering_seconds, Quiet(2)) in play.join("b")
    play.open("b")
    assert play.coordinator.view.phase is Phase.GATHERING

    assert play.calm(2) != []

    assert seats(play) == {"a": 0, "b": 8}
    assert [type(body) for body in play.open("a")] == [Standby]


# Spares


def test_a_host_that_finds_all_seats_taken_is_told_so_on_every_stream() -> None:
    play = Play(hosts=2)
    for name in ("a", "b"):
        play.come(name)

    assert play.come("c") == [Standby()]
    assert spares(play) == ["c"]
    play.come(EVE)
    play.say(EVE, Description(2))
    assert play.told["c"] == [Standby(), Standby()]
    for join in (HOST_JOIN, wanting(7), wanting_agents(0)):
        assert play.come("d", join) == [Standby()]
    play.stop()
    assert play.open("d") == [Standby()]
    assert play.come("e") == [Standby()]
    for name in ("a", "b"):
        play.say(name, Holding(3))
    assert play.open("e") == [Standby()]
    assert {peer.name for name in ("a", EVE) for peer in seating(play, name).peers} == {"a", "b"}


def seating(play: Play, name: str) -> Seating:
    found = play.told[name][0]
    assert isinstance(found, Seating)
    return found


def with_spare(rounds: int = 5) -> Play:
    play = Play(rounds=rounds, hosts=2).begin()
    assert play.come("c") == [Standby()]
    return play


def test_the_game_waits_for_no_spare_and_a_spare_hears_when_it_is_over() -> None:
    play = with_spare(rounds=200)
    play.advance(16)
    assert play.coordinator.view.low_water == 16

    for name in ("a", "b"):
        play.say(name, Finished())
    assert play.say(EVE, Finished()) == [Tell(name, GameOver()) for name in (EVE, "a", "b", "c")]
    for name in ("a", "b", EVE):
        assert play.say(name, Acknowledged()) == []
    assert play.say("c", Acknowledged()) == [Leave()]


def test_a_spare_that_is_lost_is_not_waited_for_when_the_game_is_over() -> None:
    play = with_spare()
    for name in ("a", "b", EVE):
        play.say(name, Finished())
        play.say(name, Acknowledged())

    assert play.close("c") == [Leave()]


def test_hold_and_stop_are_for_those_who_play() -> None:
    play = with_spare()

    play.stop()
    assert play.say("a", Holding(3)) == []
    assert Tell("c", StopAt(4)) not in play.say("b", Holding(4))
    assert play.coordinator.view.last == 4


@pytest.mark.parametrize("body", [Progress(3), Holding(3), Finished(), Waiting(1, ("a",))])
def test_a_spare_has_no_say_in_the_game(body: MemberMessage) -> None:
    play = with_spare()

    with pytest.raises(NotSeated, match="a spare plays nothing"):
        play.say("c", body)


def test_a_spare_that_fails_leaves_alone() -> None:
    play = with_spare()

    assert play.say("c", Failed("no memory")) == [
        Announce("c", "failed", "c: no memory"),
        Tell("c", GameOver("c: no memory")),
        Dismiss("c", "c: no memory"),
    ]
    assert play.coordinator.view.phase is Phase.PLAYING


def test_only_hosts_wait_for_somebody() -> None:
    with pytest.raises(NotYours, match="only hosts report which processes they wait for"):
        with_spare().say(EVE, Waiting(1, ("a",)))


@pytest.mark.parametrize("join", [HOST_JOIN, wanting(4), wanting_agents(0, 1)])
def test_a_spare_may_be_started_again_while_the_game_goes_on(join: Join) -> None:
    play = with_spare()

    assert play.come("c", join) == [Standby()]
    assert play.tickets["c"].incarnation == 2
