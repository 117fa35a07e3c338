"""Messages of joining and control that are wrong."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from tests.support.wire_samples import HEAD, PB_HEAD, PEER, SEATS, STATUS, TICKET, TOPOLOGY, UNARY, down, floats, ids

from slaternet import codec, model
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import Head
from slaternet.v1 import coordinator_pb2


def test_half_a_million_empty_messages_inside_one_are_refused_before_they_are_looked_at() -> None:
    peers = b"\x12\x00" * 500_000
    seating = b"\x1a" + _varint(len(peers)) + peers
    head = coordinator_pb2.ControlDown(head=PB_HEAD).SerializeToString()
    with pytest.raises(Malformed, match="more hosts"):
        down(head + seating)
    hosts = coordinator_pb2.StatusReply(head=PB_HEAD, phase="over").SerializeToString() + b"\x3a\x00" * 500_000
    with pytest.raises(Malformed, match="more processes"):
        codec.decode_status_reply(hosts)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


TAG = "5e" * 32
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
        "data": floats(*weights) + ids(*starts, *columns, *debts),
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
    "data cut": {"data": floats(*WEIGHTS) + ids(*STARTS, *COLUMNS)[:-1]},
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
    assert down(_topology(debts=(0, 0, 1, 1, 0, 0))) is not None


@pytest.mark.parametrize("fault", BAD_TOPOLOGIES)
def test_a_faulty_topology_is_malformed(fault: str) -> None:
    with pytest.raises(Malformed):
        down(_topology(**BAD_TOPOLOGIES[fault]))


def test_a_topology_of_no_round_in_particular_is_malformed() -> None:
    with pytest.raises(Malformed):
        down(codec.encode_control_down(dataclasses.replace(HEAD, round=0), TOPOLOGY)[0])


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
        model.Welcome(0, TICKET, "[run]", TAG),
        model.Welcome(1, TICKET[1:], "[run]", TAG),
        model.Welcome(1, TICKET + b"x", "[run]", TAG),
        model.Welcome(1, TICKET, "", TAG),
        model.Welcome(1, TICKET, "x" * (LIMITS.spec_bytes + 1), TAG),
        model.Welcome(1, TICKET, "[run]", ""),
        model.Welcome(1, TICKET, "[run]", TAG.upper()),
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
            down(codec.encode_control_down(HEAD, seating)[0])


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
        down(over.SerializeToString())
