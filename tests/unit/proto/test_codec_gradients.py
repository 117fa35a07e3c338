"""Anchors and gradients on the wire: what is flagged is there, exactly, and nothing else is."""

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet import codec
from slaternet.errors import Malformed, OverBudget
from slaternet.limits import LIMITS
from slaternet.model import Answer, Array, Head, Question, ValueAndGradient, Values
from slaternet.v1 import adversary_pb2 as pb
from slaternet.v1 import common_pb2

HEAD = Head("run-1", 2, 7, "host-1")
PB_HEAD = common_pb2.Head(run="run-1", epoch=2, round=7, sender="host-1")
P = 5
KINDS = [(True, False), (False, True), (True, True)]


def numbers(*shape: int) -> Array:
    return np.random.default_rng(math.prod(shape)).standard_normal(shape)


def question(k: int, s: int, p: int, loss: bool, constraint: bool) -> Question:
    return Question(
        7,
        np.arange(k),
        numbers(k, p),
        numbers(k, s, p),
        anchor=numbers(k, p) + 1.0,
        loss_gradient=loss,
        constraint_gradient=constraint,
    )


def answer(k: int, s: int, m: int, p: int, loss: bool, constraint: bool) -> Answer:
    return Answer(
        7,
        np.arange(k),
        Values(
            numbers(k, s),
            numbers(k, s, m),
            ValueAndGradient(numbers(k) + 1.0, numbers(k, p) + 2.0) if loss else None,
            ValueAndGradient(numbers(k, m) + 3.0, numbers(k, m, p) + 4.0) if constraint else None,
        ),
    )


def asked(messages: list[bytes], p: int) -> Question:
    decoder = codec.RevealUpDecoder(p)
    *unfinished, decoded = [decoder.decode(message) for message in messages]
    assert unfinished == [None] * len(unfinished)
    assert decoded is not None
    assert isinstance(decoded[1], Question)
    return decoded[1]


def answered(messages: list[bytes]) -> Answer:
    decoder = codec.RevealDownDecoder()
    *unfinished, decoded = [decoder.decode(message) for message in messages]
    assert unfinished == [None] * len(unfinished)
    assert decoded is not None
    assert isinstance(decoded[1], Answer)
    return decoded[1]


