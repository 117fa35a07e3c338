import dataclasses
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet import codec, model
from slaternet.codec.parts import split
from slaternet.errors import Malformed, OverBudget
from slaternet.limits import LIMITS
from slaternet.model import Frame, Head, Question
from slaternet.v1 import adversary_pb2, agent_pb2, common_pb2, coordinator_pb2

HEAD = Head("run-1", 2, 7, "host-1")
STRANGER = Head("", 0, 0, "host-1")
PB_HEAD = common_pb2.Head(run="run-1", epoch=2, round=7, sender="host-1")
SEATS = np.array([0, 3, 4])
RANDOM = np.random.default_rng(3)
TICKET = bytes(range(32))
DESCRIPTION = model.Description(2, True, False, 3, False, "0f" * 32)
PEER = model.Peer("host-2", "10.0.0.2:70", 4, np.array([1, 2]), TICKET, b"")
TOPOLOGY = model.Topology(
    round=7,
    rounds=2,
    starts=np.array([0, 2, 3, 5, 6]),
    columns=np.array([0, 1, 1, 0, 65535, 1]),
    weights=np.array([0.5, 0.5, 1.0, 0.25, 0.75, 1.0]),
    debts=np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 0, 1]]),
    low_water=3,
)
STATUS = model.Status(
    7,
    "playing",
    9,
    100,
    64,
    1.5,
    0.25,
    (model.HostStatus("host-1", "h:1", 3, 5, True),),
    "who lacks",
    "what failed",
    (model.Breach("OverBudget", "host-1", 3, "adversary"), model.Breach("Unknown", "", 1 << 40, "coordinator")),
)

UNARY: list[tuple[Callable[..., bytes], Callable[[bytes], Any], Head, Any]] = [
    (codec.encode_join, codec.decode_join, STRANGER, model.Join(model.Role.ADVERSARY, "h:1", 5, 1, "ab" * 32)),
    (codec.encode_welcome, codec.decode_welcome, HEAD, model.Welcome(3, TICKET, "[run]\nname = 'ü'\n")),
    (codec.encode_welcome, codec.decode_welcome, HEAD, model.Challenge(TICKET)),
    (codec.encode_status_request, codec.decode_status_request, STRANGER, True),
    (codec.encode_status_request, codec.decode_status_request, STRANGER, False),
    (codec.encode_status_reply, codec.decode_status_reply, HEAD, STATUS),
]
HEADS_ONLY: list[tuple[Callable[[Head], bytes], Callable[[bytes], Head], Head]] = [
    (codec.encode_stop_request, codec.decode_stop_request, HEAD),
    (codec.encode_stop_reply, codec.decode_stop_reply, HEAD),
]
CONTROL_UP: list[model.ControlUp] = [
    model.Opening(1, TICKET, 9),
    model.Heartbeat(),
    DESCRIPTION,
    model.Description(0),
    model.Progress(7, 1.5, 0.25),
    model.Progress(7),
    model.Holding(7),
    model.Finished(),
    model.Acknowledged(),
    model.Failed("the disk is full; make room"),
    model.Refusals((model.Breach("OverBudget", "host-1", 3), model.Breach("Unknown", "", 1))),
    model.Refusals(()),
]
CONTROL_DOWN: list[model.ControlDown] = [
    model.Heartbeat(),
    model.Seating(SEATS, (PEER, dataclasses.replace(PEER, accept=TICKET)), PEER, DESCRIPTION),
    model.Seating(np.array([], np.intp), ()),
    model.Seating(SEATS, (PEER,), PEER, DESCRIPTION, (model.Departure(9, SEATS),), 64, recall=True),
    TOPOLOGY,
    dataclasses.replace(TOPOLOGY, debts=np.empty((0, 3), np.intp)),
    model.Hold(),
    model.StopAt(7),
    model.LowWater(7),
    model.Over(),
    model.Over("host-2 died; start it again"),
]
GOSSIP: list[model.Gossip] = [
    model.Opening(1, TICKET, 9),
    model.Wanted(7),
    model.Heartbeat(),
    Frame(7, SEATS, RANDOM.standard_normal((3, 5))),
]
REVEAL_UP: list[model.RevealUp] = [
    model.Opening(1, TICKET),
    model.Heartbeat(),
    Question(
        7, SEATS, RANDOM.standard_normal((3, 5)), RANDOM.standard_normal((3, 2, 5)), model.Effort(2, 1 << 40, 0.125, 9)
    ),
    Question(7, SEATS, RANDOM.standard_normal((3, 5)), np.empty((3, 0, 5))),
    Question(
        7,
        SEATS,
        RANDOM.standard_normal((3, 5)),
        RANDOM.standard_normal((3, 2, 5)),
        anchor=RANDOM.standard_normal((3, 5)),
        loss_gradient=True,
        constraint_gradient=True,
    ),
    model.Closing(model.Effort(1, 2, 3.0, 4)),
    model.Closing(model.Effort()),
    model.Recall(7, 64, SEATS),
]
REVEAL_DOWN: list[model.RevealDown] = [
    model.Heartbeat(),
    model.Answer(7, SEATS, RANDOM.standard_normal((3, 2)), RANDOM.standard_normal((3, 2, 4))),
    model.Answer(7, SEATS, RANDOM.standard_normal((3, 2)), np.empty((3, 2, 0))),
    model.Answer(7, SEATS, np.empty((3, 0)), np.empty((3, 0, 4))),
    Question(7, SEATS, RANDOM.standard_normal((3, 5)), RANDOM.standard_normal((3, 2, 5))),
    model.Answer(
        7,
        SEATS,
        RANDOM.standard_normal((3, 2)),
        RANDOM.standard_normal((3, 2, 4)),
        model.Tangent(RANDOM.standard_normal(3), RANDOM.standard_normal((3, 5))),
        model.Tangent(RANDOM.standard_normal((3, 4)), RANDOM.standard_normal((3, 4, 5))),
    ),
]

