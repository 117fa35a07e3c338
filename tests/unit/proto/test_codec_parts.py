"""Payloads above the message limit travel in parts."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.wire_samples import HEAD, PB_HEAD, PEER, RANDOM, SEATS, same

from slaternet import codec, model
from slaternet.codec.parts import split
from slaternet.errors import Malformed, OverBudget
from slaternet.limits import LIMITS
from slaternet.model import Frame, Question
from slaternet.v1 import adversary_pb2, agent_pb2, common_pb2


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
        assert same(decoder.decode(parts[-1]), (HEAD, frame))


def test_questions_and_answers_travel_in_parts_too() -> None:
    agents = np.arange(40)
    question = Question(7, agents, RANDOM.standard_normal((40, 3000)), RANDOM.standard_normal((40, 2, 3000)))
    answer = model.Answer(
        7, agents, model.Values(RANDOM.standard_normal((40, 50)), RANDOM.standard_normal((40, 50, 150)))
    )
    up, down = codec.RevealUpDecoder(3000), codec.RevealDownDecoder()
    asked = [up.decode(part) for part in codec.encode_reveal_up(HEAD, question)]
    answered = [down.decode(part) for part in codec.encode_reveal_down(HEAD, answer)]
    assert asked[:-1] == [None] * 5
    assert same(asked[-1], (HEAD, question))
    assert answered[:-1] == [None] * 4
    assert same(answered[-1], (HEAD, answer))


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
    assert same(decoded[-1], (HEAD, frame))


def test_a_heartbeat_may_come_between_parts() -> None:
    frame, decoder = _large(), codec.GossipDecoder(13_000)
    parts = codec.encode_gossip(HEAD, frame)
    parts.insert(3, codec.encode_gossip(HEAD, model.Heartbeat())[0])
    assert same([decoder.decode(part) for part in parts][-1], (HEAD, frame))


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


def _first_question(points: int, parts: int, *, gradient: bool = False) -> bytes:
    agents = np.arange(2, dtype="<u4").tobytes()
    question = adversary_pb2.Question(
        agents=agents, points=points, data=bytes(LIMITS.part_bytes), parts=parts, loss_gradient=gradient
    )
    return adversary_pb2.RevealUp(head=PB_HEAD, question=question).SerializeToString()


def test_a_payload_that_the_game_does_not_have_is_refused_with_its_first_part() -> None:
    declared = codec.question_bytes(2, 30_000, 2, anchored=False)
    questions = codec.RevealUpDecoder(30_000, largest=declared)
    for first in (_first_question(2_500, 4096), _first_question(3, 4), _first_question(2, 4, gradient=True)):
        with pytest.raises(OverBudget):
            questions.decode(first)
    assert questions.decode(_first_question(2, 3)) is None  # nothing of the others was kept

    with pytest.raises(OverBudget):
        codec.GossipDecoder(13_000, seats=29).decode(codec.encode_gossip(HEAD, _large())[0])
    assert codec.GossipDecoder(13_000, seats=30).decode(codec.encode_gossip(HEAD, _large())[0]) is None

    agents = np.arange(40)
    values = model.Values(np.zeros((40, 50)), np.zeros((40, 50, 150)))
    first = codec.encode_reveal_down(HEAD, model.Answer(7, agents, values))[0]
    due = codec.answer_bytes(40, 50, 150, (False, False), 3)
    assert codec.RevealDownDecoder(largest=due).decode(first) is None
    with pytest.raises(OverBudget):
        codec.RevealDownDecoder(largest=due - 8).decode(first)

    first = codec.encode_control_down(HEAD, _complete(600))[0]
    assert codec.ControlDownDecoder(600).decode(first) is None
    with pytest.raises(Malformed):
        codec.ControlDownDecoder(599).decode(first)


@pytest.mark.parametrize("gradients", [(False, False), (True, False), (False, True), (True, True)])
def test_the_largest_payloads_are_those_of_the_declared_question(gradients: tuple[bool, bool]) -> None:
    k, s, m, p = 3, 2, 4, 5
    anchor = np.zeros((k, p)) if any(gradients) else None
    question = Question(7, np.arange(k), np.zeros((k, p)), np.ones((k, s, p)), anchor, *gradients)
    loss = model.ValueAndGradient(np.zeros(k), np.zeros((k, p))) if gradients[0] else None
    constraint = model.ValueAndGradient(np.zeros((k, m)), np.zeros((k, m, p))) if gradients[1] else None
    answer = model.Answer(7, np.arange(k), model.Values(np.zeros((k, s)), np.zeros((k, s, m)), loss, constraint))

    asked = adversary_pb2.RevealUp.FromString(codec.encode_reveal_up(HEAD, question)[0]).question.data
    answered = adversary_pb2.RevealDown.FromString(codec.encode_reveal_down(HEAD, answer)[0]).answer.data
    assert len(asked) == codec.question_bytes(k, p, s, anchored=any(gradients))
    assert len(answered) == codec.answer_bytes(k, s, m, gradients, p)


def test_a_topology_travels_in_parts() -> None:
    topology, decoder = _complete(600), codec.ControlDownDecoder()
    parts = codec.encode_control_down(HEAD, topology)
    assert len(parts) == 9
    assert all(len(part) < LIMITS.message_bytes for part in parts)
    assert [decoder.decode(part) for part in parts[:-1]] == [None] * 8
    assert same(decoder.decode(parts[-1]), (HEAD, topology))


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
