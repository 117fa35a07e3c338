"""Messages between a host and the adversary."""

from slaternet import model
from slaternet.codec import wire
from slaternet.codec.parts import LARGEST, Assembly, split
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.v1 import adversary_pb2 as pb
from slaternet.v1 import common_pb2

_MOST_USAGE = 1 << 50  # the sum over all hosts of a game must fit the signed integers of arrays


def encode_reveal_up(head: model.Head, body: model.RevealUp) -> list[bytes]:
    """Return the messages that carry `body`: several where a question travels in parts."""
    about = common_pb2.Head(run=head.run, epoch=head.epoch, round=head.round, sender=head.sender)
    match body:
        case model.Question():
            return [wire.pack(pb.RevealUp(head=about, question=question)) for question in _questions(body)]
        case model.Opening():
            message = pb.RevealUp(head=about, opening=wire.write_opening(body))
        case model.Heartbeat():
            message = pb.RevealUp(head=about, heartbeat=common_pb2.Heartbeat())
        case model.Usage():
            usage = pb.Usage(
                frames=body.frames,
                bytes_sent=body.bytes_sent,
                bytes_received=body.bytes_received,
                waited=body.waited,
                rows=body.rows,
                gossip_bytes=body.gossip_bytes,
            )
            message = pb.RevealUp(head=about, usage=usage)
        case model.HistoryRequest():
            recall = pb.Recall(agents=wire.write_ids(body.agents), last=body.last, ticket=body.ticket)
            message = pb.RevealUp(head=about, recall=recall)
    return [wire.pack(message)]


def _questions(body: model.Question) -> list[pb.Question]:
    agents, points, first = body.agents.astype(wire.ID).tobytes(), body.points.shape[1], body.x_is_first_point
    if body.anchor is None and body.memo is None and first and body.points.nbytes <= LIMITS.part_bytes:
        data = body.points.astype(wire.NUMBER, copy=False).tobytes()
        return [pb.Question(agents=agents, points=points, data=data, x_is_first_point=True)]
    numbers = [body.points] if first else [body.x, body.points]
    if body.anchor is not None:
        numbers.append(body.anchor)
    if body.memo is not None:
        numbers.append(body.memo)
    pieces = split(wire.write_numbers(*numbers))
    return [
        pb.Question(
            agents=agents,
            points=points,
            data=piece,
            part=part,
            parts=len(pieces) if len(pieces) > 1 else 0,
            loss_gradient=body.loss_gradient,
            constraint_gradient=body.constraint_gradient,
            x_is_first_point=first,
            memo=0 if body.memo is None else body.memo.shape[1],
        )
        for part, piece in enumerate(pieces)
    ]


def encode_reveal_down(head: model.Head, body: model.RevealDown) -> list[bytes]:
    """Return the messages that carry `body`: several where it travels in parts."""
    about = common_pb2.Head(run=head.run, epoch=head.epoch, round=head.round, sender=head.sender)
    match body:
        case model.Answer():
            return [wire.pack(pb.RevealDown(head=about, answer=answer)) for answer in _answers(body)]
        case model.Question():
            return [wire.pack(pb.RevealDown(head=about, question=question)) for question in _questions(body)]
        case model.Heartbeat():
            return [wire.pack(pb.RevealDown(head=about, heartbeat=common_pb2.Heartbeat()))]


def _answers(body: model.Answer) -> list[pb.Answer]:
    agents, values = body.agents.astype(wire.ID).tobytes(), body.values
    f, g = values.f.astype(wire.NUMBER, copy=False), values.g.astype(wire.NUMBER, copy=False)
    _, points, constraints = g.shape
    if values.loss is None and values.constraint is None and f.nbytes + g.nbytes <= LIMITS.part_bytes:
        return [pb.Answer(agents=agents, points=points, constraints=constraints, data=f.tobytes() + g.tobytes())]
    slopes: list[model.Array] = []
    for tangent in (values.loss, values.constraint):
        if tangent is not None:
            slopes += (tangent.value, tangent.gradient)
    pieces = split(wire.write_numbers(f, g, *slopes))
    return [
        pb.Answer(
            agents=agents,
            points=points,
            constraints=constraints,
            data=piece,
            part=part,
            parts=len(pieces) if len(pieces) > 1 else 0,
            loss_gradient=values.loss is not None,
            constraint_gradient=values.constraint is not None,
            dimension=slopes[-1].shape[-1] if slopes else 0,
        )
        for part, piece in enumerate(pieces)
    ]


def question_bytes(agents: int, dimension: int, points: int, *, anchored: bool, memo: int = 0) -> int:
    """Return the payload of a question, at most: of each agent a decision, points, an anchor for gradients, a memo."""
    return 8 * agents * (dimension * (1 + points + anchored) + memo)


def answer_bytes(agents: int, points: int, constraints: int, gradients: tuple[bool, bool], dimension: int) -> int:
    """Return the payload of an answer; `gradients` of the loss, and of the constraints."""
    loss, constraint = gradients
    return 8 * agents * (points * (1 + constraints) + (loss + constraint * constraints) * (1 + dimension))


