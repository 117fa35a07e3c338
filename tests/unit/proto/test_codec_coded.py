"""Frames in a gossip code: what is sent comes back, and what no sender writes is refused before it takes memory."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.malformed.samples import CODED_FRAMES, HEAD, LAYOUT, SEATS
from tests.support.wire_samples import PB_HEAD, floats, ids, same

from slaternet import codec
from slaternet.errors import Malformed, OverBudget
from slaternet.limits import LIMITS
from slaternet.model import CodedFrame, Frame, Heartbeat, Layout, Symbols
from slaternet.numerics.bits import width_of
from slaternet.v1 import agent_pb2

FIXED = Layout("top-k", scales=2, numbers=2, bits=3)
ROWS = np.arange(15.0).reshape(3, 5)


def generated(data: bytes) -> agent_pb2.Frame:
    return agent_pb2.GossipMessage.FromString(data).frame


def coded(layout: Layout, agents: int, count: int, most: int, seed: int = 1) -> CodedFrame:
    """Return a frame of random symbols up to `most`, the rows of the first `count` agents."""
    random = np.random.default_rng(seed)
    scales = random.standard_normal((count, layout.scales)).astype(np.float32)
    numbers = random.integers(0, most, (count, layout.numbers), np.uint64, endpoint=True)
    sent = None if count == agents else np.arange(agents) < count
    return CodedFrame(7, np.arange(agents), Symbols(scales, numbers), sent)


@pytest.mark.parametrize("frame", CODED_FRAMES)
def test_a_coded_frame_comes_back(frame: CodedFrame) -> None:
    [data] = codec.encode_gossip(HEAD, frame, layout=LAYOUT)

    assert same(codec.GossipDecoder(5, layout=LAYOUT).decode(data), (HEAD, frame))


@given(st.integers(0, 3), st.integers(0, 20), st.integers(0, 64), st.integers(1, 9), st.data())
def test_a_frame_is_as_long_as_its_scales_and_bits(a: int, b: int, bits: int, agents: int, data: st.DataObject) -> None:
    layout = Layout("code", a, b, data.draw(st.sampled_from([0, bits])))
    count = data.draw(st.integers(0, agents))
    frame = coded(layout, agents, count, (1 << bits) - 1)
    stated = bits if layout.bits and count and b else width_of(frame.symbols.numbers)
    [message] = codec.encode_gossip(HEAD, frame, layout=layout)

    assert len(generated(message).rows) == 4 * a * count + (b * count * stated + 7) // 8
    assert same(codec.GossipDecoder(5, layout=layout).decode(message), (HEAD, frame))


def test_an_unsent_row_costs_one_bit() -> None:
    frames = [coded(LAYOUT, 64, count, 6) for count in (0, 1)]
    none, one = (codec.encode_gossip(HEAD, each, layout=LAYOUT, stated=False)[0] for each in frames)

    # 8 bytes of `sent`, and at most 2 for each of the other fields and for the names and lengths of all
    assert len(none) - len(codec.encode_gossip(HEAD, Heartbeat())[0]) < 8 + len("levels") + 8
    assert len(one) - len(none) == 2 + 2 + 2 + 4 + 2  # bits, count, the head of rows, a scale, 15 bits


def test_agents_may_be_left_out_where_the_frame_before_named_them() -> None:
    decoder = codec.GossipDecoder(5, layout=LAYOUT)
    frames = [Frame(7, SEATS, ROWS), CODED_FRAMES[0], CODED_FRAMES[1], CODED_FRAMES[0]]
    sent = [codec.encode_gossip(HEAD, each, layout=LAYOUT, stated=not n)[0] for n, each in enumerate(frames)]

    assert [bool(generated(data).agents) for data in sent] == [True, False, False, False]
    assert all(same(decoder.decode(data), (HEAD, each)) for data, each in zip(sent, frames, strict=True))


def test_copies_as_they_are_travel_in_a_game_with_a_code_as_in_one_without() -> None:
    frame = Frame(7, SEATS, ROWS)

    assert codec.encode_gossip(HEAD, frame, layout=LAYOUT) == codec.encode_gossip(HEAD, frame)
    [data] = codec.encode_gossip(HEAD, frame)
    assert same(codec.GossipDecoder(5, layout=LAYOUT).decode(data), (HEAD, frame))


WIDE = Layout("levels", 1, 13_000)


def test_a_large_frame_travels_in_parts() -> None:
    frame = coded(WIDE, 40, 30, (1 << 21) - 1)  # 1.0 MB
    decoder = codec.GossipDecoder(13_000, layout=WIDE)
    decoder.decode(codec.encode_gossip(HEAD, Frame(7, np.arange(40), np.zeros((40, 13_000))))[0])
    decoder = codec.GossipDecoder(13_000, layout=WIDE)
    for stated in (True, False):
        parts = codec.encode_gossip(HEAD, frame, layout=WIDE, stated=stated)
        assert len(parts) == 2
        assert all(len(part) < LIMITS.message_bytes for part in parts)
        assert decoder.decode(parts[0]) is None
        assert same(decoder.decode(parts[1]), (HEAD, frame))


@pytest.mark.parametrize("field", ["agents", "code", "bits", "count", "sent"])
def test_parts_that_differ_in_a_field_are_refused(field: str) -> None:
    first, second = (
        agent_pb2.GossipMessage.FromString(data)
        for data in codec.encode_gossip(HEAD, coded(WIDE, 40, 30, (1 << 21) - 1), layout=WIDE)
    )
    other = {"agents": ids(*range(1, 41)), "code": "", "bits": 22, "count": 29, "sent": bytes([254, 255, 255, 127, 0])}
    setattr(second.frame, field, other[field])
    decoder = codec.GossipDecoder(13_000, layout=WIDE)
    decoder.decode(first.SerializeToString())

    with pytest.raises(Malformed):
        decoder.decode(second.SerializeToString())


def test_a_frame_above_all_of_the_game_is_refused_with_its_first_part() -> None:
    wide = Layout("levels", 1, 20_000)  # at 64 bits larger than the rows themselves
    parts = codec.encode_gossip(HEAD, coded(wide, 40, 40, (1 << 63) - 1), layout=wide)

    assert codec.GossipDecoder(5, seats=40, layout=wide).decode(parts[0]) is None
    with pytest.raises(OverBudget):
        codec.GossipDecoder(5, seats=39, layout=wide).decode(parts[0])


# Two rows of one scale and five numbers of 3 bits
SOUND: dict[str, Any] = {
    "agents": ids(0, 1),
    "rows": np.ones(2, "<f4").tobytes() + bytes([0o007, 0, 0, 0]),
    "code": "levels",
    "bits": 3,
    "count": 2,
}
# Two rows of two scales and two numbers of exactly 3 bits
SOUND_FIXED: dict[str, Any] = {**SOUND, "code": "top-k", "rows": np.ones(4, "<f4").tobytes() + bytes([0, 0])}
NO_ROWS: dict[str, Any] = {"rows": b"", "bits": 0, "count": 0, "sent": b"\0"}
ONE_ROW = np.ones(1, "<f4").tobytes() + bytes([7, 0])

REFUSED: dict[str, tuple[Layout | None, dict[str, Any]]] = {
    "a code in a game without": (None, SOUND),
    "another code": (LAYOUT, {**SOUND, "code": "top-k"}),
    "no agents at first": (LAYOUT, {**SOUND, "agents": b""}),
    "agents that do not ascend": (LAYOUT, {**SOUND, "agents": ids(1, 0)}),
    "an agent beyond the game": (LAYOUT, {**SOUND, "agents": ids(0, 9)}),
    "a row missing": (LAYOUT, {**SOUND, "count": 1}),
    "a row too many": (LAYOUT, {**SOUND, "count": 3}),
    "no rows, and sent says nothing": (LAYOUT, {**NO_ROWS, "sent": b""}),
    "more rows than sent says": (LAYOUT, {**SOUND, "sent": b"\1"}),
    "fewer rows than sent says": (LAYOUT, {**SOUND, "rows": ONE_ROW, "count": 1, "sent": b"\3"}),
    "rows where sent says none": (LAYOUT, {**SOUND, "sent": b"\0"}),
    "sent too short": (LAYOUT, {**SOUND, "agents": ids(*range(8), 8), "sent": b"\3"}),
    "sent too long": (LAYOUT, {**SOUND, "sent": b"\3\0"}),
    "sent of an agent that is not there": (LAYOUT, {**SOUND, "rows": ONE_ROW, "count": 1, "sent": b"\4"}),
    "bits beyond 64": (LAYOUT, {**SOUND, "bits": 65}),
    "bits beyond reason": (LAYOUT, {**SOUND, "bits": (1 << 32) - 1}),
    "bits without numbers": (LAYOUT, {**NO_ROWS, "bits": 3}),
    "bits where all are 0": (LAYOUT, {**SOUND, "rows": np.ones(2, "<f4").tobytes() + bytes(4)}),
    "more bits than the largest needs": (LAYOUT, {**SOUND, "rows": SOUND["rows"] + b"\0", "bits": 4}),
    "no bits, and numbers": (LAYOUT, {**SOUND, "bits": 0}),
    "fewer bits than the code's": (FIXED, {**SOUND_FIXED, "rows": SOUND_FIXED["rows"][:-1], "bits": 2}),
    "more bits than the code's": (FIXED, {**SOUND_FIXED, "bits": 4}),
    "no bits of a code that has some": (FIXED, {**SOUND_FIXED, "rows": SOUND_FIXED["rows"][:-2], "bits": 0}),
    "bits of no rows": (FIXED, {**SOUND_FIXED, **NO_ROWS, "bits": 3}),
    "rows cut": (LAYOUT, {**SOUND, "rows": SOUND["rows"][:-1]}),
    "rows too long": (LAYOUT, {**SOUND, "rows": SOUND["rows"] + b"\0"}),
    "no rows of some": (LAYOUT, {**SOUND, "rows": b""}),
    "rows of none": (LAYOUT, {**NO_ROWS, "rows": b"\0"}),
    "the last byte not filled with zeros": (LAYOUT, {**SOUND, "rows": SOUND["rows"][:-1] + b"\x80"}),
    "an infinite scale": (LAYOUT, {**SOUND, "rows": np.array([np.inf, 1], "<f4").tobytes() + bytes([7, 0, 0, 0])}),
    "an undefined scale": (LAYOUT, {**SOUND, "rows": np.array([1, np.nan], "<f4").tobytes() + bytes([7, 0, 0, 0])}),
    "a part of nothing": (LAYOUT, {**SOUND, "part": 1}),
    "more parts than bytes": (LAYOUT, {**SOUND, "parts": 13}),
    "parts of no rows": (LAYOUT, {**NO_ROWS, "parts": 1}),
    "full rows under the name of the code": (LAYOUT, {**SOUND, "rows": floats(*[1.0] * 10)}),
}


def message(fields: dict[str, Any]) -> bytes:
    return agent_pb2.GossipMessage(head=PB_HEAD, frame=agent_pb2.Frame(**fields)).SerializeToString()


@pytest.mark.parametrize(
    ("layout", "fields"),
    [
        (LAYOUT, SOUND),
        (FIXED, SOUND_FIXED),
        (LAYOUT, {**SOUND, "sent": b"\3"}),
        (LAYOUT, {**SOUND, **NO_ROWS}),
        (FIXED, {**SOUND_FIXED, **NO_ROWS}),
    ],
)
def test_the_frames_that_the_refused_are_made_from_are_sound(layout: Layout, fields: dict[str, Any]) -> None:
    assert codec.GossipDecoder(5, agents=9, layout=layout).decode(message(fields)) is not None


@pytest.mark.parametrize("fault", REFUSED)
def test_a_faulty_coded_frame_is_malformed(fault: str) -> None:
    layout, fields = REFUSED[fault]
    fields = {**SOUND, **fields}

    with pytest.raises(Malformed):
        codec.GossipDecoder(5, agents=9, layout=layout).decode(message(fields))


def test_a_huge_count_with_a_small_payload_allocates_nothing() -> None:
    seats = np.arange(LIMITS.agents, dtype="<u4").tobytes()
    layout = Layout("levels", 1 << 17, 1 << 17)
    frame = message({"agents": seats, "code": "levels", "bits": 64, "count": LIMITS.agents, "parts": 4096})
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            codec.GossipDecoder(LIMITS.dimension, layout=layout).decode(frame)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda symbols: Symbols(symbols.scales[:, :1], symbols.numbers),
        lambda symbols: Symbols(symbols.scales, symbols.numbers[:1]),
        lambda symbols: Symbols(symbols.scales, symbols.numbers + np.uint64(8)),
        lambda symbols: Symbols(symbols.scales * np.float32(np.inf), symbols.numbers),
    ],
)
def test_symbols_that_are_not_of_the_layout_are_not_sent(spoil: Callable[[Symbols], Symbols]) -> None:
    frame = coded(FIXED, 2, 2, 7)

    with pytest.raises(ValueError, match=r"shape|fit|finite"):
        codec.encode_gossip(HEAD, CodedFrame(7, frame.agents, spoil(frame.symbols)), layout=FIXED)


def test_a_coded_frame_is_not_sent_without_a_layout() -> None:
    with pytest.raises(ValueError, match="layout"):
        codec.encode_gossip(HEAD, CODED_FRAMES[0])
