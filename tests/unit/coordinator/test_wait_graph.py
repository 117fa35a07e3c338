import itertools
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.coordinator_games import EVE, Play

from slaternet.errors import RoundNotOpen
from slaternet.limits import LIMITS, Limits
from slaternet.model import Finished, Holding, Progress, Waiting
from slaternet_coordinator.engine.status import Observed

HOSTS = tuple("abcdef")
LONG = 2 * LIMITS.heartbeat_seconds + 1


def playing(*, history: int = 0, hosts: tuple[str, ...] = HOSTS, limits: Limits = LIMITS) -> Play:
    return Play(hosts=len(hosts), limits=limits).begin(hosts, history=history)


def blamed(play: Play, silent: Mapping[str, float] | None = None) -> str:
    return play.coordinator.status(Observed(silent=silent or {})).waiting_for


def wait(play: Play, waiting: Mapping[str, str], round: int = 1) -> None:
    """Let hosts say whom they wait for, each by one letter."""
    for name, awaited in waiting.items():
        play.say(name, Waiting(round, tuple(awaited)))


def test_a_game_that_goes_on_waits_for_nobody() -> None:
    assert blamed(playing()) == ""


def test_who_is_waited_for_and_does_not_wait_is_named_with_those_who_do() -> None:
    play = playing()
    play.advance(4, "b")
    wait(play, {"a": "b"})
    assert blamed(play) == "b, in round 5: a waits for it"

    wait(play, {"c": "ab", "d": "c"})
    assert blamed(play) == "b, in round 5: a, c and d wait for it"
    wait(play, {"e": "d", "f": "e"})
    assert blamed(play) == "b, in round 5: a, c and 3 others wait for it"


def test_progress_takes_a_wait_back_and_older_news_does_not() -> None:
    play = playing()
    wait(play, {"a": "b"}, round=4)
    assert play.coordinator.status().hosts[1].waits_for == ("b",)

    play.say("a", Progress(3))
    assert blamed(play)
    wait(play, {"a": "c"}, round=3)
    assert blamed(play) == "b, in round 1: a waits for it"
    play.say("a", Progress(4))
    assert blamed(play) == ""

    wait(play, {"a": "b"}, round=5)
    play.say("a", Finished())
    assert blamed(play) == ""


def test_who_waits_in_a_round_has_finished_the_one_before() -> None:
    play = playing()

    wait(play, {"a": "b"}, round=40)
    assert play.coordinator.status().hosts[1].round == 39
    with pytest.raises(RoundNotOpen):
        play.say("a", Waiting(LIMITS.window + 2, ("b",)))


@given(
    silent=st.sampled_from(HOSTS),
    gone=st.booleans(),
    order=st.permutations(HOSTS),
    more=st.lists(st.tuples(st.sampled_from(HOSTS), st.sampled_from(HOSTS)), max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_the_one_silent_host_for_which_all_others_wait_is_named_and_no_other(
    silent: str, gone: bool, order: list[str], more: list[tuple[str, str]]
) -> None:
    """Each waits for one before it in some order, and perhaps for others; the first of all is silent."""
    chain = [silent, *(name for name in order if name != silent)]
    waits = {later: {earlier} for earlier, later in itertools.pairwise(chain)}
    for who, whom in more:
        if who != whom:
            waits.setdefault(who, set()).add(whom)  # also what the silent one once said
    play = playing(limits=replace(LIMITS, window=1))
    for who, awaited in waits.items():
        play.say(who, Waiting(1, tuple(sorted(awaited))))
    if gone:
        play.close(silent)

    sentence = blamed(play, {**dict.fromkeys((EVE, *HOSTS), 3.0), silent: LONG})

    state = "gone" if gone else "silent"
    assert sentence.startswith(f"{silent}, {state} for 11 s: ")
    assert sentence.endswith(" and 3 others wait for it")


def test_a_silent_host_is_named_before_anybody_says_that_he_waits() -> None:
    play = playing()

    assert blamed(play, {"c": LONG}) == "c, silent for 11 s"
    assert blamed(play, {"c": LONG - 2}) == ""
    play.close("c")
    assert blamed(play, {"c": 3.0}) == "c, gone for 3 s"
    play.close("e")
    assert blamed(play, {"c": 3.0, "e": 1.4}) == "c, gone for 3 s and e, gone for 1 s"
    wait(play, {"a": "e"})
    assert blamed(play, {"c": 3.0, "e": 1.4}).endswith(": a waits for them")


def test_a_host_that_has_finished_may_go_unless_others_need_its_frames() -> None:
    play = playing()
    play.say("c", Finished())
    play.close("c")
    assert blamed(play) == ""

    wait(play, {"a": "c"})
    assert blamed(play, {"c": 2.0}) == "c, gone for 2 s: a waits for it"


def test_the_adversary_may_be_the_one() -> None:
    play = playing()
    play.say("a", Waiting(2, (EVE,)))
    wait(play, {"b": "a"}, round=3)

    assert blamed(play) == "adversary, in round 1: a and b wait for it"


def test_who_waits_for_the_topology_waits_for_the_slowest() -> None:
    play = playing()
    for name, round in ((EVE, 12), ("b", 30), ("d", 30), ("e", 30), ("f", 12)):
        play.advance(round, name)

    play.say("a", Waiting(LIMITS.window + 1, ("coordinator",)))

    assert blamed(play) == "c, in round 1: a waits for it"
    play.advance(20, "c")
    assert blamed(play) == "adversary, in round 13 and f, in round 13: a waits for them"


def test_who_is_held_waits_for_those_that_have_not_answered() -> None:
    play = playing()
    play.stop()
    for name in "abdef":
        play.say(name, Holding(1))
        play.say(name, Waiting(2, ("coordinator",)))

    assert blamed(play).startswith("c, in round 1: a, b and 3 others wait")


def test_an_adversary_that_knows_the_past_waits_for_those_who_are_behind() -> None:
    for history, sentence in (
        (0, "adversary, in round 1: a, b and 3 others wait for it"),
        (1, "c, in round 3: adversary, a and 4 others wait for it"),
    ):
        play = playing(history=history)
        play.say("c", Progress(2))
        for name in "abdef":
            play.say(name, Waiting(5, (EVE,)))
        assert blamed(play) == sentence
        play.say("c", Waiting(5, (EVE,)))
        assert blamed(play) == "adversary, in round 1: a, b and 4 others wait for it"


def test_of_those_who_wait_for_each_other_the_one_that_was_silent_longest_is_named() -> None:
    play = playing()
    wait(play, {"a": "b", "b": "c", "c": "a", "d": "a"})

    assert blamed(play, {"a": 1.0, "b": 4.0, "c": 2.0, "d": 9.0}) == "b, in round 1: a, c and d wait for it"


def test_a_name_that_nobody_has_is_not_blamed_and_what_is_remembered_is_bounded() -> None:
    play = playing()
    play.say("a", Waiting(1, ("nobody", *(f"ghost-{number}" for number in range(LIMITS.hosts)), "b")))

    assert play.coordinator.status().hosts[1].waits_for == ("b",)
    assert blamed(play) == "b, in round 1: a waits for it"


def test_however_many_hold_the_game_up_the_sentence_is_short() -> None:
    many = tuple(f"{'x' * 50}-{number}" for number in range(100, 108))
    play = playing(hosts=many)
    for name in many:
        play.close(name)

    sentence = blamed(play, dict.fromkeys(many, 12345.0))
    assert sentence.endswith("and 6 others")
    assert len(sentence) < LIMITS.text_bytes / 4
