import hashlib
import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet.errors import (
    AlreadyAsked,
    Forgotten,
    NotYours,
    OutsideSet,
    OverBudget,
    RoundNotOpen,
    SlaternetError,
)
from slaternet.limits import LIMITS
from slaternet.model import Array, Closing, Effort, LowWater, Question, StopAt
from slaternet.sets import Box
from slaternet_adversary.commitments import Commitments
from slaternet_adversary.events import (
    Asked,
    Closed,
    Commit,
    Effect,
    Evaluate,
    Evaluated,
    Event,
    Play,
    Played,
    Record,
    Reply,
    Score,
    Scored,
    Summarise,
)
from slaternet_adversary.referee import Referee

N, P, M, T = 5, 2, 2, 6
WINDOW = 3
CODE = "0f" * 32
BOX = Box(P, -1.0, 1.0)
SEATS = {"a": np.array([0, 2]), "b": np.array([1, 3, 4])}
SEATING = list(SEATS.items())


def new_referee(rounds: int | None = T, history: int = 0, score_every: int = 1) -> Referee:
    limits = replace(LIMITS, window=WINDOW)
    return Referee(
        N,
        BOX,
        points=2,
        constraints=M,
        rounds=rounds,
        history=history,
        score_every=score_every,
        commitments=Commitments(CODE, {}, 3),
        limits=limits,
    )


def decisions(t: int) -> Array:
    """x_{0,t} .. x_{n-1,t}."""
    return np.random.default_rng(t).uniform(-0.9, 0.9, (N, P))


def effort(host: str, t: int) -> Effort:
    return Effort(t, 100 * t + len(SEATS[host]), t / 8)


def question(host: str, t: int) -> Question:
    agents = SEATS[host]
    x = decisions(t)[agents]
    spent = effort(host, t - 1) if t > 1 else Effort()
    return Question(t, agents, x, np.stack((x, x + 0.05), axis=1), spent)


def evaluated(effect: Evaluate) -> Evaluated:
    asked = effect.asked.question
    f = asked.points.sum(axis=2) + asked.round
    return Evaluated(effect.host, asked.round, asked.agents, f, np.stack((f, -f), axis=2))


def scored(t: int) -> Scored:
    return Scored(t, 1.0 * t, 2.0 * t, 3.0 * t, 4.0 * t, 0.5)


def digests(rounds: int) -> list[bytes]:
    """d_1 .. d_T, by the definition."""
    chain = [bytes(32)]
    for t in range(1, rounds + 1):
        numbers = b"".join(np.float64(v).astype("<f8").tobytes() for x in decisions(t) for v in x)
        chain.append(hashlib.sha256(chain[-1] + numbers).digest())
    return chain[1:]


class Arena:
    """A referee whose effects are carried out at once, and all that it wanted done."""

    def __init__(self, rounds: int | None = T, history: int = 0, score_every: int = 1) -> None:
        self.referee = new_referee(rounds, history, score_every)
        self.log: list[Effect] = []
        self.do(self.referee.seat(SEATING))

    def hand(self, event: Event) -> list[Effect]:
        return self.do(self.referee.handle(event))

    def do(self, effects: list[Effect]) -> list[Effect]:
        """Carry effects out, first to last, and return all that came of them."""
        done: list[Effect] = []
        while effects:
            effect, *effects = effects
            done.append(effect)
            match effect:
                case Play(round):
                    effects += self.referee.handle(Played(round))
                case Evaluate():
                    effects += self.referee.handle(evaluated(effect))
                case Score(round):
                    effects += self.referee.handle(scored(round))
        self.log += done
        return done

    def ask(self, host: str, t: int, at: float = 0.0) -> list[Effect]:
        return self.hand(Asked(host, question(host, t), at))

    def close(self, host: str, t: int) -> list[Effect]:
        return self.hand(Closed(host, Closing(effort(host, t))))

    def play(self, first: int, last: int) -> "Arena":
        for t in range(first, last + 1):
            for host in SEATS:
                self.ask(host, t)
        return self

    @property
    def records(self) -> list[Record]:
        return [effect for effect in self.log if isinstance(effect, Record)]

    @property
    def summaries(self) -> list[Summarise]:
        return [effect for effect in self.log if isinstance(effect, Summarise)]


def only_reply(effects: list[Effect]) -> Reply:
    (reply,) = [effect for effect in effects if isinstance(effect, Reply)]
    return reply


# The reveal rule


def test_a_round_is_granted_once_and_the_same_question_gets_the_same_bits_for_nothing() -> None:
    arena = Arena()
    arena.play(1, 2)
    first = arena.ask("a", 3)
    assert any(isinstance(effect, Evaluate) for effect in first)

    again = arena.ask("a", 3)

    assert again == [only_reply(again)]  # nothing is evaluated, chained or prepared again
    one, other = only_reply(first), only_reply(again)
    assert (one.host, other.host, other.answer.round) == ("a", "a", 3)
    assert other.answer.agents.tolist() == [0, 2]
    assert one.answer.f.tobytes() == other.answer.f.tobytes()
    assert one.answer.g.tobytes() == other.answer.g.tobytes()
    for t in (1, 2):
        assert only_reply(arena.ask("b", t)).answer.round == t


