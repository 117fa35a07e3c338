"""What is no message, and messages of every round that are wrong: Malformed, whatever was expected."""

import dataclasses
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.wire_samples import DECODERS, HEAD, PB_HEAD, SOUND, Decode, floats, ids

from slaternet import codec, model
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import Head
from slaternet.v1 import adversary_pb2, agent_pb2, common_pb2, coordinator_pb2


@pytest.mark.parametrize("make", DECODERS)
@pytest.mark.parametrize("data", [b"", b"\xff", b"\xff" * 1000, b"\x00", b"hello", b"\x0a\x05ab", bytes(2 << 20)])
def test_garbage_is_malformed_whatever_was_expected(make: Callable[[], Decode], data: bytes) -> None:
    with pytest.raises(Malformed):
        make()(data)


@pytest.mark.parametrize("index", range(len(SOUND)))
def test_a_truncated_message_is_malformed_or_another_message(index: int) -> None:
    data, make = SOUND[index]
    for length in range(len(data)):
        _judge(make(), data[:length])


def _judge(decode: Decode, data: bytes) -> None:
    """Decode what may be anything; whatever passes has finite numbers and a head, and is not worth another error."""
    try:
        decoded = decode(data)
    except Malformed:
        return
    if decoded is not None:
        head = decoded if isinstance(decoded, Head) else decoded[0]
        assert 1 <= len(head.sender.encode()) <= 64
        assert _all_finite(decoded)


def _all_finite(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return bool(np.isfinite(value).all())
    if isinstance(value, tuple):
        return all(map(_all_finite, value))
    if dataclasses.is_dataclass(value):
        return all(_all_finite(getattr(value, field.name)) for field in dataclasses.fields(value))
    return not isinstance(value, float) or math.isfinite(value)


@settings(max_examples=400)
@given(st.data())
def test_mutated_messages_are_malformed_or_sound(data: st.DataObject) -> None:
    original, make = data.draw(st.sampled_from(SOUND))
    mutated = bytearray(original)
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(mutated)))
        match data.draw(st.sampled_from(["change", "insert", "delete", "repeat"])):
            case "change" if place < len(mutated):
                mutated[place] = data.draw(st.integers(0, 255))
            case "insert":
                mutated[place:place] = data.draw(st.binary(max_size=12))
            case "delete":
                del mutated[place : place + data.draw(st.integers(1, 12))]
            case _:
                mutated += mutated[place:]
    _judge(make(), bytes(mutated))


Pb = adversary_pb2


F8 = np.ones(100).tobytes()


def _frame(**fields: Any) -> bytes:
    frame = {"agents": ids(0, 1), "rows": F8[: 2 * 5 * 8], **fields}
    return agent_pb2.GossipMessage(head=PB_HEAD, frame=agent_pb2.Frame(**frame)).SerializeToString()


BAD_FRAMES: dict[str, dict[str, Any]] = {
    "no agents": {"agents": b"", "rows": b""},
    "unsorted": {"agents": ids(1, 0)},
    "duplicate": {"agents": ids(1, 1)},
    "beyond the game": {"agents": ids(0, 9)},
    "beyond every game": {"agents": ids(0, 1 << 31)},
    "ids cut": {"agents": ids(0, 1)[:-1]},
    "rows cut": {"rows": F8[: 2 * 5 * 8 - 1]},
    "a row missing": {"rows": F8[: 5 * 8]},
    "a row too many": {"rows": F8[: 3 * 5 * 8]},
    "no rows": {"rows": b""},
    "NaN": {"rows": floats(*[1.0] * 9, math.nan)},
    "infinity": {"rows": floats(math.inf, *[1.0] * 9)},
    "minus infinity": {"rows": floats(*[1.0] * 5, -math.inf, *[1.0] * 4)},
    "a part of nothing": {"part": 1},
    "a part beyond the last": {"part": 2, "parts": 2},
    "parts beyond the limit": {"parts": 4097},
    "more agents than the game has": {"agents": np.arange(200_000, dtype="<u4").tobytes()},
}


def test_the_frame_these_are_made_from_is_sound() -> None:
    assert codec.GossipDecoder(5, agents=8).decode(_frame()) is not None


@pytest.mark.parametrize("fault", BAD_FRAMES)
def test_a_faulty_frame_is_malformed(fault: str) -> None:
    with pytest.raises(Malformed):
        codec.GossipDecoder(5, agents=8).decode(_frame(**BAD_FRAMES[fault]))


GOOD_HEAD: dict[str, Any] = {"run": "r", "epoch": 1, "round": 1, "sender": "s"}
BAD_HEADS: dict[str, dict[str, Any] | None] = {
    "absent": None,
    "empty": {},
    "no run": {**GOOD_HEAD, "run": ""},
    "no sender": {**GOOD_HEAD, "sender": ""},
    "long run": {**GOOD_HEAD, "run": "r" * 65},
    "long sender": {**GOOD_HEAD, "sender": "é" * 33},
    "round zero": {**GOOD_HEAD, "round": 0},
    "round beyond every game": {**GOOD_HEAD, "round": 1 << 63},
}


