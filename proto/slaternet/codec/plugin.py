"""Messages between a game and an adversary outside its process, `slaternet.v1.Plugin`.

A plugin is somebody else's program: what it answers must have exactly the size that follows from the question. Numbers
may be anything, NaN and infinities too: the past of agents that have left is NaN, and what a plugin may return is
judged where it is used.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from slaternet.codec.plugin_messages import Methods
from slaternet.codec.wire import below, digest, fits, read_agents, text, write_ids, write_numbers
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet.v1 import plugin_pb2 as pb

_NUMBER = np.dtype("<f8")

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class DescribeRequest:
    """A new instance is wanted; set and options are JSON."""

    agents: int
    dimension: int
    seed: int
    set: str
    options: str
    probe: bool = False


@dataclass(frozen=True, slots=True)
class DescribeReply:
    """An instance, and what others must know of it; methods are None where they were not asked for."""

    instance: str
    constraints: int
    history: int = 0
    rowwise: bool = False
    methods: Methods | None = None
    version: str = ""


@dataclass(frozen=True, slots=True)
class PlayRequest:
    """The functions of a round are to be fixed; past holds (h, n, p) numbers, flat where they were decoded."""

    instance: str
    round: int
    needed: int
    past: Array


@dataclass(frozen=True, slots=True)
class EvaluateRequest:
    """The functions of some agents are asked about; points (k, s, p), s = 0 where none are needed."""

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
    """What was asked for; the rest is None."""

    f: Array | None = None  # (k, s)
    g: Array | None = None  # (k, s, m)
    loss_gradient: Array | None = None  # (k, s, p)
    constraint_gradient: Array | None = None  # (k, s, m, p)
    quadratic: tuple[Array, Array, float] | None = None  # (p, p), (p,) and a number
    linear: tuple[Array, Array] | None = None  # (k m, p) and (k m,)


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """Points are to be scored by the functions of some agents; (N, p), flat where they were decoded."""

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
    """Return the table that a JSON text holds."""
    try:
        table = json.loads(value)
    except (ValueError, RecursionError):
        raise Malformed("a table is a JSON object") from None
    if not isinstance(table, dict):
        raise Malformed("a table is a JSON object")
    return table


def shaped(numbers: Array, *shape: int) -> Array:
    """Return numbers in this shape, which must have as many; -1 stands for as many as there are."""
    rest = math.prod(size for size in shape if size >= 0)
    if numbers.size % rest if -1 in shape and rest else numbers.size != rest:
        raise Malformed("shape and payload disagree")
    return numbers.reshape(shape)


# Describe


def encode_describe(body: DescribeRequest) -> bytes:
    """Return the request for a new instance."""
    message = pb.DescribeRequest(
        agents=body.agents,
        dimension=body.dimension,
        seed=body.seed,
        set=body.set,
        options=body.options,
        probe=body.probe,
    )
    return message.SerializeToString()


def decode_describe(data: bytes) -> DescribeRequest:
    """Return for which game an instance is wanted."""
    message = _parse(pb.DescribeRequest, data)
    agents, dimension = below(message.agents, LIMITS.agents), below(message.dimension, LIMITS.dimension)
    if not agents or not dimension:
        raise Malformed("a game has at least one agent and one dimension")
    tables = text(message.set, LIMITS.spec_bytes), text(message.options, LIMITS.spec_bytes)
    return DescribeRequest(agents, dimension, message.seed, *tables, message.probe)


def encode_described(body: DescribeReply) -> bytes:
    """Return what others must know of a new instance."""
    message = pb.DescribeReply(
        instance=body.instance,
        constraints=body.constraints,
        history=body.history,
        rowwise=body.rowwise,
        methods=_write_methods(body.methods) if body.methods else None,
        version=body.version,
    )
    return message.SerializeToString()


def decode_described(data: bytes) -> DescribeReply:
    """Return what a plugin says of a new instance."""
    message = _parse(pb.DescribeReply, data)
    return DescribeReply(
        _instance(message.instance),
        below(message.constraints, LIMITS.constraints),
        message.history,
        message.rowwise,
        _read_methods(message.methods) if message.HasField("methods") else None,
        message.version and digest(message.version),
    )


def _write_methods(methods: Methods) -> pb.Methods:
    return pb.Methods(
        loss_gradient=methods.loss_gradient,
        constraint_gradient=methods.constraint_gradient,
        network=methods.network,
        quadratic=methods.quadratic,
        linear=methods.linear,
    )


def _read_methods(message: pb.Methods) -> Methods:
    return Methods(
        message.loss_gradient, message.constraint_gradient, message.network, message.quadratic, message.linear
    )


# Play


def encode_play(body: PlayRequest) -> bytes:
    """Return the request to fix a round."""
    message = pb.PlayRequest(
        instance=body.instance, round=body.round, needed=body.needed, past=write_numbers(body.past)
    )
    return message.SerializeToString()


def decode_play(data: bytes) -> PlayRequest:
    """Return which round is to be fixed."""
    message = _parse(pb.PlayRequest, data)
    return PlayRequest(_instance(message.instance), _round(message.round), message.needed, _numbers(message.past))


def encode_played(methods: Methods) -> bytes:
    """Return what the functions of a round offer."""
    return pb.PlayReply(methods=_write_methods(methods)).SerializeToString()


def decode_played(data: bytes) -> Methods:
    """Return what the functions of a round offer."""
    return _read_methods(_parse(pb.PlayReply, data).methods)


# Evaluate


def encode_evaluate(body: EvaluateRequest) -> bytes:
    """Return the question about the functions of some agents."""
    message = pb.EvaluateRequest(
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
    )
    return message.SerializeToString()


def decode_evaluate(data: bytes) -> EvaluateRequest:
    """Return what is asked about the functions of some agents; the dimension is the sender's."""
    message = _parse(pb.EvaluateRequest, data)
    agents = _agents(message.agents)
    points = below(message.points, LIMITS.points)
    numbers = _numbers(message.data)
    return EvaluateRequest(
        _instance(message.instance),
        _round(message.round),
        agents,
        shaped(numbers, agents.size, points, -1 if points else 0),
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

    def read(wanted: bool, field: bytes, *shape: int) -> Array | None:
        return shaped(_numbers(field), *shape) if wanted else None

    return EvaluateReply(
        read(asked.values, message.f, k, s),
        read(asked.values, message.g, k, s, m),
        read(asked.loss_gradient, message.loss_gradient, k, s, p),
        read(asked.constraint_gradient, message.constraint_gradient, k, s, m, p),
        _read_quadratic(message.quadratic, p) if asked.quadratic else None,
        _read_linear(message.linear, k * m, p) if asked.linear else None,
    )


def _read_quadratic(data: bytes, p: int) -> tuple[Array, Array, float]:
    numbers = shaped(_numbers(data), p * p + p + 1)
    return numbers[: p * p].reshape(p, p), numbers[p * p : -1], float(numbers[-1])


def _read_linear(data: bytes, rows: int, p: int) -> tuple[Array, Array]:
    numbers = shaped(_numbers(data), rows * (p + 1))
    return numbers[: rows * p].reshape(rows, p), numbers[rows * p :]


# Score


def encode_score(body: ScoreRequest) -> bytes:
    """Return the request to score points."""
    message = pb.ScoreRequest(
        instance=body.instance, round=body.round, agents=write_ids(body.agents), points=write_numbers(body.points)
    )
    return message.SerializeToString()


def decode_score(data: bytes) -> ScoreRequest:
    """Return which points are to be scored."""
    message = _parse(pb.ScoreRequest, data)
    return ScoreRequest(
        _instance(message.instance), _round(message.round), _agents(message.agents), _numbers(message.points)
    )


def encode_scored(body: ScoreReply) -> bytes:
    """Return the scores of points."""
    message = pb.ScoreReply(loss=write_numbers(body.loss), violation=write_numbers(body.violation))
    return message.SerializeToString()


def decode_scored(data: bytes, points: int) -> ScoreReply:
    """Return the scores of that many points."""
    message = _parse(pb.ScoreReply, data)
    return ScoreReply(shaped(_numbers(message.loss), points), shaped(_numbers(message.violation), points))


# What they share


def _parse(kind: type[M], data: bytes) -> M:
    """Return the message in `data`, which gRPC has held to `LIMITS.plugin_message_bytes`."""
    try:
        return kind.FromString(data)
    except DecodeError:
        raise Malformed("the bytes are not a message of the kind expected here") from None


def _numbers(data: bytes) -> Array:
    if len(data) % 8:
        raise Malformed("numbers are 8 bytes each")
    return np.frombuffer(data, _NUMBER)


def _agents(data: bytes) -> Agents:
    agents = read_agents(data)
    if not agents.size:
        raise Malformed("a message must name the agents it speaks of")
    return agents


def _instance(value: str) -> str:
    if not value or not fits(value, LIMITS.name_bytes):
        raise Malformed("an instance has a name of 1 to 64 bytes")
    return value


def _round(value: int) -> int:
    if not value:
        raise Malformed("this message must name a round, from 1")
    return value