def test_an_answer_holds_the_values_of_its_own_question() -> None:
    arena = Arena()
    asked = question("b", 1)

    answer = only_reply(arena.hand(Asked("b", asked))).answer

    assert answer.f.tobytes() == (asked.points.sum(axis=2) + 1).tobytes()
    assert answer.g.shape == (3, 2, M)


X, POINTS = question("a", 2).x, question("a", 2).points


@pytest.mark.parametrize(
    ("host", "change", "error"),
    [
        ("a", {"round": 1, "x": X, "points": POINTS}, AlreadyAsked),
        ("a", {"round": 1, "x": question("a", 1).x, "points": POINTS}, AlreadyAsked),
        ("a", {"round": 1, "points": question("a", 1).points[:, :1], "x": question("a", 1).x}, AlreadyAsked),
        ("a", {"round": 3}, RoundNotOpen),
        ("a", {"round": WINDOW + 2}, RoundNotOpen),
        ("a", {"round": 10**9}, RoundNotOpen),
        ("a", {"round": 0}, Forgotten),
        ("a", {"agents": np.array([0, 1])}, NotYours),
        ("a", {"agents": np.array([1, 3])}, NotYours),
        ("a", {"agents": np.array([0, N])}, NotYours),
        ("b", {}, NotYours),
        ("a", {"points": np.zeros((2, 3, P))}, OverBudget),
        ("a", {"x": np.array([[0.0, 0.0], [0.0, 1.1]])}, OutsideSet),
        ("a", {"x": np.array([[0.0, np.nan], [0.0, 0.0]])}, OutsideSet),
        ("a", {"points": np.array([[[0.0, 0.0], [-1.001, 0.0]], [[0.0, 0.0]] * 2])}, OutsideSet),
        ("a", {"points": np.array([[[0.0, 0.0]] * 2, [[np.inf, 0.0], [0.0, 0.0]]])}, OutsideSet),
    ],
)
def test_what_the_rule_does_not_grant_is_refused_and_changes_nothing(
    host: str, change: dict[str, object], error: type[SlaternetError]
) -> None:
    arena = Arena().play(1, 1)

    with pytest.raises(error):
        arena.hand(Asked(host, replace(question("a", 2), **change)))  # type: ignore[arg-type]

    arena.play(2, T)
    for each in SEATS:
        arena.close(each, T)
    assert arena.summaries == [Summarise(T, digests(T)[-1].hex())]


def test_points_may_miss_the_set_by_rounding_and_be_fewer_than_granted() -> None:
    arena = Arena()
    edge = np.full((2, P), 1.0 + 1e-10)

    asked = replace(question("a", 1), x=edge, points=edge[:, None])
    assert only_reply(arena.hand(Asked("a", asked))).answer.f.shape == (2, 1)

    nothing = replace(question("a", 1), points=np.empty((2, 0, P)))
    assert only_reply(Arena().hand(Asked("a", nothing))).answer.f.shape == (2, 0)


def test_the_window_opens_with_the_slowest_agent() -> None:
    arena = Arena(rounds=None)
    for t in range(1, WINDOW + 2):
        arena.ask("a", t)
    with pytest.raises(RoundNotOpen, match="outside the window"):
        arena.ask("a", WINDOW + 2)

    arena.ask("b", 1)

    assert only_reply(arena.ask("a", WINDOW + 2)).answer.round == WINDOW + 2


def test_no_round_is_granted_after_the_last() -> None:
    arena = Arena().play(1, T)

    with pytest.raises(RoundNotOpen):
        arena.ask("a", T + 1)


def test_what_lies_before_the_low_water_mark_is_forgotten() -> None:
    arena = Arena().play(1, 5)
    assert arena.referee.recorded == 4

    assert arena.hand(LowWater(3)) == []

    for t in (1, 2):
        with pytest.raises(Forgotten):
            arena.ask("a", t)
    for t in (3, 4, 5):
        assert only_reply(arena.ask("a", t)).answer.round == t


def test_what_is_not_recorded_yet_is_kept_whatever_the_mark() -> None:
    arena = Arena().play(1, 3)
    assert arena.referee.recorded == 2

    arena.hand(LowWater(100))

    assert only_reply(arena.ask("a", 3)).answer.round == 3
    arena.play(4, T)
    assert [record.round for record in arena.records] == [1, 2, 3, 4, 5]


