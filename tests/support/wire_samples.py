"""A sound message of every kind, and what its fields are made of."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.malformed.samples import (
    BREACHES,
    CODED_FRAMES,
    DESCRIPTION,
    HEAD,
    LAYOUT,
    PEER,
    SEATS,
    STRANGER,
    TICKET,
    TOPOLOGY,
)

from slaternet import codec, model
from slaternet.model import Frame, Head, Question
from slaternet.v1 import common_pb2

PB_HEAD = common_pb2.Head(run=HEAD.run, epoch=HEAD.epoch, round=HEAD.round, sender=HEAD.sender)
RANDOM = np.random.default_rng(3)
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
    BREACHES,
)
WITHHELD = dataclasses.replace(STATUS, cumulative_loss=None, cumulative_violation=None, sealed=True)

UNARY: list[tuple[Callable[..., bytes], Callable[[bytes], Any], Head, Any]] = [
    (codec.encode_join, codec.decode_join, STRANGER, model.Join(model.Role.ADVERSARY, "h:1", 5, 1, "ab" * 32)),
    (codec.encode_welcome, codec.decode_welcome, HEAD, model.Welcome(3, TICKET, "[run]\nname = 'ü'\n", "5e" * 32)),
    (codec.encode_welcome, codec.decode_welcome, HEAD, model.Challenge(TICKET)),
    (codec.encode_status_request, codec.decode_status_request, STRANGER, True),
    (codec.encode_status_request, codec.decode_status_request, STRANGER, False),
    (codec.encode_status_reply, codec.decode_status_reply, HEAD, STATUS),
    (codec.encode_status_reply, codec.decode_status_reply, HEAD, WITHHELD),
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
    model.Accusation("host-2", "host-2 refuses its stream: Diverged"),
    model.Dispute(7, "host-2", SEATS, np.ones((3, 5))),
    model.DisputedRows(7, SEATS, np.ones((3, 5))),
    model.DisputedRows(7, SEATS, np.empty((3, 0))),
    model.Disturbed(7, SEATS),
    model.Refusals((model.Refusal("OverBudget", "host-1", 3), model.Refusal("Unknown", "", 1))),
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
    model.IncidentRecord(7, 1e9, "host-2", "gone", "host-2 has gone", "its stream broke"),
    model.RowRequest(7, SEATS),
    model.RowRequest(7, SEATS, TICKET),
    model.DisputedRows(7, SEATS, np.ones((3, 5))),
    model.GameOver(),
    model.GameOver("host-2 died; start it again"),
]
GOSSIP: list[model.Gossip] = [
    model.Opening(1, TICKET, 9),
    model.ResendFrom(7),
    model.Heartbeat(),
    Frame(7, SEATS, RANDOM.standard_normal((3, 5))),
]
POINTS = RANDOM.standard_normal((3, 2, 5))
REVEAL_UP: list[model.RevealUp] = [
    model.Opening(1, TICKET),
    model.Heartbeat(),
    Question(7, SEATS, RANDOM.standard_normal((3, 5)), RANDOM.standard_normal((3, 2, 5))),
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
    Question(7, SEATS, POINTS[:, 0], POINTS, x_is_first_point=True),
    Question(7, SEATS, POINTS[:, 0], POINTS, x_is_first_point=True, memo=RANDOM.standard_normal((3, 6))),
    model.Usage(7, 2, 1 << 40, 9, 0.125, 1 << 41, 8),
    model.Usage(7),
    model.HistoryRequest(7, 64, SEATS),
]
REVEAL_DOWN: list[model.RevealDown] = [
    model.Heartbeat(),
    model.Answer(7, SEATS, model.Values(RANDOM.standard_normal((3, 2)), RANDOM.standard_normal((3, 2, 4)))),
    model.Answer(7, SEATS, model.Values(RANDOM.standard_normal((3, 2)), np.empty((3, 2, 0)))),
    model.Answer(7, SEATS, model.Values(np.empty((3, 0)), np.empty((3, 0, 4)))),
    Question(7, SEATS, RANDOM.standard_normal((3, 5)), RANDOM.standard_normal((3, 2, 5))),
    model.Answer(
        7,
        SEATS,
        model.Values(
            RANDOM.standard_normal((3, 2)),
            RANDOM.standard_normal((3, 2, 4)),
            model.ValueAndGradient(RANDOM.standard_normal(3), RANDOM.standard_normal((3, 5))),
            model.ValueAndGradient(RANDOM.standard_normal((3, 4)), RANDOM.standard_normal((3, 4, 5))),
        ),
    ),
]

Decode = Callable[[bytes], Any]
SOUND: list[tuple[bytes, Callable[[], Decode]]] = [
    *((encode(head, body), lambda decode=decode: decode) for encode, decode, head, body in UNARY),
    *((encode(head), lambda decode=decode: decode) for encode, decode, head in HEADS_ONLY),
    *((codec.encode_control_up(HEAD, body), lambda: codec.decode_control_up) for body in CONTROL_UP),
    *((codec.encode_control_down(HEAD, body)[0], lambda: codec.ControlDownDecoder().decode) for body in CONTROL_DOWN),
    *((codec.encode_gossip(HEAD, body)[0], lambda: codec.GossipDecoder(5).decode) for body in GOSSIP),
    *(
        (codec.encode_gossip(HEAD, body, layout=LAYOUT)[0], lambda: codec.GossipDecoder(5, layout=LAYOUT).decode)
        for body in CODED_FRAMES
    ),
    *((codec.encode_reveal_up(HEAD, body)[0], lambda: codec.RevealUpDecoder(5).decode) for body in REVEAL_UP),
    *((codec.encode_reveal_down(HEAD, body)[0], lambda: codec.RevealDownDecoder(5).decode) for body in REVEAL_DOWN),
]
DECODERS: list[Callable[[], Decode]] = [
    *(make for _, make in SOUND[: len(UNARY) + len(HEADS_ONLY)]),
    lambda: codec.decode_control_up,
    lambda: codec.ControlDownDecoder().decode,
    lambda: codec.GossipDecoder(5).decode,
    lambda: codec.GossipDecoder(5, layout=LAYOUT).decode,
    lambda: codec.RevealUpDecoder(5).decode,
    lambda: codec.RevealDownDecoder(5).decode,
]


def same(one: object, other: object) -> bool:
    """Compare records field by field, arrays bit by bit, with their kinds and shapes."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if dataclasses.is_dataclass(one) and type(one) is type(other):
        names = [field.name for field in dataclasses.fields(one)]
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    return type(one) is type(other) and one == other


def down(data: bytes) -> tuple[Head, model.ControlDown] | None:
    return codec.ControlDownDecoder().decode(data)


def ids(*values: int) -> bytes:
    return np.array(values, "<u4").tobytes()


def floats(*values: float) -> bytes:
    return np.array(values, "<f8").tobytes()