Decode = Callable[[bytes], Any]
SOUND: list[tuple[bytes, Callable[[], Decode]]] = [
    *((encode(head, body), lambda decode=decode: decode) for encode, decode, head, body in UNARY),
    *((encode(head), lambda decode=decode: decode) for encode, decode, head in HEADS_ONLY),
    *((codec.encode_control_up(HEAD, body), lambda: codec.decode_control_up) for body in CONTROL_UP),
    *((codec.encode_control_down(HEAD, body)[0], lambda: codec.ControlDownDecoder().decode) for body in CONTROL_DOWN),
    *((codec.encode_gossip(HEAD, body)[0], lambda: codec.GossipDecoder(5).decode) for body in GOSSIP),
    *((codec.encode_reveal_up(HEAD, body)[0], lambda: codec.RevealUpDecoder(5).decode) for body in REVEAL_UP),
    *((codec.encode_reveal_down(HEAD, body)[0], lambda: codec.RevealDownDecoder(5).decode) for body in REVEAL_DOWN),
]
DECODERS: list[Callable[[], Decode]] = [
    *(make for _, make in SOUND[: len(UNARY) + len(HEADS_ONLY)]),
    lambda: codec.decode_control_up,
    lambda: codec.ControlDownDecoder().decode,
    lambda: codec.GossipDecoder(5).decode,
    lambda: codec.RevealUpDecoder(5).decode,
    lambda: codec.RevealDownDecoder(5).decode,
]


