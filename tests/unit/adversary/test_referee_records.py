"""The digest, the records and the end of a game, and plugins that look back."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.referee_games import (
    SEATING,
    SEATS,
    WINDOW,
    Arena,
    N,
    P,
    T,
    decisions,
    digests,
    new_referee,
    question,
    scored,
    usage,
)

from slaternet.errors import (
    RoundNotOpen,
)
from slaternet.model import StopAt
from slaternet_adversary.engine.events import (
    Asked,
    Enter,
    Evaluate,
    Play,
    Played,
    RecordRound,
    Reply,
    Score,
    Summarise,
    Used,
)

# The digest and the records


@given(chance=st.randoms(use_true_random=False), rounds=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_the_digest_is_that_of_the_definition_whoever_asks_first(chance: random.Random, rounds: int) -> None:
    arena, following = Arena(rounds), dict.fromkeys(SEATS, 1)
    while any(t <= rounds for t in following.values()):
        slowest = min(following.values())
        host = chance.choice([name for name, t in following.items() if t <= min(rounds, slowest + WINDOW)])
        arena.ask(host, following[host])
        following[host] += 1
    for host in chance.sample(list(SEATS), 2):
        arena.close(host, rounds)

    expected = digests(rounds)
    assert arena.summaries == [Summarise(rounds, expected[-1].hex())]
    assert [record.round for record in arena.records] == list(range(1, rounds + 1))
    assert [record.digest for record in arena.records] == [each.hex()[:16] for each in expected]
    for record in arena.records:
        assert record.x.tobytes() == decisions(record.round).tobytes()


def test_a_record_carries_the_totals() -> None:
    arena = Arena().play(1, T)
    for host in SEATS:
        arena.close(host, T)

    for record in arena.records:
        t = record.round
        assert record.agents == N
        assert record.score == scored(t)
        total = t * (t + 1) / 2
        assert record.totals == (total, 2 * total, 3 * total, 4 * total)
    assert arena.referee.totals == arena.records[-1].totals


def test_a_round_waits_for_its_score_and_for_no_usage_but_the_last_for_every_host_s() -> None:
    referee = new_referee(rounds=2)
    referee.seat(SEATING)
    for t in (1, 2):
        referee.handle(Played(t))
        for host in SEATS:
            effects = referee.handle(Asked(host, question(host, t)))
            assert not any(isinstance(effect, RecordRound) for effect in effects)
    assert referee.recorded == 0

    assert [type(effect) for effect in referee.handle(scored(2))] == []
    assert [effect.round for effect in referee.handle(scored(1)) if isinstance(effect, RecordRound)] == [1]
    assert [type(effect) for effect in referee.handle(Used("a", 1, usage("a", 2)))] == [Enter]
    assert [type(effect) for effect in referee.handle(Used("b", 1, usage("b", 1)))] == [Enter]
    assert [type(effect) for effect in referee.handle(Used("b", 1, usage("b", 2)))] == [Enter, RecordRound, Summarise]


def test_a_usage_told_twice_is_entered_once() -> None:
    arena = Arena().play(1, T)
    for host in ("a", "a", "b", "b", "a"):
        arena.close(host, T)
        arena.close(host, T - 1)  # an older one that comes late

    entered = [effect.event for effect in arena.log if isinstance(effect, Enter)]
    assert entered == [Used(host, 1, usage(host, T)) for host in ("a", "b")]
    assert len(arena.summaries) == 1


def test_a_usage_of_rounds_that_cannot_have_been_played_is_refused() -> None:
    arena = Arena(rounds=None).play(1, 1)

    arena.close("a", 2 + WINDOW)
    with pytest.raises(RoundNotOpen):
        arena.close("a", 3 + WINDOW)


def test_a_new_seating_is_told_once_more() -> None:
    arena = Arena(rounds=2).play(1, 2)
    arena.close("a", 2)
    arena.do(arena.referee.seat(SEATING))
    arena.close("b", 2)
    assert arena.summaries == []

    arena.close("a", 2)
    assert len(arena.summaries) == 1


def test_a_record_says_by_how_much_each_host_s_question_came_after_the_first() -> None:
    arena = Arena(rounds=2)
    arena.ask("b", 1, at=10.0)
    arena.ask("b", 2, at=10.5)  # a host may run ahead
    arena.ask("a", 1, at=11.25)
    arena.ask("b", 1, at=99.0)  # asked again on a new stream: it came when it first came
    arena.ask("a", 2, at=10.25)  # by whatever clock
    for host in SEATS:
        arena.close(host, 2)

    assert [record.lags for record in arena.records] == [{"b": 0.0, "a": 1.25}, {"b": 0.25, "a": 0.0}]


@pytest.mark.parametrize("every", [2, 3, T + 1])
def test_only_every_so_many_rounds_are_scored_and_all_are_recorded(every: int) -> None:
    arena = Arena(score_every=every).play(1, T)
    for host in SEATS:
        arena.close(host, T)

    due = [t for t in range(1, T + 1) if t % every == 0]
    assert [effect.round for effect in arena.log if isinstance(effect, Score)] == due
    assert [record.round for record in arena.records if record.score is not None] == due
    assert [record.round for record in arena.records] == list(range(1, T + 1))
    assert arena.referee.totals[0] == sum(due)
    assert arena.summaries == [Summarise(T, digests(T)[-1].hex())]


# The end


@pytest.mark.parametrize("order", list(itertools.permutations(("a", "b", "stop", "stop"))))
def test_a_stop_ends_the_game_in_whatever_order_it_and_the_closings_come(order: tuple[str, ...]) -> None:
    arena = Arena(rounds=None).play(1, 4)
    for each in order:
        arena.hand(StopAt(4)) if each == "stop" else arena.close(each, 4)

    assert arena.summaries == [Summarise(4, digests(4)[-1].hex())]
    assert [record.round for record in arena.records] == [1, 2, 3, 4]


def test_a_stop_ahead_lets_the_game_go_on_to_it() -> None:
    arena = Arena(rounds=None).play(1, 2)
    arena.hand(StopAt(4))
    assert arena.summaries == []

    arena.play(3, 4)
    with pytest.raises(RoundNotOpen):
        arena.ask("a", 5)
    for host in SEATS:
        arena.close(host, 4)

    assert arena.summaries == [Summarise(4, digests(4)[-1].hex())]


# Adaptive plugins


def test_an_adaptive_plugin_sees_exactly_the_last_decisions_and_never_the_present() -> None:
    arena = Arena(history=2)
    for t in range(1, T + 1):
        plays = [effect.round for effect in arena.log if isinstance(effect, Play)]
        assert plays == list(range(1, t + 1))
        arena.ask("a", t)
        assert len([effect for effect in arena.log if isinstance(effect, Play)]) == t  # b's decisions are not in
        arena.ask("b", t)

    plays_with_past = [effect for effect in arena.log if isinstance(effect, Play)]
    assert [play.round for play in plays_with_past] == list(range(1, T + 1))
    for play in plays_with_past:
        assert play.past is not None
        expected = [decisions(t) for t in range(max(1, play.round - 2), play.round)]
        assert play.past.shape == (len(expected), N, P)
        assert play.past.tobytes() == b"".join(x.tobytes() for x in expected)


def test_a_host_that_runs_ahead_of_an_adaptive_plugin_waits_for_its_answer() -> None:
    arena = Arena(history=1)
    arena.ask("a", 1)

    assert arena.ask("a", 2) == []  # granted, but its functions are not fixed before all of round 1 is known
    done = arena.ask("b", 1)

    assert [effect.answer.round for effect in done if isinstance(effect, Reply) and effect.host == "a"] == [2]
    played = next(at for at, each in enumerate(done) if isinstance(each, Play) and each.round == 2)
    evaluated = (at for at, each in enumerate(done) if isinstance(each, Evaluate) and each.batch.question.round == 2)
    assert played < next(evaluated)