@pytest.mark.parametrize("fault", BAD_HEADS)
def test_a_faulty_head_is_malformed(fault: str) -> None:
    fields = BAD_HEADS[fault]
    head = None if fields is None else common_pb2.Head(**fields)
    frame = agent_pb2.Frame(agents=ids(0), rows=F8[:40])
    question = Pb.Question(agents=ids(0), data=F8[:40])
    answer = Pb.Answer(agents=ids(0), points=5, data=F8[:40])
    for decode, message in (
        (codec.GossipDecoder(5).decode, agent_pb2.GossipMessage(head=head, frame=frame)),
        (codec.RevealUpDecoder(5).decode, Pb.RevealUp(head=head, question=question)),
        (codec.RevealDownDecoder().decode, Pb.RevealDown(head=head, answer=answer)),
    ):
        with pytest.raises(Malformed):
            decode(message.SerializeToString())


def test_bad_utf8_is_malformed() -> None:
    [data] = codec.encode_gossip(HEAD, model.ResendFrom(7))
    with pytest.raises(Malformed):
        codec.GossipDecoder(5).decode(data.replace(b"host-1", b"host-\xff"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: codec.GossipDecoder(5).decode, agent_pb2.GossipMessage(head=PB_HEAD)),
        (lambda: codec.RevealUpDecoder(5).decode, Pb.RevealUp(head=PB_HEAD)),
        (lambda: codec.RevealDownDecoder().decode, Pb.RevealDown(head=PB_HEAD)),
        (lambda: codec.decode_control_up, coordinator_pb2.ControlUp(head=PB_HEAD)),
        (lambda: codec.ControlDownDecoder().decode, coordinator_pb2.ControlDown(head=PB_HEAD)),
    ],
)
@pytest.mark.parametrize("extra", [b"", b"\xfa\x01\x00"], ids=["no body", "a body of an unknown kind"])
def test_a_message_without_a_known_body_is_malformed(make: Callable[[], Decode], message: Any, extra: bytes) -> None:
    with pytest.raises(Malformed):
        make()(message.SerializeToString() + extra)


def _question(**fields: Any) -> bytes:
    question = Pb.Question(**{"agents": ids(0, 1), "points": 1, "data": F8[: 2 * 5 * 2 * 8], **fields})
    return Pb.RevealUp(head=PB_HEAD, question=question).SerializeToString()


def _answer(**fields: Any) -> bytes:
    answer = Pb.Answer(**{"agents": ids(0, 1), "points": 2, "constraints": 3, "data": F8[: 2 * 2 * 4 * 8], **fields})
    return Pb.RevealDown(head=PB_HEAD, answer=answer).SerializeToString()


@pytest.mark.parametrize(
    "fields",
    [
        {"points": 2},
        {"points": LIMITS.points + 1},
        {"points": (1 << 32) - 1},
        {"points": LIMITS.points, "parts": 4096},
        {"memo": 1},
        {"memo": LIMITS.memo + 1},
        {"memo": (1 << 32) - 1},
        {"memo": 1, "data": floats(*[1.0] * 21, math.inf)},
        {"agents": b""},
        {"agents": ids(1, 0)},
        {"data": F8[:8]},
        {"data": floats(*[1.0] * 19, math.nan)},
        {"x_is_first_point": True},  # and yet the decisions
        {"x_is_first_point": True, "points": 0, "data": b""},
    ],
)
def test_a_faulty_question_is_malformed(fields: dict[str, Any]) -> None:
    decoder = codec.RevealUpDecoder(LIMITS.dimension if "parts" in fields else 5)
    with pytest.raises(Malformed):
        decoder.decode(_question(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"waited": math.inf},
        {"waited": math.nan},
        {"waited": -1.0},
        {"frames": 1 << 51},
        {"bytes_sent": 1 << 63},
        {"bytes_received": (1 << 64) - 1},
        {"rows": 1 << 51},
        {"gossip_bytes": (1 << 64) - 1},
    ],
)
def test_a_faulty_usage_is_malformed(fields: dict[str, Any]) -> None:
    with pytest.raises(Malformed, match="a usage"):
        codec.RevealUpDecoder(5).decode(Pb.RevealUp(head=PB_HEAD, usage=Pb.Usage(**fields)).SerializeToString())


@pytest.mark.parametrize(
    "fields",
    [
        {"points": 3},
        {"constraints": 4},
        {"constraints": LIMITS.constraints + 1},
        {"points": LIMITS.points, "constraints": LIMITS.constraints},
        {"points": (1 << 32) - 1, "constraints": (1 << 32) - 1},
        {"agents": b""},
        {"agents": ids(3, 3)},
        {"data": floats(*[1.0] * 15, -math.inf)},
    ],
)
def test_a_faulty_answer_is_malformed(fields: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        codec.RevealDownDecoder().decode(_answer(**fields))


def test_a_huge_shape_with_a_small_payload_allocates_nothing() -> None:
    seats = np.arange(LIMITS.agents, dtype="<u4").tobytes()
    frame, question = _frame(agents=seats, parts=4096), _question(agents=seats, points=LIMITS.points, parts=4096)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            codec.GossipDecoder(LIMITS.dimension).decode(frame)
        with pytest.raises(Malformed):
            codec.RevealUpDecoder(LIMITS.dimension).decode(question)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_refusal_repeats_nothing_of_the_message() -> None:
    head = common_pb2.Head(run="secret" * 20, sender="secret")
    with pytest.raises(Malformed) as caught:
        codec.decode_stop_request(coordinator_pb2.StopRequest(head=head).SerializeToString())
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