def same(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and one.tobytes() == other.tobytes() and one.flags.c_contiguous


def same_tangent(one: ValueAndGradient | None, other: ValueAndGradient | None) -> bool:
    if one is None or other is None:
        return one is other
    return same(one.value, other.value) and same(one.gradient, other.gradient)


@given(k=st.integers(1, 4), s=st.integers(0, 3), m=st.integers(0, 3), p=st.integers(1, 4), kinds=st.sampled_from(KINDS))
@settings(max_examples=100)
def test_anchors_and_gradients_come_back_to_the_bit(k: int, s: int, m: int, p: int, kinds: tuple[bool, bool]) -> None:
    up, down = question(k, s, p, *kinds), answer(k, s, m, p, *kinds)

    heard = asked(codec.encode_reveal_up(HEAD, up), p)
    told = answered(codec.encode_reveal_down(HEAD, down)).values

    assert (heard.loss_gradient, heard.constraint_gradient) == kinds
    assert all(map(same, (heard.x, heard.points, heard.anchor), (up.x, up.points, up.anchor)))
    assert all(map(same, (told.f, told.g), (down.values.f, down.values.g)))
    assert same_tangent(told.loss, down.values.loss)
    assert same_tangent(told.constraint, down.values.constraint)


@pytest.mark.parametrize("kinds", [(False, False), *KINDS])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(("k", "w"), [(1, 1), (3, 7), (40, 9000)])
def test_a_memo_ends_a_question_and_comes_back_to_the_bit(
    kinds: tuple[bool, bool], first: bool, k: int, w: int
) -> None:
    points = numbers(k, 2, P)
    anchor, x = numbers(k, P) if any(kinds) else None, points[:, 0] if first else numbers(k, P) - 1.0
    up = Question(7, np.arange(k), x, points, anchor, *kinds, first, memo=numbers(k, w) + 2.0)

    heard = asked(codec.encode_reveal_up(HEAD, up), P)

    assert all(map(same, (heard.points, heard.anchor, heard.memo), (up.points, up.anchor, up.memo)))
    assert heard.x.tobytes() == up.x.tobytes()
    assert heard.x_is_first_point == first


def test_a_question_with_a_memo_is_as_large_as_is_said_of_it() -> None:
    up = replace(question(3, 2, P, True, False), memo=numbers(3, 4))
    (message,) = codec.encode_reveal_up(HEAD, up)
    data = pb.RevealUp.FromString(message).question.data

    assert len(data) == codec.question_bytes(3, P, 2, anchored=True, memo=4)
    assert codec.question_bytes(3, P, 2, anchored=True) == len(data) - 8 * 3 * 4


def test_a_memo_above_what_the_game_has_is_refused_with_the_first_part() -> None:
    up = replace(question(40, 1, P, True, False), memo=numbers(40, 9000))
    decoder = codec.RevealUpDecoder(P, largest=codec.question_bytes(40, P, 1, anchored=True, memo=8999))

    with pytest.raises(OverBudget, match="larger than any"):
        decoder.decode(codec.encode_reveal_up(HEAD, up)[0])


@pytest.mark.parametrize("memo", [3, 5, LIMITS.memo + 1])
def test_a_memo_of_another_width_than_is_said_is_malformed(memo: int) -> None:
    (message,) = codec.encode_reveal_up(HEAD, replace(question(3, 2, P, True, False), memo=numbers(3, 4)))
    forged = pb.RevealUp.FromString(message)
    forged.question.memo = memo

    with pytest.raises(Malformed):
        codec.RevealUpDecoder(P).decode(forged.SerializeToString())


def test_a_memo_is_finite() -> None:
    memo = numbers(3, 4)
    memo[2, 3] = np.nan
    (message,) = codec.encode_reveal_up(HEAD, replace(question(3, 2, P, True, False), memo=memo))

    with pytest.raises(Malformed, match="finite"):
        codec.RevealUpDecoder(P).decode(message)


def test_gradients_travel_in_parts() -> None:
    up, down = question(40, 1, 3000, True, True), answer(40, 1, 3, 3000, True, True)
    questions, answers = codec.encode_reveal_up(HEAD, up), codec.encode_reveal_down(HEAD, down)
    assert len(questions) > 1
    assert len(answers) > 1

    assert same(asked(questions, 3000).anchor, up.anchor)
    told = answered(answers).values
    assert same_tangent(told.loss, down.values.loss)
    assert same_tangent(told.constraint, down.values.constraint)


def test_parts_of_one_payload_agree_on_what_is_asked_for() -> None:
    questions = codec.encode_reveal_up(HEAD, question(40, 1, 3000, True, False))
    others = codec.encode_reveal_up(HEAD, question(40, 1, 3000, False, True))
    decoder = codec.RevealUpDecoder(3000)
    decoder.decode(questions[0])

    with pytest.raises(Malformed, match="parts"):
        decoder.decode(others[1])


def test_a_game_without_gradients_sends_the_bytes_it_always_sent() -> None:
    up = Question(7, np.arange(2), numbers(2, P), numbers(2, 1, P))
    down = Answer(7, np.arange(2), Values(numbers(2, 1), numbers(2, 1, 3)))
    agents = np.arange(2, dtype="<u4").tobytes()

    plain = pb.Question(agents=agents, points=1, data=up.x.tobytes() + up.points.tobytes())
    assert codec.encode_reveal_up(HEAD, up) == [pb.RevealUp(head=PB_HEAD, question=plain).SerializeToString()]
    values = pb.Answer(agents=agents, points=1, constraints=3, data=down.values.f.tobytes() + down.values.g.tobytes())
    assert codec.encode_reveal_down(HEAD, down) == [pb.RevealDown(head=PB_HEAD, answer=values).SerializeToString()]


# Hostile messages: two agents, one point, three constraints, all gradients


def up(**fields: Any) -> bytes:
    sound = {"agents": np.arange(2, dtype="<u4").tobytes(), "points": 1, "data": floats(2 * P * 3)}
    message = pb.Question(**{**sound, "loss_gradient": True, "constraint_gradient": True, **fields})
    return pb.RevealUp(head=PB_HEAD, question=message).SerializeToString()


def down(**fields: Any) -> bytes:
    sound = {"agents": np.arange(2, dtype="<u4").tobytes(), "points": 1, "constraints": 3, "dimension": P}
    data = floats(2 * (4 + (1 + P) + 3 * (1 + P)))
    message = pb.Answer(**{**sound, "data": data, "loss_gradient": True, "constraint_gradient": True, **fields})
    return pb.RevealDown(head=PB_HEAD, answer=message).SerializeToString()


def floats(count: int, *, last: float = 1.0) -> bytes:
    return np.array([1.0] * (count - 1) + [last], "<f8").tobytes()


def test_the_messages_these_are_made_from_are_sound() -> None:
    assert asked([up()], P).anchor is not None
    assert answered([down()]).values.constraint is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"loss_gradient": False, "constraint_gradient": False},
        {"data": floats(2 * P * 2)},
        {"data": floats(2 * P * 3 - 1)},
        {"data": floats(2 * P * 3 + 1)},
        {"data": floats(2 * P * 3)[:-1]},
        {"data": b""},
        {"data": floats(2 * P * 3, last=math.nan)},
        {"data": floats(2 * P * 3, last=-math.inf)},
        {"points": 2},
        {"points": 0},
        {"points": LIMITS.points + 1},
    ],
)
def test_a_faulty_question_for_gradients_is_malformed(fields: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        codec.RevealUpDecoder(P).decode(up(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"loss_gradient": False},
        {"constraint_gradient": False},
        {"loss_gradient": False, "constraint_gradient": False},
        {"loss_gradient": False, "constraint_gradient": False, "data": floats(2 * 4)},
        {"dimension": 0},
        {"dimension": 0, "data": floats(2 * 8)},
        {"dimension": P + 1},
        {"dimension": LIMITS.dimension + 1},
        {"dimension": (1 << 32) - 1},
        {"constraints": 2},
        {"points": 2},
        {"data": floats(2 * 4)},
        {"data": floats(2 * 28 + 1)},
        {"data": floats(2 * 28, last=math.nan)},
        {"data": floats(2 * 28, last=math.inf)},
    ],
)
def test_a_faulty_answer_with_gradients_is_malformed(fields: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        codec.RevealDownDecoder().decode(down(**fields))


def test_huge_gradients_that_are_not_there_allocate_nothing() -> None:
    claims = {"points": LIMITS.points, "constraints": LIMITS.constraints, "dimension": LIMITS.dimension}
    tracemalloc.start()
    try:
        for parts in (0, 2, LIMITS.parts):
            with pytest.raises(Malformed):
                codec.RevealDownDecoder().decode(down(**claims, parts=parts))
            with pytest.raises(Malformed):
                codec.RevealUpDecoder(LIMITS.dimension).decode(up(points=LIMITS.points, parts=parts))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
