"""Messages of slaternet.v1.Plugin: what goes in comes out, and what does not fit is refused."""

import contextlib
import dataclasses
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.codec import plugin as wire
from slaternet.codec.plugin import (
    DescribeReply,
    DescribeRequest,
    EvaluateReply,
    EvaluateRequest,
    Methods,
    PlayRequest,
    ScoreReply,
    ScoreRequest,
)
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.v1 import plugin_pb2 as pb

RANDOM = np.random.default_rng(2)
AGENTS = np.array([0, 3, 65535])
POINTS = RANDOM.standard_normal((3, 2, 4))
ALL = EvaluateRequest("a", 7, AGENTS, POINTS, *(True,) * 5)
K, S, P, M = 3, 2, 4, 2
VALUES = EvaluateReply(
    RANDOM.standard_normal((K, S)),
    RANDOM.standard_normal((K, S, M)),
    RANDOM.standard_normal((K, S, P)),
    RANDOM.standard_normal((K, S, M, P)),
    (RANDOM.standard_normal((P, P)), RANDOM.standard_normal(P), 0.1),
    (RANDOM.standard_normal((K * M, P)), RANDOM.standard_normal(K * M)),
)


def same(one: Any, other: Any) -> bool:
    """Say whether two records are equal, arrays to the bit; a decoded array may be flat."""
    if isinstance(one, np.ndarray):
        return one.tobytes() == other.tobytes()
    if isinstance(one, tuple):
        return all(map(same, one, other))
    if dataclasses.is_dataclass(one):
        return type(one) is type(other) and all(
            same(getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(one)
        )
    return bool(one == other)


ROUND_TRIPS: list[tuple[Any, Callable[[Any], bytes], Callable[[bytes], Any]]] = [
    (DescribeRequest(9, 3, 2**64 - 1, "{}", '{"a":1}', True), wire.encode_describe, wire.decode_describe),
    (DescribeReply("é" * 32, 4096), wire.encode_described, wire.decode_described),
    (DescribeReply("a", 0, 3, True, Methods(), "0f" * 32), wire.encode_described, wire.decode_described),
    (Methods(True, False, True, False, True), wire.encode_played, wire.decode_played),
    (PlayRequest("a", 1, 1, np.empty((0, 5, 2))), wire.encode_play, wire.decode_play),
    (PlayRequest("a", 7, 3, np.array([[[np.nan, -0.0]], [[np.inf, 5e-324]]])), wire.encode_play, wire.decode_play),
    (ALL, wire.encode_evaluate, wire.decode_evaluate),
    (EvaluateRequest("a", 7, AGENTS, POINTS[:, :0], linear=True), wire.encode_evaluate, wire.decode_evaluate),
    (VALUES, wire.encode_evaluated, lambda data: wire.decode_evaluated(data, ALL, P, M)),
    (ScoreRequest("a", 7, AGENTS, POINTS[0]), wire.encode_score, wire.decode_score),
    (ScoreReply(np.array([np.nan, 1.0]), np.zeros(2)), wire.encode_scored, lambda data: wire.decode_scored(data, 2)),
]


@pytest.mark.parametrize(("body", "encode", "decode"), ROUND_TRIPS)
def test_what_goes_in_comes_out_to_the_bit(
    body: Any, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]
) -> None:
    assert same(body, decode(encode(body)))


@pytest.mark.parametrize(("body", "encode", "decode"), ROUND_TRIPS)
def test_bytes_that_are_no_message_are_malformed(
    body: Any, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]
) -> None:
    with pytest.raises(Malformed):
        decode(encode(body) + b"\xff")


@given(data=st.binary(max_size=300))
def test_any_bytes_are_decoded_or_malformed(data: bytes) -> None:
    for _, _, decode in ROUND_TRIPS:
        with contextlib.suppress(Malformed):
            decode(data)


def test_what_was_not_asked_for_is_not_read() -> None:
    data = wire.encode_evaluated(VALUES)
    answer = wire.decode_evaluated(data, EvaluateRequest("a", 7, AGENTS, POINTS, loss_gradient=True), P, M)
    assert same(answer, EvaluateReply(loss_gradient=VALUES.loss_gradient))