def _same(one: object, other: object) -> bool:
    """Compare records field by field, arrays bit by bit, with their kinds and shapes."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if dataclasses.is_dataclass(one) and type(one) is type(other):
        names = [field.name for field in dataclasses.fields(one)]
        return all(_same(getattr(one, name), getattr(other, name)) for name in names)
    return type(one) is type(other) and one == other


def _down(data: bytes) -> tuple[Head, model.ControlDown] | None:
    return codec.ControlDownDecoder().decode(data)


# Round trips


@pytest.mark.parametrize(("encode", "decode", "head", "body"), UNARY)
def test_a_unary_message_comes_back(encode: Callable[..., bytes], decode: Decode, head: Head, body: object) -> None:
    assert _same(decode(encode(head, body)), (head, body))


@pytest.mark.parametrize(("encode", "decode", "head"), HEADS_ONLY)
def test_a_head_comes_back(encode: Callable[[Head], bytes], decode: Decode, head: Head) -> None:
    assert decode(encode(head)) == head


@pytest.mark.parametrize("body", CONTROL_UP)
def test_what_goes_up_to_the_coordinator_comes_back(body: model.ControlUp) -> None:
    assert _same(codec.decode_control_up(codec.encode_control_up(HEAD, body)), (HEAD, body))


@pytest.mark.parametrize("body", CONTROL_DOWN)
def test_what_comes_down_from_the_coordinator_comes_back(body: model.ControlDown) -> None:
    [data] = codec.encode_control_down(HEAD, body)
    assert _same(_down(data), (HEAD, body))


@pytest.mark.parametrize("body", GOSSIP)
def test_gossip_comes_back(body: model.Gossip) -> None:
    [data] = codec.encode_gossip(HEAD, body)
    assert _same(codec.GossipDecoder(5).decode(data), (HEAD, body))


@pytest.mark.parametrize("body", REVEAL_UP)
def test_what_is_asked_comes_back(body: model.RevealUp) -> None:
    [data] = codec.encode_reveal_up(HEAD, body)
    assert _same(codec.RevealUpDecoder(5).decode(data), (HEAD, body))


@pytest.mark.parametrize("body", REVEAL_DOWN)
def test_what_is_answered_comes_back(body: model.RevealDown) -> None:
    [data] = codec.encode_reveal_down(HEAD, body)
    assert _same(codec.RevealDownDecoder(5).decode(data), (HEAD, body))


def test_the_largest_and_smallest_numbers_come_back_to_the_bit() -> None:
    rows = np.array([[1.7e308, -1.7e308, 5e-324, -0.0, math.pi]])
    [data] = codec.encode_gossip(HEAD, Frame(7, np.array([0]), rows))
    assert _same(codec.GossipDecoder(5).decode(data), (HEAD, Frame(7, np.array([0]), rows)))


def test_arrays_of_any_memory_order_are_sent_in_c_order() -> None:
    rows = RANDOM.standard_normal((5, 3))
    [data] = codec.encode_gossip(HEAD, Frame(7, SEATS, rows.T))
    assert _same(codec.GossipDecoder(5).decode(data), (HEAD, Frame(7, SEATS, np.ascontiguousarray(rows.T))))


def test_a_decoder_that_remembers_agents_notices_others() -> None:
    decoder = codec.GossipDecoder(1)
    for seats in ([0, 3], [0, 3], [0, 4], [1], [0, 3]):
        [data] = codec.encode_gossip(HEAD, Frame(7, np.array(seats), np.ones((len(seats), 1))))
        decoded = decoder.decode(data)
        assert decoded is not None
        assert isinstance(decoded[1], Frame)
        assert decoded[1].agents.tolist() == seats


def test_a_sentence_that_is_too_long_is_cut_by_the_sender() -> None:
    _, body = codec.decode_control_up(codec.encode_control_up(HEAD, model.Failed("é" * 1000)))
    assert body == model.Failed("é" * 512)


def test_fields_of_a_later_version_are_ignored() -> None:
    [data] = codec.encode_gossip(HEAD, model.Wanted(7))
    assert codec.GossipDecoder(5).decode(data + b"\xa2\x06\x03new") == (HEAD, model.Wanted(7))


# Parts


def _large(seed: int = 1) -> Frame:
    return Frame(7, np.arange(30), np.random.default_rng(seed).standard_normal((30, 13_000)))  # 3.0 MiB


def _pieces(frame: Frame) -> list[agent_pb2.GossipMessage]:
    return [agent_pb2.GossipMessage.FromString(data) for data in codec.encode_gossip(HEAD, frame)]


def test_parts_stay_below_the_message_limit_and_come_back_as_one() -> None:
    frame, decoder = _large(), codec.GossipDecoder(13_000)
    parts = codec.encode_gossip(HEAD, frame)
    assert len(parts) == 6
    assert all(len(part) < LIMITS.message_bytes for part in parts)
    for _ in range(2):  # a decoder starts afresh after each payload
        assert [decoder.decode(part) for part in parts[:-1]] == [None] * 5
        assert _same(decoder.decode(parts[-1]), (HEAD, frame))


def test_questions_and_answers_travel_in_parts_too() -> None:
    agents = np.arange(40)
    question = Question(7, agents, RANDOM.standard_normal((40, 3000)), RANDOM.standard_normal((40, 2, 3000)))
    answer = model.Answer(7, agents, RANDOM.standard_normal((40, 50)), RANDOM.standard_normal((40, 50, 150)))
    up, down = codec.RevealUpDecoder(3000), codec.RevealDownDecoder()
    asked = [up.decode(part) for part in codec.encode_reveal_up(HEAD, question)]
    answered = [down.decode(part) for part in codec.encode_reveal_down(HEAD, answer)]
    assert asked[:-1] == [None] * 5
    assert _same(asked[-1], (HEAD, question))
    assert answered[:-1] == [None] * 4
    assert _same(answered[-1], (HEAD, answer))


@given(st.lists(st.integers(1, 79), max_size=8, unique=True))
def test_a_payload_may_be_split_anywhere(cuts: list[int]) -> None:
    frame = Frame(7, np.array([2, 5]), np.arange(10.0).reshape(2, 5))
    payload, agents = frame.rows.tobytes(), np.array([2, 5], "<u4").tobytes()
    edges = [0, *sorted(cuts), 80]
    decoder, decoded = codec.GossipDecoder(5), []
    for part in range(len(edges) - 1):
        piece = agent_pb2.Frame(
            agents=agents, rows=payload[edges[part] : edges[part + 1]], part=part, parts=len(edges) - 1
        )
        decoded.append(decoder.decode(agent_pb2.GossipMessage(head=PB_HEAD, frame=piece).SerializeToString()))
    assert decoded[:-1] == [None] * (len(edges) - 2)
    assert _same(decoded[-1], (HEAD, frame))


def test_a_heartbeat_may_come_between_parts() -> None:
    frame, decoder = _large(), codec.GossipDecoder(13_000)
    parts = codec.encode_gossip(HEAD, frame)
    parts.insert(3, codec.encode_gossip(HEAD, model.Heartbeat())[0])
    assert _same([decoder.decode(part) for part in parts][-1], (HEAD, frame))


Tamper = Callable[[list[agent_pb2.GossipMessage]], object]


def _set(index: int, **fields: object) -> Tamper:
    def tamper(parts: list[agent_pb2.GossipMessage]) -> None:
        for name, value in fields.items():
            setattr(parts[index].frame, name, value)

    return tamper


TAMPERINGS: dict[str, Tamper] = {
    "out of order": lambda parts: parts.insert(1, parts.pop(2)),
    "one twice": lambda parts: parts.insert(1, parts[1]),
    "one missing": lambda parts: parts.pop(1),
    "begins in the middle": lambda parts: parts.pop(0),
    "one more than announced": lambda parts: parts.insert(5, parts[4]),
    "too many announced": _set(0, parts=4097),
    "other number of parts": _set(2, parts=7),
    "other agents": _set(2, agents=np.arange(1, 31, dtype="<u4").tobytes()),
    "other round": lambda parts: parts[2].head.MergeFrom(common_pb2.Head(round=8)),
    "other sender": lambda parts: parts[2].head.MergeFrom(common_pb2.Head(sender="host-2")),
    "an empty part": _set(2, rows=b""),
    "too short in all": _set(5, rows=b"\0" * 8),
    "too long in all": _set(1, rows=b"\0" * 900_000),
    "another kind between": lambda parts: parts.insert(
        2, agent_pb2.GossipMessage(head=PB_HEAD, wanted=agent_pb2.Wanted())
    ),
    "a whole frame between": lambda parts: parts.insert(2, _pieces(Frame(7, np.array([0]), np.ones((1, 13_000))))[0]),
    "not finite": _set(3, rows=np.full(LIMITS.part_bytes // 8, np.nan).tobytes()),
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_parts_that_do_not_fit_together_are_refused(tampering: str) -> None:
    parts, decoder = _pieces(_large()), codec.GossipDecoder(13_000)
    TAMPERINGS[tampering](parts)
    with pytest.raises(Malformed):
        _ = [decoder.decode(part.SerializeToString()) for part in parts]


def test_a_topology_travels_in_parts() -> None:
    topology, decoder = _complete(600), codec.ControlDownDecoder()
    parts = codec.encode_control_down(HEAD, topology)
    assert len(parts) == 9
    assert all(len(part) < LIMITS.message_bytes for part in parts)
    assert [decoder.decode(part) for part in parts[:-1]] == [None] * 8
    assert _same(decoder.decode(parts[-1]), (HEAD, topology))


def test_a_topology_in_parts_is_not_interrupted() -> None:
    decoder = codec.ControlDownDecoder()
    decoder.decode(codec.encode_control_down(HEAD, _complete(600))[0])
    decoder.decode(codec.encode_control_down(HEAD, model.Heartbeat())[0])
    with pytest.raises(Malformed):
        decoder.decode(codec.encode_control_down(HEAD, model.Hold())[0])


def _complete(agents: int) -> model.Topology:
    return model.Topology(
        round=7,
        rounds=1,
        starts=np.arange(0, agents * agents + 1, agents),
        columns=np.tile(np.arange(agents), agents),
        weights=np.full(agents * agents, 1 / agents),
        debts=np.empty((0, 3), np.intp),
    )


def test_a_payload_beyond_all_parts_is_refused_by_its_sender() -> None:
    class Endless(bytes):
        def __len__(self) -> int:
            return LIMITS.part_bytes * LIMITS.parts + 1

    with pytest.raises(OverBudget, match="seat fewer agents"):
        split(Endless())


def test_a_message_above_the_limit_is_refused_by_its_sender() -> None:
    peers = tuple(dataclasses.replace(PEER, address="h" * 256, seats=np.arange(60)) for _ in range(2000))
    with pytest.raises(OverBudget, match="is above the 1048576 allowed"):
        codec.encode_control_down(HEAD, model.Seating(SEATS, peers))


# What is malformed


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


def _ids(*values: int) -> bytes:
    return np.array(values, "<u4").tobytes()


def _floats(*values: float) -> bytes:
    return np.array(values, "<f8").tobytes()


def _frame(**fields: Any) -> bytes:
    frame = {"agents": _ids(0, 1), "rows": F8[: 2 * 5 * 8], **fields}
    return agent_pb2.GossipMessage(head=PB_HEAD, frame=agent_pb2.Frame(**frame)).SerializeToString()


BAD_FRAMES: dict[str, dict[str, Any]] = {
    "no agents": {"agents": b"", "rows": b""},
    "unsorted": {"agents": _ids(1, 0)},
    "duplicate": {"agents": _ids(1, 1)},
    "beyond the game": {"agents": _ids(0, 9)},
    "beyond every game": {"agents": _ids(0, 1 << 31)},
    "ids cut": {"agents": _ids(0, 1)[:-1]},
    "rows cut": {"rows": F8[: 2 * 5 * 8 - 1]},
    "a row missing": {"rows": F8[: 5 * 8]},
    "a row too many": {"rows": F8[: 3 * 5 * 8]},
    "no rows": {"rows": b""},
    "NaN": {"rows": _floats(*[1.0] * 9, math.nan)},
    "infinity": {"rows": _floats(math.inf, *[1.0] * 9)},
    "minus infinity": {"rows": _floats(*[1.0] * 5, -math.inf, *[1.0] * 4)},
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
    frame = agent_pb2.Frame(agents=_ids(0), rows=F8[:40])
    question = Pb.Question(agents=_ids(0), data=F8[:40])
    answer = Pb.Answer(agents=_ids(0), points=5, data=F8[:40])
    for decode, message in (
        (codec.GossipDecoder(5).decode, agent_pb2.GossipMessage(head=head, frame=frame)),
        (codec.RevealUpDecoder(5).decode, Pb.RevealUp(head=head, question=question)),
        (codec.RevealDownDecoder().decode, Pb.RevealDown(head=head, answer=answer)),
    ):
        with pytest.raises(Malformed):
            decode(message.SerializeToString())


def test_bad_utf8_is_malformed() -> None:
    [data] = codec.encode_gossip(HEAD, model.Wanted(7))
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
    question = Pb.Question(**{"agents": _ids(0, 1), "points": 1, "data": F8[: 2 * 5 * 2 * 8], **fields})
    return Pb.RevealUp(head=PB_HEAD, question=question).SerializeToString()


def _answer(**fields: Any) -> bytes:
    answer = Pb.Answer(**{"agents": _ids(0, 1), "points": 2, "constraints": 3, "data": F8[: 2 * 2 * 4 * 8], **fields})
    return Pb.RevealDown(head=PB_HEAD, answer=answer).SerializeToString()


@pytest.mark.parametrize(
    "fields",
    [
        {"points": 2},
        {"points": LIMITS.points + 1},
        {"points": (1 << 32) - 1},
        {"points": LIMITS.points, "parts": 4096},
        {"agents": b""},
        {"agents": _ids(1, 0)},
        {"data": F8[:8]},
        {"data": _floats(*[1.0] * 19, math.nan)},
        {"effort": Pb.Effort(waited=math.inf)},
        {"effort": Pb.Effort(waited=-1.0)},
        {"effort": Pb.Effort(frames=1 << 51)},
        {"effort": Pb.Effort(bytes_sent=1 << 63)},
        {"effort": Pb.Effort(bytes_received=(1 << 64) - 1)},
    ],
)
def test_a_faulty_question_is_malformed(fields: dict[str, Any]) -> None:
    decoder = codec.RevealUpDecoder(LIMITS.dimension if "parts" in fields else 5)
    with pytest.raises(Malformed):
        decoder.decode(_question(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"points": 3},
        {"constraints": 4},
        {"constraints": LIMITS.constraints + 1},
        {"points": LIMITS.points, "constraints": LIMITS.constraints},
        {"points": (1 << 32) - 1, "constraints": (1 << 32) - 1},
        {"agents": b""},
        {"agents": _ids(3, 3)},
        {"data": _floats(*[1.0] * 15, -math.inf)},
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


def test_half_a_million_empty_messages_inside_one_are_refused_before_they_are_looked_at() -> None:
    peers = b"\x12\x00" * 500_000
    seating = b"\x1a" + _varint(len(peers)) + peers
    head = coordinator_pb2.ControlDown(head=PB_HEAD).SerializeToString()
    with pytest.raises(Malformed, match="more hosts"):
        _down(head + seating)
    hosts = coordinator_pb2.StatusReply(head=PB_HEAD, phase="over").SerializeToString() + b"\x3a\x00" * 500_000
    with pytest.raises(Malformed, match="more processes"):
        codec.decode_status_reply(hosts)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


STARTS, COLUMNS, WEIGHTS = (0, 2, 3, 5, 6), (0, 1, 1, 0, 2, 1), (0.5, 0.5, 1.0, 0.25, 0.75, 1.0)


def _topology(
    starts: tuple[int, ...] = STARTS,
    columns: tuple[int, ...] = COLUMNS,
    weights: tuple[float, ...] = WEIGHTS,
    debts: tuple[int, ...] = (),
    **fields: Any,
) -> bytes:
    topology = {
        "rounds": 2,
        "seats": 2,
        "entries": 6,
        "debts": len(debts) // 3,
        "data": _floats(*weights) + _ids(*starts, *columns, *debts),
        **fields,
    }
    message = coordinator_pb2.ControlDown(head=PB_HEAD, topology=coordinator_pb2.Topology(**topology))
    return message.SerializeToString()


BAD_TOPOLOGIES: dict[str, dict[str, Any]] = {
    "no rounds": {"rounds": 0},
    "no seats": {"seats": 0},
    "rounds beyond the limit": {"rounds": 1025},
    "seats beyond the limit": {"seats": 65537},
    "another number of rounds": {"rounds": 3},
    "another number of seats": {"seats": 1},
    "another number of entries": {"entries": 5},
    "fewer entries than rows": {"entries": 3},
    "entries beyond everything": {"entries": (1 << 32) - 1, "parts": 4096},
    "no data": {"data": b""},
    "data cut": {"data": _floats(*WEIGHTS) + _ids(*STARTS, *COLUMNS)[:-1]},
    "does not start at 0": {"starts": (1, 2, 3, 5, 6)},
    "does not end at the end": {"starts": (0, 2, 3, 5, 7)},
    "ends far beyond": {"starts": (0, 2, 3, (1 << 32) - 1, 6)},
    "starts descend": {"starts": (0, 3, 2, 5, 6)},
    "an empty row": {"starts": (0, 2, 2, 5, 6)},
    "columns descend": {"columns": (1, 0, 1, 0, 2, 1)},
    "a column twice": {"columns": (0, 0, 1, 0, 2, 1)},
    "a column beyond every game": {"columns": (0, 65536, 1, 0, 2, 1)},
    "a weight of zero": {"weights": (0.0, 1.0, 1.0, 0.25, 0.75, 1.0)},
    "a negative weight": {"weights": (-0.5, 0.5, 1.0, 0.25, 0.75, 1.0)},
    "a weight above one": {"weights": (1.5, 0.5, 1.0, 0.25, 0.75, 1.0)},
    "a weight that is no number": {"weights": (math.nan, 0.5, 1.0, 0.25, 0.75, 1.0)},
    "a debt beyond the rounds": {"debts": (2, 0, 0)},
    "a debt to nobody": {"debts": (0, 4096, 0)},
    "a debt of nobody": {"debts": (0, 0, 65536)},
    "debts descend": {"debts": (1, 0, 0, 0, 0, 0)},
    "a debt twice": {"debts": (0, 0, 0, 0, 0, 0)},
}


def test_the_topology_these_are_made_from_is_sound() -> None:
    assert _down(_topology(debts=(0, 0, 1, 1, 0, 0))) is not None


@pytest.mark.parametrize("fault", BAD_TOPOLOGIES)
def test_a_faulty_topology_is_malformed(fault: str) -> None:
    with pytest.raises(Malformed):
        _down(_topology(**BAD_TOPOLOGIES[fault]))


def test_a_topology_of_no_round_in_particular_is_malformed() -> None:
    with pytest.raises(Malformed):
        _down(codec.encode_control_down(dataclasses.replace(HEAD, round=0), TOPOLOGY)[0])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("role", "king"),
        ("role", ""),
        ("address", ""),
        ("address", "a" * 257),
        ("seats", LIMITS.agents + 1),
        ("fingerprint", ""),
        ("fingerprint", "AB" * 32),
        ("fingerprint", "g" * 64),
        ("fingerprint", "ab" * 32 + "\n"),
    ],
)
def test_a_faulty_wish_to_join_is_malformed(field: str, value: object) -> None:
    encode, decode, head, body = UNARY[0]
    message = coordinator_pb2.JoinRequest.FromString(encode(head, body))
    setattr(message, field, value)
    with pytest.raises(Malformed):
        decode(message.SerializeToString())


@pytest.mark.parametrize("sender", ["", "-a", "A", "a_b", "a.b", "a" * 65, "ä", "a\n", "../a"])
def test_a_name_that_is_none_cannot_join(sender: str) -> None:
    encode, decode, head, body = UNARY[0]
    with pytest.raises(Malformed):
        decode(encode(dataclasses.replace(head, sender=sender), body))


@pytest.mark.parametrize("head", [Head("run", 0, 0, "a"), Head("", 1, 0, "a"), Head("", 0, 1, "a")])
def test_who_joins_belongs_to_no_run_yet(head: Head) -> None:
    encode, decode, _, body = UNARY[0]
    with pytest.raises(Malformed):
        decode(encode(head, body))


@pytest.mark.parametrize(
    "welcome",
    [
        model.Welcome(0, TICKET, "[run]"),
        model.Welcome(1, TICKET[1:], "[run]"),
        model.Welcome(1, TICKET + b"x", "[run]"),
        model.Welcome(1, TICKET, ""),
        model.Welcome(1, TICKET, "x" * (LIMITS.spec_bytes + 1)),
        model.Challenge(b""),
        model.Challenge(TICKET[1:]),
    ],
)
def test_a_faulty_welcome_is_malformed(welcome: model.Welcome | model.Challenge) -> None:
    with pytest.raises(Malformed):
        codec.decode_welcome(codec.encode_welcome(HEAD, welcome))


@pytest.mark.parametrize(
    "opening", [model.Opening(0, TICKET), model.Opening(1, b""), model.Opening(1, TICKET, 1 << 63)]
)
def test_a_faulty_opening_is_malformed_on_every_stream(opening: model.Opening) -> None:
    for decode, data in (
        (codec.GossipDecoder(5).decode, codec.encode_gossip(HEAD, opening)[0]),
        (codec.RevealUpDecoder(5).decode, codec.encode_reveal_up(HEAD, opening)[0]),
        (codec.decode_control_up, codec.encode_control_up(HEAD, opening)),
    ):
        with pytest.raises(Malformed):
            decode(data)


@pytest.mark.parametrize(
    "body",
    [
        model.Description(LIMITS.constraints + 1),
        model.Description(1, code="short"),
        model.Progress(7, math.nan),
        model.Progress(7, 0.0, math.inf),
    ],
)
def test_a_faulty_report_to_the_coordinator_is_malformed(body: model.ControlUp) -> None:
    with pytest.raises(Malformed):
        codec.decode_control_up(codec.encode_control_up(HEAD, body))


@pytest.mark.parametrize(
    "peer",
    [
        dataclasses.replace(PEER, name="Host"),
        dataclasses.replace(PEER, address=""),
        dataclasses.replace(PEER, incarnation=0),
        dataclasses.replace(PEER, seats=np.array([2, 1])),
        dataclasses.replace(PEER, present=b"short"),
        dataclasses.replace(PEER, accept=TICKET * 2),
    ],
)
def test_a_faulty_peer_in_a_seating_is_malformed(peer: model.Peer) -> None:
    for seating in (model.Seating(SEATS, (peer,)), model.Seating(SEATS, (), adversary=peer)):
        with pytest.raises(Malformed):
            _down(codec.encode_control_down(HEAD, seating)[0])


@pytest.mark.parametrize(
    "status", [dataclasses.replace(STATUS, phase="dancing"), dataclasses.replace(STATUS, cumulative_loss=math.nan)]
)
def test_a_faulty_status_is_malformed(status: model.Status) -> None:
    with pytest.raises(Malformed):
        codec.decode_status_reply(codec.encode_status_reply(HEAD, status))


def test_a_text_above_its_limit_is_malformed() -> None:
    message = coordinator_pb2.ControlUp(head=PB_HEAD, failed=coordinator_pb2.Failed(reason="x" * 1025))
    with pytest.raises(Malformed):
        codec.decode_control_up(message.SerializeToString())
    over = coordinator_pb2.ControlDown(head=PB_HEAD, over=coordinator_pb2.Over(failure="é" * 513))
    with pytest.raises(Malformed):
        _down(over.SerializeToString())


def test_a_refusal_repeats_nothing_of_the_message() -> None:
    head = common_pb2.Head(run="secret" * 20, sender="secret")
    with pytest.raises(Malformed) as caught:
        codec.decode_stop_request(coordinator_pb2.StopRequest(head=head).SerializeToString())
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
