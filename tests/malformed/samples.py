"""A sound message of every kind that travels, and who takes it in."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from slaternet import codec, model
from slaternet.codec.plugin import (
    DescribeReply,
    DescribeRequest,
    EvaluateReply,
    EvaluateRequest,
    Methods,
    PlayRequest,
    ScoreReply,
    ScoreRequest,
    decode_describe,
    decode_described,
    decode_evaluate,
    decode_evaluated,
    decode_play,
    decode_played,
    decode_score,
    decode_scored,
    encode_describe,
    encode_described,
    encode_evaluate,
    encode_evaluated,
    encode_play,
    encode_played,
    encode_score,
    encode_scored,
)
from slaternet.model import Head

HEAD = Head("run-1", 2, 7, "host-1")
STRANGER = Head("", 0, 0, "host-1")
P = 5
SEATS = np.array([0, 3, 4])
TICKET = bytes(range(32))

_RANDOM = np.random.default_rng(3)
_X, _POINTS = _RANDOM.standard_normal((3, P)), _RANDOM.standard_normal((3, 2, P))
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
BREACHES = (model.Refusal("OverBudget", "host-1", 3, "adversary"), model.Refusal("Unknown", "", 1 << 40, "coordinator"))
_STATUS = model.Status(
    round=7,
    phase="playing",
    agents=9,
    rounds=100,
    published=64,
    cumulative_loss=1.5,
    cumulative_violation=0.25,
    hosts=(model.HostStatus("host-1", "h:1", 3, 5, True, silent=0.5, waits_for=("host-2", "adversary")),),
    waiting_for="host-2",
    failure="the disk is full",
    breaches=BREACHES,
    rounds_per_second=12.5,
    troubles=(model.Incident(1.5, "host-2 has gone"),),
)

Decode = Callable[[bytes], Any]
Encode = Callable[[Any], list[bytes]]


@dataclass(frozen=True)
class Kind:
    """A kind of message: how a fresh receiver takes it in, and how what it took in is sent again."""

    name: str
    receiver: Callable[[], Decode]
    encode: Encode


@dataclass(frozen=True)
class Sample:
    """A sound message, and those that must come before it on its stream."""

    kind: Kind
    data: bytes
    before: tuple[bytes, ...] = field(default=())


def _with_head(encode: Callable[..., bytes | list[bytes]]) -> Encode:
    def encoded(decoded: tuple[Head, Any]) -> list[bytes]:
        data = encode(*decoded)
        return data if isinstance(data, list) else [data]

    return encoded


CONTROL_UP = Kind("ControlUp", lambda: codec.decode_control_up, _with_head(codec.encode_control_up))
CONTROL_DOWN = Kind("ControlDown", lambda: codec.ControlDownDecoder().decode, _with_head(codec.encode_control_down))
GOSSIP = Kind("GossipMessage", lambda: codec.GossipDecoder(P).decode, _with_head(codec.encode_gossip))
LAYOUT = model.Layout("levels", scales=1, numbers=P)
CODED = Kind(
    "GossipMessage",
    lambda: codec.GossipDecoder(P, layout=LAYOUT).decode,
    _with_head(functools.partial(codec.encode_gossip, layout=LAYOUT)),
)
REVEAL_UP = Kind("RevealUp", lambda: codec.RevealUpDecoder(P).decode, _with_head(codec.encode_reveal_up))
REVEAL_DOWN = Kind("RevealDown", lambda: codec.RevealDownDecoder(P).decode, _with_head(codec.encode_reveal_down))
JOIN = Kind("JoinRequest", lambda: codec.decode_join, _with_head(codec.encode_join))
WELCOME = Kind("Welcome", lambda: codec.decode_welcome, _with_head(codec.encode_welcome))
STATUS = Kind("StatusRequest", lambda: codec.decode_status_request, _with_head(codec.encode_status_request))
STATUS_REPLY = Kind("StatusReply", lambda: codec.decode_status_reply, _with_head(codec.encode_status_reply))
STOP = Kind("StopRequest", lambda: codec.decode_stop_request, lambda head: [codec.encode_stop_request(head)])
STOP_REPLY = Kind("StopReply", lambda: codec.decode_stop_reply, lambda head: [codec.encode_stop_reply(head)])

_ALL = EvaluateRequest("a", 7, SEATS, _POINTS, *(True,) * 5)
_M = 2
DESCRIBE = Kind("DescribeRequest", lambda: decode_describe, lambda body: [encode_describe(body)])
DESCRIBED = Kind("DescribeReply", lambda: decode_described, lambda body: [encode_described(body)])
PLAY = Kind("PlayRequest", lambda: decode_play, lambda body: [encode_play(body)])
PLAYED = Kind("PlayReply", lambda: decode_played, lambda body: [encode_played(body)])
EVALUATE = Kind("EvaluateRequest", lambda: decode_evaluate, lambda body: [encode_evaluate(body)])
EVALUATED = Kind(
    "EvaluateReply",
    lambda: lambda data: decode_evaluated(data, _ALL, P, _M),
    lambda body: [encode_evaluated(body)],
)
SCORE = Kind("ScoreRequest", lambda: decode_score, lambda body: [encode_score(body)])
SCORED = Kind("ScoreReply", lambda: lambda data: decode_scored(data, 2), lambda body: [encode_scored(body)])

_UP: list[model.ControlUp] = [
    model.Opening(1, TICKET, 9),
    model.Heartbeat(),
    DESCRIPTION,
    model.Progress(7, 1.5, 0.25),
    model.Checkpointed(7),
    model.Waiting(7, ("host-2", "adversary")),
    model.Holding(7),
    model.Finished(),
    model.Acknowledged(),
    model.Failed("the disk is full; make room"),
    model.Accusation("host-2", "host-2 refuses its stream: Diverged"),
    model.Dispute(7, "host-2", SEATS, np.ones((3, 5))),
    model.DisputedRows(7, SEATS, np.ones((3, 5))),
    model.DisputedRows(7, SEATS, np.empty((3, 0))),
    model.Disturbed(7, SEATS),
    model.Refusals(BREACHES),
]
_DOWN: list[model.ControlDown] = [
    model.Heartbeat(),
    model.Seating(SEATS, (PEER, replace(PEER, accept=TICKET)), PEER, DESCRIPTION),
    model.Seating(SEATS, (PEER,), PEER, DESCRIPTION, (model.Departure(9, SEATS),), 64, recall=True),
    model.Standby(),
    TOPOLOGY,
    model.Hold(),
    model.StopAt(7),
    model.LowWater(7),
    model.IncidentRecord(7, 1e9, "host-2", "gone", "host-2 has gone", "its stream broke"),
    model.RowRequest(7, SEATS),
    model.RowRequest(7, SEATS, TICKET),
    model.DisputedRows(7, SEATS, np.ones((3, 5))),
    model.GameOver("host-2 died; start it again"),
]
_QUESTION = model.Question(7, SEATS, _X, _POINTS)
_ANSWER = model.Answer(7, SEATS, model.Values(_POINTS[..., 0], _RANDOM.standard_normal((3, 2, 4))))
_TANGENTS = (
    model.ValueAndGradient(_RANDOM.standard_normal(3), _X),
    model.ValueAndGradient(_RANDOM.standard_normal((3, 4)), _RANDOM.standard_normal((3, 4, P))),
)
_GOSSIP: list[model.Gossip] = [
    model.Opening(1, TICKET, 9),
    model.ResendFrom(7),
    model.Heartbeat(),
    model.Frame(7, SEATS, _X),
]
_SYMBOLS = model.Symbols(_X[:, :1].astype(np.float32), _RANDOM.integers(0, 7, (3, P), np.uint64))
CODED_FRAMES: list[model.CodedFrame] = [
    model.CodedFrame(7, SEATS, _SYMBOLS),
    model.CodedFrame(7, SEATS, model.Symbols(_SYMBOLS.scales[:2], _SYMBOLS.numbers[:2]), np.array([True, False, True])),
    model.CodedFrame(7, SEATS, model.Symbols(_SYMBOLS.scales[:0], _SYMBOLS.numbers[:0]), np.zeros(3, np.bool_)),
    model.CodedFrame(7, SEATS, model.Symbols(np.zeros((3, 1), np.float32), np.zeros((3, P), np.uint64))),
]
_REVEAL_UP: list[model.RevealUp] = [
    model.Opening(1, TICKET),
    model.Heartbeat(),
    _QUESTION,
    replace(_QUESTION, anchor=_X, loss_gradient=True, constraint_gradient=True),
    replace(_QUESTION, memo=_X),
    model.Usage(7, 1, 2, 4, 3.0, 5, 6),
    model.HistoryRequest(7, 64, SEATS),
    model.HistoryRequest(7, 64, SEATS, TICKET),
]
_REVEAL_DOWN: list[model.RevealDown] = [
    _QUESTION,
    model.Heartbeat(),
    _ANSWER,
    replace(_ANSWER, values=replace(_ANSWER.values, loss=_TANGENTS[0], constraint=_TANGENTS[1])),
]
_UNARY: list[tuple[Kind, Any]] = [
    (JOIN, (STRANGER, model.Join(model.Role.HOST, "h:1", 3, 1, "ab" * 32, SEATS, "cd" * 32, True, TICKET))),
    (WELCOME, (HEAD, model.Welcome(3, TICKET, "[run]\nname = 'ü'\n", "5e" * 32, 64))),
    (WELCOME, (HEAD, model.Challenge(TICKET))),
    (STATUS, (STRANGER, True)),
    (STATUS_REPLY, (HEAD, _STATUS)),
    (STATUS_REPLY, (HEAD, replace(_STATUS, cumulative_loss=None, cumulative_violation=None, sealed=True))),
    (STOP, STRANGER),
    (STOP_REPLY, HEAD),
]
_PLUGIN: list[tuple[Kind, Any]] = [
    (DESCRIBE, DescribeRequest(9, 3, 2**64 - 1, '{"kind":"box"}', '{"a":1}', True)),
    (DESCRIBED, DescribeReply("a", 4, 3, True, Methods(True, True, True, True, True), "0f" * 32)),
    (PLAY, PlayRequest("a", 7, 3, _POINTS)),
    (PLAYED, Methods(True, False, True, False, True)),
    (EVALUATE, _ALL),
    (
        EVALUATED,
        EvaluateReply(
            _POINTS[..., 0],
            _RANDOM.standard_normal((3, 2, _M)),
            _POINTS,
            _RANDOM.standard_normal((3, 2, _M, P)),
            (_RANDOM.standard_normal((P, P)), _RANDOM.standard_normal(P), 0.1),
            (_RANDOM.standard_normal((3 * _M, P)), _RANDOM.standard_normal(3 * _M)),
        ),
    ),
    (SCORE, ScoreRequest("a", 7, SEATS, _X)),
    (SCORED, ScoreReply(np.array([np.nan, 1.0]), np.zeros(2))),
]


def _whole(kind: Kind, decoded: Any) -> Sample:
    [data] = kind.encode(decoded)
    return Sample(kind, data)


def _unstated() -> Sample:
    """Return a frame that leaves its agents out, as only the second of a stream may."""
    [first] = codec.encode_gossip(HEAD, _GOSSIP[-1])
    [data] = codec.encode_gossip(HEAD, CODED_FRAMES[1], layout=LAYOUT, stated=False)
    return Sample(CODED, data, (first,))


def _in_parts(kind: Kind, generated: Any, body: str, payload: str) -> list[Sample]:
    """Return the first and the last part of a message that travels in two."""
    whole = bytes(getattr(getattr(generated, body), payload))
    parts = []
    for part, piece in enumerate((whole[:16], whole[16:])):
        message = type(generated).FromString(generated.SerializeToString())
        for name, value in ((payload, piece), ("part", part), ("parts", 2)):
            setattr(getattr(message, body), name, value)
        parts.append(message.SerializeToString())
    return [Sample(kind, parts[0]), Sample(kind, parts[1], (parts[0],))]


def _parts() -> list[Sample]:
    from slaternet.v1 import adversary_pb2, agent_pb2, coordinator_pb2

    split = [
        (CONTROL_DOWN, coordinator_pb2.ControlDown, TOPOLOGY, "topology", "data"),
        (GOSSIP, agent_pb2.GossipMessage, _GOSSIP[-1], "frame", "rows"),
        (CODED, agent_pb2.GossipMessage, CODED_FRAMES[0], "frame", "rows"),
        (REVEAL_UP, adversary_pb2.RevealUp, _QUESTION, "question", "data"),
        (REVEAL_DOWN, adversary_pb2.RevealDown, _ANSWER, "answer", "data"),
    ]
    samples: list[Sample] = []
    for kind, generated, body, name, payload in split:
        [data] = kind.encode((HEAD, body))
        samples += _in_parts(kind, generated.FromString(data), name, payload)  # type: ignore[attr-defined]
    return samples


SAMPLES: list[Sample] = [
    *(_whole(CONTROL_UP, (HEAD, body)) for body in _UP),
    *(_whole(CONTROL_DOWN, (HEAD, body)) for body in _DOWN),
    *(_whole(GOSSIP, (HEAD, body)) for body in _GOSSIP),
    *(_whole(CODED, (HEAD, body)) for body in CODED_FRAMES),
    _unstated(),
    *(_whole(REVEAL_UP, (HEAD, body)) for body in _REVEAL_UP),
    *(_whole(REVEAL_DOWN, (HEAD, body)) for body in _REVEAL_DOWN),
    *(_whole(kind, decoded) for kind, decoded in (*_UNARY, *_PLUGIN)),
    *_parts(),
]
