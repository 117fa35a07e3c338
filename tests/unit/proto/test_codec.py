"""Every message comes back as it was sent."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from tests.support.wire_samples import (
    CONTROL_DOWN,
    CONTROL_UP,
    GOSSIP,
    HEAD,
    HEADS_ONLY,
    RANDOM,
    REVEAL_DOWN,
    REVEAL_UP,
    SEATS,
    UNARY,
    Decode,
    down,
    same,
)

from slaternet import codec, model
from slaternet.model import Frame, Head


@pytest.mark.parametrize(("encode", "decode", "head", "body"), UNARY)
def test_a_unary_message_comes_back(encode: Callable[..., bytes], decode: Decode, head: Head, body: object) -> None:
    assert same(decode(encode(head, body)), (head, body))


@pytest.mark.parametrize(("encode", "decode", "head"), HEADS_ONLY)
def test_a_head_comes_back(encode: Callable[[Head], bytes], decode: Decode, head: Head) -> None:
    assert decode(encode(head)) == head


@pytest.mark.parametrize("body", CONTROL_UP)
def test_what_goes_up_to_the_coordinator_comes_back(body: model.ControlUp) -> None:
    assert same(codec.decode_control_up(codec.encode_control_up(HEAD, body)), (HEAD, body))


@pytest.mark.parametrize("body", CONTROL_DOWN)
def test_what_comes_down_from_the_coordinator_comes_back(body: model.ControlDown) -> None:
    [data] = codec.encode_control_down(HEAD, body)
    assert same(down(data), (HEAD, body))


@pytest.mark.parametrize("body", GOSSIP)
def test_gossip_comes_back(body: model.Gossip) -> None:
    [data] = codec.encode_gossip(HEAD, body)
    assert same(codec.GossipDecoder(5).decode(data), (HEAD, body))


@pytest.mark.parametrize("body", REVEAL_UP)
def test_what_is_asked_comes_back(body: model.RevealUp) -> None:
    [data] = codec.encode_reveal_up(HEAD, body)
    assert same(codec.RevealUpDecoder(5).decode(data), (HEAD, body))


@pytest.mark.parametrize("body", REVEAL_DOWN)
def test_what_is_answered_comes_back(body: model.RevealDown) -> None:
    [data] = codec.encode_reveal_down(HEAD, body)
    assert same(codec.RevealDownDecoder(5).decode(data), (HEAD, body))


def test_the_largest_and_smallest_numbers_come_back_to_the_bit() -> None:
    rows = np.array([[1.7e308, -1.7e308, 5e-324, -0.0, math.pi]])
    [data] = codec.encode_gossip(HEAD, Frame(7, np.array([0]), rows))
    assert same(codec.GossipDecoder(5).decode(data), (HEAD, Frame(7, np.array([0]), rows)))


def test_arrays_of_any_memory_order_are_sent_in_c_order() -> None:
    rows = RANDOM.standard_normal((5, 3))
    [data] = codec.encode_gossip(HEAD, Frame(7, SEATS, rows.T))
    assert same(codec.GossipDecoder(5).decode(data), (HEAD, Frame(7, SEATS, np.ascontiguousarray(rows.T))))


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
    [data] = codec.encode_gossip(HEAD, model.ResendFrom(7))
    assert codec.GossipDecoder(5).decode(data + b"\xa2\x06\x03new") == (HEAD, model.ResendFrom(7))
