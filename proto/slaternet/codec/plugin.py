"""Messages between a game and an adversary outside its process, `slaternet.v1.Plugin`.

A plugin is not trusted: its answers must have exactly the size that follows from the question. Numbers may be anything,
also NaN and infinite: the past of departed agents is NaN, and the values of a plugin are checked where they are used.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from slaternet.codec.wire import below, digest, fits, plain, read_agents, text, write_ids, write_numbers
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet.v1 import plugin_pb2 as pb

SERVICE = "slaternet.v1.Plugin"

_NUMBER = np.dtype("<f8")

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Methods:
    """Which optional methods the functions of a round offer."""

    loss_gradient: bool = False
    constraint_gradient: bool = False
    network: bool = False
    quadratic: bool = False
    linear: bool = False


@dataclass(frozen=True, slots=True)
class DescribeRequest:
    """Asks for a new instance; set and options are JSON."""

    agents: int
    dimension: int
    seed: int
    set: str
    options: str
    probe: bool = False


@dataclass(frozen=True, slots=True)
class DescribeReply:
    """A new instance and its properties; methods are None unless the request set `probe`."""

    instance: str
    constraints: int
    history: int = 0
    rowwise: bool = False
    methods: Methods | None = None
    version: str = ""


@dataclass(frozen=True, slots=True)
class PlayRequest:
    """Asks to fix the functions of a round; past holds (h, n, p) numbers, flat after decoding."""

    instance: str
    round: int
    needed: int
    past: Array


@dataclass(frozen=True, slots=True)
class EvaluateRequest:
    """Asks about the functions of some agents; points (k, s, p), s = 0 where none are needed."""

    instance: str
    round: int
    agents: Agents
    points: Array
    values: bool = False
    loss_gradient: bool = False
    constraint_gradient: bool = False
    quadratic: bool = False
    linear: bool = False


@dataclass(frozen=True, slots=True)
class EvaluateReply:
    """The arrays that were asked for; the rest is None."""

    f: Array | None = None  # (k, s)
    g: Array | None = None  # (k, s, m)
    loss_gradient: Array | None = None  # (k, s, p)
    constraint_gradient: Array | None = None  # (k, s, m, p)
    quadratic: tuple[Array, Array, float] | None = None  # (p, p), (p,) and a number
    linear: tuple[Array, Array] | None = None  # (k m, p) and (k m,)


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """Asks to score points by the functions of some agents; (N, p), flat after decoding."""

    instance: str
    round: int
    agents: Agents
    points: Array


@dataclass(frozen=True, slots=True)
class ScoreReply:
    """Average loss and norm of the stacked violations at each point, (N,)."""

    loss: Array
    violation: Array


def to_json(table: Mapping[str, object]) -> str:
    """Return a table of a spec as JSON; equal tables give equal texts."""
    return json.dumps(table, sort_keys=True, separators=(",", ":"), allow_nan=False)


def from_json(value: str) -> dict[str, object]:
    """Return the table in a JSON text."""
    try:
        table = json.loads(value)
    except (ValueError, RecursionError):
        raise Malformed("a table is a JSON object") from None
    if not isinstance(table, dict):
        raise Malformed("a table is a JSON object")
    return table


def shaped(numbers: Array, *shape: int, field: str = "") -> Array:
    """Return numbers in this shape; Malformed where their count differs. One size may be -1, as in `reshape`.

    `field` is the name of what holds them, with those of its sizes.
    """
    rest = math.prod(size for size in shape if size >= 0)
    if numbers.size % rest if -1 in shape and rest else numbers.size != rest:
        if field:
            name, _, sizes = field.partition(" ")
            due = f"{sizes} = {shape} in float64, {8 * rest} bytes"
            raise Malformed(f"{name} has the wrong size: expected {due}; got {8 * numbers.size} bytes")
        raise Malformed("shape and payload disagree")
    return numbers.reshape(shape)


# Describe


def encode_describe(body: DescribeRequest) -> bytes:
    """Return the request for a new instance."""
    return pb.DescribeRequest(**plain(body)).SerializeToString()


def decode_describe(data: bytes) -> DescribeRequest:
    """Return the request for a new instance."""
    message = _parse(pb.DescribeRequest, data)
    agents, dimension = below(message.agents, LIMITS.agents), below(message.dimension, LIMITS.dimension)
    if not agents or not dimension:
        raise Malformed("a game has at least one agent and one dimension")
    tables = text(message.set, LIMITS.spec_bytes), text(message.options, LIMITS.spec_bytes)
    return DescribeRequest(agents, dimension, message.seed, *tables, message.probe)


def encode_described(body: DescribeReply) -> bytes:
    """Return the description of a new instance."""
    methods = plain(body.methods) if body.methods else None
    return pb.DescribeReply(**plain(body, methods=methods)).SerializeToString()


def decode_described(data: bytes) -> DescribeReply:
    """Return the description of a new instance."""
    message = _parse(pb.DescribeReply, data)
    return DescribeReply(
        _instance(message.instance),
        below(message.constraints, LIMITS.constraints),
        message.history,
        message.rowwise,
        _read_methods(message.methods) if message.HasField("methods") else None,
        message.version and digest(message.version),
    )


def _read_methods(message: pb.Methods) -> Methods:
    return Methods(*(getattr(message, each.name) for each in fields(Methods)))


# Play


def encode_play(body: PlayRequest) -> bytes:
    """Return the request to fix a round."""
    return pb.PlayRequest(**plain(body, past=write_numbers(body.past))).SerializeToString()


def decode_play(data: bytes) -> PlayRequest:
    """Return the request to fix a round."""
    message = _parse(pb.PlayRequest, data)
    return PlayRequest(_instance(message.instance), _round(message.round), message.needed, _numbers(message.past))


def encode_played(methods: Methods) -> bytes:
    """Return the methods of a round's functions."""
    return pb.PlayReply(methods=pb.Methods(**plain(methods))).SerializeToString()