class _QuestionReader:
    """Reads questions; `dimension` numbers a point."""

    def __init__(self, dimension: int, seats: wire.SeatReader, assembly: Assembly) -> None:
        self._dimension = dimension
        self._seats = seats
        self._assembly = assembly

    def read(self, head: model.Head, message: pb.Question) -> tuple[model.Head, model.Question] | None:
        """Return a question; None where it is an unfinished part."""
        seats = message.agents
        agents = self._seats.read(seats)
        k, s, p = agents.size, message.points, self._dimension
        flags, first = (message.loss_gradient, message.constraint_gradient), message.x_is_first_point
        w = message.memo
        if s > LIMITS.points or w > LIMITS.memo or (first and not s):
            raise Malformed("a count is above its limit, or a decision that is the first point has none")
        shape, rows = (head, seats, s, flags, first, w), (not first) + s + (True in flags)
        payload = self._assembly.take(message.data, message.part, message.parts, shape, 8 * k * (p * rows + w))
        if payload is None:
            return None
        numbers, begin = wire.read_numbers(payload), 0 if first else k * p
        last = begin + k * s * p
        points = numbers[begin:last].reshape(k, s, p)
        x = points[:, 0] if first else numbers[:begin].reshape(k, p)
        anchor = numbers[last : last + k * p].reshape(k, p) if True in flags else None
        memo = numbers[numbers.size - k * w :].reshape(k, w) if w else None
        round = head.round or wire.from_round_one(head)
        return head, model.Question(round, agents, x, points, anchor, *flags, first, memo)


class RevealUpDecoder:
    """Decodes the messages of one host: `dimension` numbers a point, `agents` in the game, `largest` question."""

    def __init__(self, dimension: int, *, agents: int = LIMITS.agents, largest: int = LARGEST) -> None:
        self._seats = wire.SeatReader(agents)
        self._assembly = Assembly(largest)
        self._questions = _QuestionReader(dimension, self._seats, self._assembly)

    def decode(self, data: bytes) -> tuple[model.Head, model.RevealUp] | None:
        """Return the head and body of a message; None where it is an unfinished part."""
        message, head = wire.parse(pb.RevealUp, data)
        kind = message.WhichOneof("body")
        if kind == "question":
            return self._questions.read(head, message.question)
        if kind == "heartbeat":
            return head, wire.HEARTBEAT
        self._assembly.check_idle()
        if kind == "opening":
            return head, wire.read_opening(message.opening)
        if kind == "usage":
            usage = message.usage
            traffic, gossip = (usage.frames, usage.bytes_sent, usage.bytes_received), (usage.rows, usage.gossip_bytes)
            if max(*traffic, *gossip) > _MOST_USAGE or not 0.0 <= usage.waited <= _MOST_USAGE:
                raise Malformed("a usage is beyond what a game can take")
            return head, model.Usage(head.round, *traffic, usage.waited, *gossip)
        if kind == "recall":
            recall = message.recall
            ticket = recall.ticket and wire.ticket(recall.ticket)
            return head, model.HistoryRequest(
                wire.from_round_one(head), recall.last, self._seats.read(recall.agents), ticket
            )
        raise Malformed("a message on this stream is an opening, a heartbeat, a question, a recall or a usage")


class RevealDownDecoder:
    """Decodes the adversary's messages: `dimension` numbers a point of a recalled question, `largest` payload."""

    def __init__(self, dimension: int = 0, *, agents: int = LIMITS.agents, largest: int = LARGEST) -> None:
        self._seats = wire.SeatReader(agents)
        self._assembly = Assembly(largest)
        self._questions = _QuestionReader(dimension, self._seats, self._assembly)

    def decode(self, data: bytes) -> tuple[model.Head, model.RevealDown] | None:
        """Return the head and body of a message; None where it is an unfinished part."""
        message, head = wire.parse(pb.RevealDown, data)
        kind = message.WhichOneof("body")
        if kind == "answer":
            return self._answer(head, message.answer)
        if kind == "heartbeat":
            return head, wire.HEARTBEAT
        if kind == "question":
            return self._questions.read(head, message.question)
        raise Malformed("a message on this stream is a heartbeat, an answer or a question recalled")

    def _answer(self, head: model.Head, message: pb.Answer) -> tuple[model.Head, model.RevealDown] | None:
        seats = message.agents
        agents = self._seats.read(seats)
        k, s, m, p = agents.size, message.points, message.constraints, message.dimension
        flags = message.loss_gradient, message.constraint_gradient
        if s > LIMITS.points or m > LIMITS.constraints or p > LIMITS.dimension:
            raise Malformed("a count is above its limit")
        if (True in flags) != (p > 0):
            raise Malformed("an answer says its dimension where it holds gradients, and only there")
        shape, values, slopes = (head, seats, s, m, flags, p), s * (1 + m), 1 + p
        length = answer_bytes(k, s, m, flags, p)
        payload = self._assembly.take(message.data, message.part, message.parts, shape, length)
        if payload is None:
            return None
        numbers = wire.read_numbers(payload)
        f, g = numbers[: k * s].reshape(k, s), numbers[k * s : k * values].reshape(k, s, m)
        if not p:
            return head, model.Answer(head.round or wire.from_round_one(head), agents, model.Values(f, g))
        rest = numbers[k * values :]
        loss = _tangent(rest[: k * slopes], (k,), p) if flags[0] else None
        constraint = _tangent(rest[k * slopes * flags[0] :], (k, m), p) if flags[1] else None
        return head, model.Answer(head.round or wire.from_round_one(head), agents, model.Values(f, g, loss, constraint))


def _tangent(numbers: model.Array, shape: tuple[int, ...], dimension: int) -> model.ValueAndGradient:
    """Return values of this shape and the gradients that follow them."""
    count = numbers.size // (1 + dimension)
    return model.ValueAndGradient(numbers[:count].reshape(shape), numbers[count:].reshape(*shape, dimension))
