"""Questions that arrive together: the order of arrival and the grouping change no bit, and a wrong one is alone."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.referee_games import SEATS, Arena, M, N, P, T, digests, evaluated, new_referee, question

from slaternet.errors import AlreadyAsked, Malformed, NotYours, OutsideSet, Refused, RoundNotOpen
from slaternet.model import Question, ValueAndGradient, Values
from slaternet.storage.record_file import SealedRecord
from slaternet_adversary.engine.batches import answers, joined, select_agents, select_values
from slaternet_adversary.engine.events import Asked, Effect, Evaluate, Played, Questions, Refuse, Reply
from slaternet_adversary.journal.entries import (
    BatchPurchase,
    EntryKind,
    Purchase,
    SeatingEntry,
    bought,
    decode,
    encode,
    purchases,
)
from slaternet_adversary.journal.journal import AdversaryJournal, read
from slaternet_adversary.journal.query import merge_purchases, purchases_of

RNG = np.random.default_rng(3)


def asked(
    host: str, agents: Sequence[int], *, first: bool = False, anchored: bool = False, round: int = 4, memo: int = 0
) -> Asked:
    ids = np.array(agents)
    points = RNG.uniform(-1.0, 1.0, (len(ids), 2, P))
    x = points[:, 0] if first else RNG.uniform(-1.0, 1.0, (len(ids), P))
    anchor = RNG.uniform(-1.0, 1.0, (len(ids), P)) if anchored else None
    kept = RNG.standard_normal((len(ids), memo)) if memo else None
    return Asked(host, Question(round, ids, x, points, anchor, anchored, anchored, first, kept), RNG.uniform())


def values(count: int, *, tangents: bool = False) -> Values:
    draw = RNG.standard_normal
    loss = ValueAndGradient(draw(count), draw((count, P))) if tangents else None
    constraint = ValueAndGradient(draw((count, M)), draw((count, M, P))) if tangents else None
    return Values(draw((count, 2)), draw((count, 2, M)), loss, constraint)


def bits(question: Question) -> list[bytes]:
    arrays = [question.agents, question.x, question.points, question.anchor, question.memo]
    return [b"" if array is None else array.tobytes() for array in arrays]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("memo", [0, 3])
@pytest.mark.parametrize("seats", [([0, 1], [2], [5, 7]), ([1, 6], [0, 3, 9], [4])])
def test_questions_are_joined_in_the_order_of_agents_whoever_came_first(
    seats: tuple[list[int], ...], anchored: bool, first: bool, memo: int
) -> None:
    each = [asked(f"host-{i}", agents, first=first, anchored=anchored, memo=memo) for i, agents in enumerate(seats)]

    batches = [joined(order) for order in itertools.permutations(each)]

    for batch in batches:
        assert batch is not None
        assert batch.question.agents.tolist() == sorted(itertools.chain(*seats))
        assert bits(batch.question) == bits(batches[0].question if batches[0] else batch.question)
        for one, rows in zip(batch.asked, batch.rows, strict=True):
            assert bits(select_agents(batch.question, rows)) == bits(one.question)


def test_what_is_unlike_is_not_joined() -> None:
    one = asked("a", [0, 2])
    for other in (
        asked("a", [1]),
        asked("b", [2, 3]),
        asked("b", [1], first=True),
        asked("b", [1], anchored=True),
        asked("b", [1], round=5),
        replace(
            asked("b", [1]), question=replace(one.question, agents=np.array([1, 3]), points=one.question.points[:, :1])
        ),
    ):
        assert joined([one, other]) is None


def test_every_host_gets_the_values_of_its_own_agents() -> None:
    each = [asked("a", [0, 5]), asked("b", [1, 3]), asked("c", [2, 4])]
    batch, all_values = joined(each), values(6, tangents=True)
    assert batch is not None

    for one, some in answers(batch, all_values):
        assert some.loss is not None
        assert all_values.loss is not None
        assert same(some.f, all_values.f[one.question.agents])
        assert same(some.g, all_values.g[one.question.agents])
        assert same(some.loss.gradient, all_values.loss.gradient[one.question.agents])


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.tobytes() == other.tobytes()


# The referee


def together(arena: Arena, *each: Asked) -> list[Effect]:
    return arena.hand(Questions(each))


def test_a_batch_is_granted_and_evaluated_as_one_and_answered_host_by_host() -> None:
    arena, alone = Arena(), Arena()
    each = [Asked("b", question("b", 1)), Asked("a", question("a", 1))]

    effects = together(arena, *each)

    (evaluate,) = (effect for effect in effects if isinstance(effect, Evaluate))
    assert evaluate.batch.question.agents.tolist() == list(range(N))
    replies = {effect.host: effect.answer for effect in effects if isinstance(effect, Reply)}
    for one in each:
        (reply,) = (effect for effect in alone.hand(one) if isinstance(effect, Reply))
        assert same(replies[one.host].agents, reply.answer.agents)
        assert same(replies[one.host].values.f, reply.answer.values.f)
        assert same(replies[one.host].values.g, reply.answer.values.g)


@given(st.data())
def test_however_questions_are_grouped_the_digest_is_the_same(data: st.DataObject) -> None:
    arena, due = Arena(), dict.fromkeys(SEATS, 1)
    while min(due.values()) <= T:
        ahead = min(due.values()) + 1
        ready = [host for host, t in due.items() if t <= min(T, ahead)]
        hosts = data.draw(st.lists(st.sampled_from(ready), min_size=1, unique=True))
        together(arena, *(Asked(host, question(host, due[host])) for host in hosts))
        for host in hosts:
            due[host] += 1

    assert arena.referee.chained == (T, digests(T)[-1])


WRONG: dict[str, tuple[dict[str, object], type[Refused] | type[RoundNotOpen]]] = {
    "another's agents": ({"agents": np.array([1, 2])}, NotYours),
    "a part": (
        {"agents": np.array([0]), "x": np.zeros((1, P)), "points": np.zeros((1, 2, P))},
        Malformed,
    ),
    "outside": ({"points": np.full((2, 2, P), 7.0)}, OutsideSet),
    "too early": ({"round": 3}, RoundNotOpen),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_question_is_refused_alone(what: str) -> None:
    change, error = WRONG[what]
    arena = Arena()

    effects = together(arena, Asked("a", replace(question("a", 1), **change)), Asked("b", question("b", 1)))  # type: ignore[arg-type]

    (refused,) = (effect for effect in effects if isinstance(effect, Refuse))
    assert (refused.host, type(refused.error)) == ("a", error)
    assert [effect.host for effect in effects if isinstance(effect, Reply)] == ["b"]
    assert [type(effect) for effect in together(arena, Asked("a", question("a", 1)))].count(Reply) == 1


def test_a_repetition_among_new_questions_is_answered_from_the_ledger() -> None:
    arena = Arena()
    arena.hand(Asked("a", question("a", 1)))

    effects = together(arena, Asked("b", question("b", 1)), Asked("a", question("a", 1)))
    other = replace(question("a", 1), x=np.zeros((2, P)))
    refused = together(arena, Asked("a", other))

    assert sorted(effect.host for effect in effects if isinstance(effect, Reply)) == ["a", "b"]
    (refuse,) = refused
    assert isinstance(refuse, Refuse)
    assert isinstance(refuse.error, AlreadyAsked)


def test_questions_that_wait_for_functions_are_evaluated_as_one() -> None:
    referee = new_referee(history=1)
    referee.seat(list(SEATS.items()))
    for host in SEATS:
        assert not any(isinstance(effect, Evaluate) for effect in referee.handle(Asked(host, question(host, 1))))

    (evaluate,) = referee.handle(Played(1))

    assert isinstance(evaluate, Evaluate)
    assert [each.host for each in evaluate.batch.asked] == ["a", "b"]
    assert {effect.host for effect in referee.handle(evaluated(evaluate)) if isinstance(effect, Reply)} == set(SEATS)


# The journal


@pytest.mark.parametrize("tangents", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("seats", [([0, 1], [2, 4]), ([0, 4], [1, 2])])
def test_a_batch_is_one_record_and_comes_back_to_the_bit(
    seats: tuple[list[int], ...], first: bool, tangents: bool
) -> None:
    batch = joined([asked(f"agent-{i}", agents, first=first, anchored=tangents) for i, agents in enumerate(seats)])
    assert batch is not None
    entry = bought(batch, values(4, tangents=tangents))

    kind, round, pieces = encode(entry)
    back = decode(SealedRecord(kind, round, b"".join(pieces)))

    assert kind == EntryKind.BATCH
    assert isinstance(back, BatchPurchase)
    assert encode(back)[2][0] == pieces[0]
    assert b"".join(encode(back)[2]) == b"".join(pieces)
    for one, other in zip(purchases(entry), purchases(back), strict=True):
        assert (one.asked.host, one.asked.at) == (other.asked.host, other.asked.at)
        assert bits(one.asked.question) == bits(other.asked.question)
        assert same(one.values.g, other.values.g)


def test_a_single_question_is_a_purchase_as_before() -> None:
    batch = joined([asked("a", [3])])
    assert batch is not None

    assert isinstance(bought(batch, values(1)), Purchase)


def journal_with(folder: Path) -> Iterator[BatchPurchase]:
    """Append batches of all agents of five rounds to a new journal, and yield them."""
    journal = AdversaryJournal.open(folder, "run")
    journal.append(SeatingEntry(tuple(SEATS.items())))
    for round in range(1, 6):
        batch = joined([asked("a", [0, 2], round=round), asked("b", [1, 3, 4], round=round)])
        assert batch is not None
        entry = BatchPurchase(batch, values(N))
        journal.append(entry)
        yield entry
    journal.close()


def test_the_history_of_agents_is_found_in_batches(tmp_path: Path) -> None:
    entries = list(journal_with(tmp_path))

    for agents in ([0], [1, 2], [0, 1, 2, 3, 4]):
        found = list(purchases_of(tmp_path, np.array(agents), 2, 4))

        assert [each.round for each, _ in found] == [2, 3, 4]
        for (past, answer), entry in zip(found, entries[1:4], strict=True):
            assert bits(past) == bits(select_agents(entry.batch.question, np.array(agents)))
            assert same(answer.values.f, select_values(entry.values, np.array(agents)).f)


def test_a_torn_batch_means_that_nobody_of_it_was_answered(tmp_path: Path) -> None:
    list(journal_with(tmp_path))
    path = tmp_path / "journal" / "adversary"
    whole = path.read_bytes()
    for cut in (1, 40, 200):
        path.write_bytes(whole[:-cut])
        again = AdversaryJournal.open(tmp_path, "run", again=True)
        rounds = [each.batch.question.round for each in again.replay() if isinstance(each, BatchPurchase)]
        again.close()
        assert rounds == [1, 2, 3, 4]

    bought_by = [(each.asked.host, each.asked.question.round) for each in read(tmp_path) if isinstance(each, Purchase)]
    assert bought_by == [(host, t) for t in range(1, 5) for host in ("a", "b")]


def test_the_purchases_of_a_batch_merge_to_its_question(tmp_path: Path) -> None:
    entry = next(journal_with(tmp_path))

    merged, answer = merge_purchases(list(purchases(entry)))

    assert bits(merged) == bits(entry.batch.question)
    assert same(answer.values.f, entry.values.f)