def decode_played(data: bytes) -> Methods:
    """Return the methods of a round's functions."""
    return _read_methods(_parse(pb.PlayReply, data).methods)


# Evaluate


def encode_evaluate(body: EvaluateRequest) -> bytes:
    """Return the question about the functions of some agents."""
    return pb.EvaluateRequest(
        instance=body.instance,
        round=body.round,
        agents=write_ids(body.agents),
        points=body.points.shape[1],
        data=write_numbers(body.points),
        values=body.values,
        loss_gradient=body.loss_gradient,
        constraint_gradient=body.constraint_gradient,
        quadratic=body.quadratic,
        linear=body.linear,
    ).SerializeToString()


def decode_evaluate(data: bytes) -> EvaluateRequest:
    """Return the question about the functions of some agents; the dimension is the sender's."""
    message = _parse(pb.EvaluateRequest, data)
    agents = _agents(message.agents)
    points = below(message.points, LIMITS.points)
    return EvaluateRequest(
        _instance(message.instance),
        _round(message.round),
        agents,
        shaped(_numbers(message.data), agents.size, points, -1 if points else 0),
        message.values,
        message.loss_gradient,
        message.constraint_gradient,
        message.quadratic,
        message.linear,
    )


def encode_evaluated(body: EvaluateReply) -> bytes:
    """Return the answer to a question about functions."""
    message = pb.EvaluateReply()
    for name in ("f", "g", "loss_gradient", "constraint_gradient"):
        if (array := getattr(body, name)) is not None:
            setattr(message, name, write_numbers(array))
    if body.quadratic is not None:
        hessian, slope, constant = body.quadratic
        message.quadratic = write_numbers(hessian, slope, np.array([constant]))
    if body.linear is not None:
        message.linear = write_numbers(*body.linear)
    return message.SerializeToString()


def decode_evaluated(data: bytes, asked: EvaluateRequest, dimension: int, constraints: int) -> EvaluateReply:
    """Return the answer to `asked`; every size follows from the question."""
    message = _parse(pb.EvaluateReply, data)
    k, s, _ = asked.points.shape
    p, m = dimension, constraints

    def read(wanted: bool, data: bytes, field: str, *shape: int) -> Array | None:
        return shaped(_numbers(data, field), *shape, field=field) if wanted else None

    quadratic = read(asked.quadratic, message.quadratic, "quadratic (p p + p + 1)", p * p + p + 1)
    linear = read(asked.linear, message.linear, "linear (k m p + k m)", k * m * (p + 1))
    return EvaluateReply(
        read(asked.values, message.f, "f (k, s)", k, s),
        read(asked.values, message.g, "g (k, s, m)", k, s, m),
        read(asked.loss_gradient, message.loss_gradient, "loss_gradient (k, s, p)", k, s, p),
        read(asked.constraint_gradient, message.constraint_gradient, "constraint_gradient (k, s, m, p)", k, s, m, p),
        None if quadratic is None else (quadratic[: p * p].reshape(p, p), quadratic[p * p : -1], float(quadratic[-1])),
        None if linear is None else (linear[: k * m * p].reshape(k * m, p), linear[k * m * p :]),
    )


# Score


def encode_score(body: ScoreRequest) -> bytes:
    """Return the request to score points."""
    agents, points = write_ids(body.agents), write_numbers(body.points)
    return pb.ScoreRequest(instance=body.instance, round=body.round, agents=agents, points=points).SerializeToString()


def decode_score(data: bytes) -> ScoreRequest:
    """Return the request to score points."""
    message = _parse(pb.ScoreRequest, data)
    return ScoreRequest(
        _instance(message.instance), _round(message.round), _agents(message.agents), _numbers(message.points)
    )


def encode_scored(body: ScoreReply) -> bytes:
    """Return the scores of points."""
    return pb.ScoreReply(loss=write_numbers(body.loss), violation=write_numbers(body.violation)).SerializeToString()


def decode_scored(data: bytes, points: int) -> ScoreReply:
    """Return the scores of that many points."""
    message = _parse(pb.ScoreReply, data)
    loss = shaped(_numbers(message.loss, "loss (N)"), points, field="loss (N)")
    return ScoreReply(loss, shaped(_numbers(message.violation, "violation (N)"), points, field="violation (N)"))


# Shared checks


def _parse(kind: type[M], data: bytes) -> M:
    """Return the message in `data`, whose size gRPC has limited to `LIMITS.plugin_message_bytes`."""
    try:
        return kind.FromString(data)
    except DecodeError:
        raise Malformed("the bytes are not a message of the kind expected here") from None


def _numbers(data: bytes, field: str = "a payload") -> Array:
    if len(data) % 8:
        raise Malformed(f"{field} holds float64 numbers of 8 bytes each, and has {len(data)} bytes")
    return np.frombuffer(data, _NUMBER)


def _agents(data: bytes) -> Agents:
    agents = read_agents(data)
    if not agents.size:
        raise Malformed("a message must name the agents it is about")
    return agents


def _instance(value: str) -> str:
    if not value or not fits(value, LIMITS.name_bytes):
        raise Malformed("an instance has a name of 1 to 64 bytes")
    return value


def _round(value: int) -> int:
    if not value:
        raise Malformed("this message must name a round, from 1")
    return value
