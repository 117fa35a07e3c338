"""The reveal rule: what is granted, when, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.referee_games import (
    CODE,
    SEATING,
    SEATS,
    WINDOW,
    Arena,
    M,
    N,
    P,
    T,
    digests,
    new_referee,
    only_reply,
    question,
)

from slaternet.errors import (
    AlreadyAsked,
    Forgotten,
    Malformed,
    NotYours,
    OutsideSet,
    OverBudget,
    RoundNotOpen,
    SlaternetError,
)
from slaternet.limits import Limits
from slaternet.model import LowWater
from slaternet_adversary.engine.batches import select_agents
from slaternet_adversary.engine.commitments import Commitments
from slaternet_adversary.engine.events import Asked, Commit, Evaluate, Granted, Play, Played, Score, Summarise


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
    assert one.answer.values.f.tobytes() == other.answer.values.f.tobytes()
    assert one.answer.values.g.tobytes() == other.answer.values.g.tobytes()
    for t in (1, 2):
        assert only_reply(arena.ask("b", t)).answer.round == t


def test_an_answer_holds_the_values_of_its_own_question() -> None:
    arena = Arena()
    asked = question("b", 1)

    answer = only_reply(arena.hand(Asked("b", asked))).answer

    assert answer.values.f.tobytes() == (asked.points.sum(axis=2) + 1).tobytes()
    assert answer.values.g.shape == (3, 2, M)


X, POINTS = question("a", 2).x, question("a", 2).points


@pytest.mark.parametrize(
    ("host", "change", "error"),
    [
        ("a", {"round": 1, "x": X, "points": POINTS}, AlreadyAsked),
        ("a", {"round": 1, "x": question("a", 1).x, "points": POINTS}, AlreadyAsked),
        ("a", {"points": POINTS[:, :1]}, Malformed),
        ("a", {"points": POINTS[:, :0]}, Malformed),
        ("a", {"round": 1, "points": question("a", 1).points[:, :1], "x": question("a", 1).x}, Malformed),
        ("a", {"agents": np.array([0]), "x": X[:1], "points": POINTS[:1]}, Malformed),
        ("a", {"agents": np.array([2]), "x": X[1:], "points": POINTS[1:]}, Malformed),
        ("a", {"anchor": X, "loss_gradient": True}, OverBudget),
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


def test_points_may_miss_the_set_by_rounding() -> None:
    edge = np.full((2, P), 1.0 + 1e-10)

    asked = replace(question("a", 1), x=edge, points=np.stack((edge, edge), axis=1))

    assert only_reply(Arena().hand(Asked("a", asked))).answer.values.f.shape == (2, 2)


def test_a_purchase_of_the_journal_may_be_a_part_of_a_question() -> None:
    whole = question("b", 1)
    parts = [select_agents(whole, np.isin(whole.agents, agents)) for agents in ([1], [3, 4])]

    arena = Arena()
    answers = [only_reply(arena.hand(Granted(Asked("b", part)))).answer for part in parts]
    again = only_reply(arena.hand(Asked("b", whole))).answer

    assert [answer.agents.tolist() for answer in answers] == [[1], [3, 4]]
    assert again.values.f.tobytes() == b"".join(answer.values.f.tobytes() for answer in answers)
    with pytest.raises(Malformed):
        arena.hand(Granted(Asked("b", replace(parts[0], round=2, points=parts[0].points[:, :1]))))


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
    assert arena.referee.recorded == 5

    assert arena.hand(LowWater(3)) == []

    for t in (1, 2):
        with pytest.raises(Forgotten):
            arena.ask("a", t)
    for t in (3, 4, 5):
        assert only_reply(arena.ask("a", t)).answer.round == t


def test_what_is_not_recorded_yet_is_kept_whatever_the_mark() -> None:
    arena = Arena().play(1, 2)
    arena.ask("a", 3)
    assert arena.referee.recorded == 2

    arena.hand(LowWater(100))

    assert only_reply(arena.ask("a", 3)).answer.round == 3
    arena.ask("b", 3)
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
    (evaluate,) = waiting
    assert isinstance(evaluate, Evaluate)
    assert [each.host for each in evaluate.batch.asked] == ["a", "b"]


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
        played = {effect.round for effect in before if isinstance(effect, Play)}
        asked = {effect.batch.question.round for effect in before if isinstance(effect, Evaluate)}
        assert not (played | asked) & set(range(commit.round, commit.round + len(commit.commitments)))


@pytest.mark.parametrize(("share", "burst"), [(100, 16), (5, 5), (0.5, 1)])
def test_rounds_prepared_ahead_are_limited_by_the_bytes_of_their_functions(share: float, burst: int) -> None:
    functions = 8 * N * P * (1 + M)
    arena = Arena(rounds=40, limits=Limits(burst_bytes=int(share * functions))).play(1, 40)

    commits = [effect for effect in arena.log if isinstance(effect, Commit)]
    assert len(commits[0].commitments) == burst
    assert max(len(commit.commitments) for commit in commits) == burst
    assert [t for commit in commits for t in range(commit.round, commit.round + len(commit.commitments))] == [
        *range(1, 41)
    ]
    assert arena.referee.chained[1] == digests(40)[-1]  # whatever was prepared when