def test_a_round_s_functions_are_fixed_before_any_question_is_evaluated() -> None:
    referee = new_referee()
    commit, *plays = referee.seat(SEATING)
    assert isinstance(commit, Commit)
    assert plays == [Play(t, None) for t in range(1, T + 1)]  # a burst reaches beyond the last

    assert referee.handle(Asked("a", question("a", 1))) == []
    assert referee.handle(Asked("a", question("a", 1))) == []  # asked again meanwhile: one answer will do
    scores = referee.handle(Asked("b", question("b", 1)))
    assert [type(effect) for effect in scores] == [Score]

    waiting = referee.handle(Played(1))
    assert [(type(effect), getattr(effect, "host", "")) for effect in waiting] == [(Evaluate, "a"), (Evaluate, "b")]


def test_functions_are_prepared_in_bursts_and_never_beyond_the_last() -> None:
    arena = Arena().play(1, T)

    assert [effect.round for effect in arena.log if isinstance(effect, Play)] == list(range(1, T + 1))
    assert arena.referee.seat(SEATING) == []  # seated again after a reconnection


@pytest.mark.parametrize("history", [0, 2])
def test_a_round_is_committed_to_once_and_before_its_functions_are_fixed(history: int) -> None:
    arena = Arena(rounds=20, history=history).play(1, 20)

    known = [bytes(32), *digests(20)]
    commitments = Commitments(CODE, {}, 3)
    expected = [commitments.of(t, known[t - 1] if history else b"") for t in range(1, 21)]
    commits = [effect for effect in arena.log if isinstance(effect, Commit)]
    assert [each for commit in commits for each in commit.commitments] == expected
    assert [commit.round for commit in commits] == (list(range(1, 21)) if history else [1, 17])
    for commit in commits:
        before = arena.log[: arena.log.index(commit)]
        told = {effect.round for effect in before if isinstance(effect, Play | Evaluate)}
        assert not told & set(range(commit.round, commit.round + len(commit.commitments)))


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


def test_a_record_sums_the_hosts_efforts_and_carries_the_totals() -> None:
    arena = Arena().play(1, T)
    for host in SEATS:
        arena.close(host, T)

    for record in arena.records:
        t = record.round
        assert record.costs.effort == Effort(2 * t, 200 * t + N, t / 4)
        assert record.agents == N
        assert record.score == scored(t)
        total = t * (t + 1) / 2
        assert record.totals == (total, 2 * total, 3 * total, 4 * total)
    assert arena.referee.totals == arena.records[-1].totals


def test_a_round_waits_for_its_score_and_for_every_host_s_effort() -> None:
    referee = new_referee()
    referee.seat(SEATING)
    referee.handle(Played(1))
    for host in SEATS:
        referee.handle(Asked(host, question(host, 1)))
    referee.handle(Played(2))
    for host in SEATS:
        effects = referee.handle(Asked(host, question(host, 2)))
        assert not any(isinstance(effect, Record) for effect in effects)
    assert referee.recorded == 0

    assert [type(effect) for effect in referee.handle(scored(2))] == []
    assert [effect.round for effect in referee.handle(scored(1)) if isinstance(effect, Record)] == [1]


def test_an_effort_told_twice_counts_once() -> None:
    arena = Arena().play(1, 2)
    twice = replace(question("a", 2), effort=Effort(1000, 1000, 1000.0))
    arena.hand(Asked("a", twice))  # the effort is no part of the question
    arena.play(3, T)
    for host in ("a", "a", "b", "b", "a"):
        arena.close(host, T)

    efforts = [Effort(2 * t, 200 * t + N, t / 4) for t in range(1, T + 1)]
    assert [record.costs.effort for record in arena.records] == efforts
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

    assert [record.costs.lags for record in arena.records] == [{"b": 0.0, "a": 1.25}, {"b": 0.25, "a": 0.0}]
    assert [record.costs.skew for record in arena.records] == [1.25, 0.25]
    assert [record.costs.efforts for record in arena.records] == [
        {host: effort(host, t) for host in ("b", "a")} for t in (1, 2)
    ]


def test_a_closing_books_no_round_that_was_not_asked() -> None:
    arena = Arena(rounds=None)
    arena.close("a", 99)  # before anything was asked
    arena.play(1, 2)
    for _ in range(3):
        arena.close("a", 2)  # said again on every new stream
    arena.close("b", 2)
    arena.play(3, 3)  # although it had closed
    arena.hand(StopAt(3))
    for host in ("a", "b", "a"):
        arena.close(host, 3)

    assert [record.costs.effort for record in arena.records] == [Effort(2 * t, 200 * t + N, t / 4) for t in (1, 2, 3)]
    assert arena.summaries == [Summarise(3, digests(3)[-1].hex())]


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
    order = [(type(effect), effect.round) for effect in done if isinstance(effect, Play | Evaluate)]
    assert order.index((Play, 2)) < order.index((Evaluate, 2))