@pytest.mark.parametrize("field", ["f", "g", "loss_gradient", "constraint_gradient", "quadratic", "linear"])
@pytest.mark.parametrize("change", [-8, -1, 1, 8])
def test_every_array_of_an_answer_has_the_size_that_was_asked_for(field: str, change: int) -> None:
    message = pb.EvaluateReply.FromString(wire.encode_evaluated(VALUES))
    data = getattr(message, field)
    setattr(message, field, data[:change] if change < 0 else data + bytes(change))
    with pytest.raises(Malformed):
        wire.decode_evaluated(message.SerializeToString(), ALL, P, M)


REFUSED = [
    (wire.decode_describe, pb.DescribeRequest(dimension=3)),
    (wire.decode_describe, pb.DescribeRequest(agents=3)),
    (wire.decode_describe, pb.DescribeRequest(agents=LIMITS.agents + 1, dimension=3)),
    (wire.decode_describe, pb.DescribeRequest(agents=3, dimension=LIMITS.dimension + 1)),
    (wire.decode_describe, pb.DescribeRequest(agents=3, dimension=3, options="x" * (LIMITS.spec_bytes + 1))),
    (wire.decode_described, pb.DescribeReply(constraints=1)),
    (wire.decode_described, pb.DescribeReply(instance="é" * 33)),
    (wire.decode_described, pb.DescribeReply(instance="a", constraints=LIMITS.constraints + 1)),
    (wire.decode_described, pb.DescribeReply(instance="a", version="0F" * 32)),
    (wire.decode_play, pb.PlayRequest(instance="a")),
    (wire.decode_play, pb.PlayRequest(instance="a", round=1, past=b"1234567")),
    (wire.decode_evaluate, pb.EvaluateRequest(instance="a", round=1)),
    (wire.decode_evaluate, pb.EvaluateRequest(instance="a", round=1, agents=bytes(8))),
    (wire.decode_evaluate, pb.EvaluateRequest(instance="a", round=1, agents=bytes(4), data=bytes(8))),
    (wire.decode_evaluate, pb.EvaluateRequest(instance="a", round=1, agents=bytes(4), points=2, data=bytes(24))),
    (wire.decode_evaluate, pb.EvaluateRequest(instance="a", round=1, agents=bytes(4), points=LIMITS.points + 1)),
    (wire.decode_score, pb.ScoreRequest(instance="a", round=1, points=bytes(8))),
]


@pytest.mark.parametrize(("decode", "message"), REFUSED)
def test_what_breaks_a_rule_is_malformed(decode: Callable[[bytes], Any], message: Any) -> None:
    with pytest.raises(Malformed):
        decode(message.SerializeToString())


def test_a_claim_allocates_nothing() -> None:
    """A question of 2^17 points may be claimed in a few bytes, and its answer would be gigabytes."""
    claim = pb.EvaluateRequest(instance="a", round=1, agents=bytes(4), points=LIMITS.points, values=True)
    asked = EvaluateRequest("a", 1, np.arange(1000), np.empty((1000, 0, 0)), linear=True, quadratic=True)
    tracemalloc.start()
    try:
        assert wire.decode_evaluate(claim.SerializeToString()).points.size == 0
        with pytest.raises(Malformed):
            wire.decode_evaluated(b"", asked, LIMITS.dimension, LIMITS.constraints)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_equal_tables_are_equal_texts_and_numbers_keep_their_kind() -> None:
    table = {"b": 1.0, "a": [1, 0.1, True, "é"], "c": {"y": 1e300, "x": -0.0}}
    text = wire.to_json(table)
    assert text == wire.to_json(dict(reversed(table.items())))
    assert repr(wire.from_json(text)["b"]) == "1.0"
    assert wire.from_json(text) == table


@pytest.mark.parametrize("text", ["", "[]", "1", "{", "[" * 100_000])
def test_a_table_is_a_json_object(text: str) -> None:
    with pytest.raises(Malformed, match="JSON object"):
        wire.from_json(text)
