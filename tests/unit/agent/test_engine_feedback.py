"""What a host asks for and hands to its algorithm: points, gradients at the anchor, frames of any width."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pytest

from slaternet import codec
from slaternet.errors import Malformed
from slaternet.model import Agents, Answer, Array, Frame, Head, Peer, Question, Seating, Topology, ValueAndGradient
from slaternet_agent.algorithms.base import Algorithm, Decision, Feedback, Gossip, Values
from slaternet_agent.engine.events import Ask, Event, FrameArrived, Send
from slaternet_agent.engine.host import Host
from slaternet_agent.engine.questions import question_of

N, P, M, T = 5, 3, 2, 4
KINDS = [(True, False), (False, True), (True, True)]
HEAD = Head("run", 1, 1, "host")
NOTHING = Feedback()


@dataclass(frozen=True)
class State:
    agents: Agents
    x: Array


class Learner:
    """Goes against whatever gradients it is told, from the mean of its neighbours."""

    width = P

    def __init__(self, feedback: Feedback = NOTHING, anchored: bool = False) -> None:
        self.feedback = feedback
        self.seen: list[Values] = []
        self._anchored = anchored

    def start(self, agents: Agents) -> State:
        return State(agents, 0.1 * agents[:, None] * np.ones(P))

    def outgoing(self, state: State, t: int) -> Array:
        return state.x

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        x = gossip.mixed
        points = np.repeat(x[:, None], self.feedback.points, axis=1)
        return Decision(x, points, 0.5 * x if self._anchored else None)

    def update(self, state: State, decision: Decision, seen: Values, t: int) -> State:
        self.seen.append(seen)
        x = decision.x
        for slope in seen.f, *(each.value for each in (seen.loss, seen.constraint) if each is not None):
            x = x - 0.01 * np.add.reduce(slope.reshape(len(x), -1), axis=-1)[:, None]
        return State(state.agents, x)


class Narrow(Learner):
    """Gossips the first number of x alone."""

    width = 1

    def outgoing(self, state: State, t: int) -> Array:
        return state.x[:, :1]

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        return Decision(state.x + gossip.mixed, np.empty((len(state.x), 0, P)))


class Broad(Learner):
    """Gossips more than x, the round last, and reads everyone's rows."""

    width = 2 * P + 1

    def outgoing(self, state: State, t: int) -> Array:
        return np.concatenate((state.x, state.x * state.x, np.full((len(state.x), 1), float(t))), axis=1)

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        assert gossip.received.shape == (N, self.width)
        assert gossip.received[:, -1].tolist() == [t] * N
        return Decision(gossip.mixed[:, P : 2 * P], np.empty((len(state.x), 0, P)))


class Silent(Learner):
    """Gossips nothing at all."""

    width = 0

    def outgoing(self, state: State, t: int) -> Array:
        return np.empty((len(state.x), 0))

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        assert gossip.mixed.shape == (len(state.x), 0)
        assert gossip.received.shape == (N, 0)
        return Decision(state.x, np.empty((len(state.x), 0, P)))


def topology(seating: Sequence[Agents], host: int) -> Topology:
    """Everyone hears everyone in all rounds."""
    k, peers = len(seating[host]), len(seating) - 1
    debts = [(t, peer, agent) for t in range(T) for peer in range(peers) for agent in seating[host]]
    return Topology(
        1,
        T,
        N * np.arange(T * k + 1),
        np.tile(np.arange(N), T * k),
        np.full(T * k * N, 1.0 / N),
        np.array(debts, dtype=np.intp).reshape(-1, 3),
    )


def new_host(algorithm: Learner, seating: Sequence[Agents] = (np.arange(N),), host: int = 0) -> Host:
    peers = tuple(Peer(f"host-{i}", "", 1, seats) for i, seats in enumerate(seating) if i != host)
    return Host(cast("Algorithm", algorithm), Seating(seating[host], peers), N, T)


def answer(question: Question) -> Answer:
    """F = |x|^2 and two linear constraints, told as far as they are asked for."""
    weights = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]])

    def f(points: Array) -> Array:
        values: Array = np.add.reduce(points * points, axis=-1)
        return values

    def g(points: Array) -> Array:
        values: Array = np.add.reduce(points[..., None, :] * weights, axis=-1)
        return values

    loss = constraint = None
    if question.anchor is not None:
        gradient = np.tile(weights, (len(question.x), 1, 1))
        loss = ValueAndGradient(f(question.anchor), 2.0 * question.anchor) if question.loss_gradient else None
        constraint = ValueAndGradient(g(question.anchor), gradient) if question.constraint_gradient else None
    return Answer(question.round, question.agents, Values(f(question.points), g(question.points), loss, constraint))


def played(make: Callable[[], Learner], seating: Sequence[Agents]) -> Array:
    """Play all rounds, every frame through the codec, and return the decisions (T, n, p)."""
    learners = [make() for _ in seating]
    hosts = [new_host(learner, seating, i) for i, learner in enumerate(learners)]
    x = np.full((T, N, P), np.nan)
    todo: deque[tuple[int, Event]] = deque((i, topology(seating, i)) for i in range(len(hosts)))
    while todo:
        by, event = todo.popleft()
        for effect in hosts[by].handle(event):
            match effect:
                case Ask(question):
                    x[question.round - 1, question.agents] = question.x
                    todo.append((by, answer(question)))
                case Send(peer, frame):
                    to = peer + (peer >= by)
                    todo.append((to, FrameArrived(by - (by > to), delivered(frame, learners[to].width))))
    return x


def delivered(frame: Frame, width: int) -> Frame:
    (data,) = codec.encode_gossip(replace(HEAD, round=frame.round), frame)
    decoded = codec.GossipDecoder(width, agents=N).decode(data)
    assert decoded is not None
    assert isinstance(decoded[1], Frame)
    return decoded[1]


def first(host: Host) -> Question:
    (effect,) = host.handle(topology([np.arange(N)], 0))
    assert isinstance(effect, Ask)
    return effect.question


@pytest.mark.parametrize("kind", [Learner, Narrow, Broad, Silent])
@pytest.mark.parametrize("seating", [[[0, 1, 2], [3, 4]], [[1, 4], [0], [2, 3]]])
def test_frames_of_any_width_play_the_same_game_on_any_hosts(kind: type[Learner], seating: list[list[int]]) -> None:
    alone = played(kind, [np.arange(N)])

    several = played(kind, [np.array(seats) for seats in seating])

    assert np.isfinite(alone).all()
    assert several.tobytes() == alone.tobytes()


def test_an_algorithm_without_gradients_names_no_anchor() -> None:
    question = first(new_host(Learner(Feedback(points=2), anchored=True)))

    assert question.anchor is None
    assert not question.loss_gradient
    assert not question.constraint_gradient


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("anchored", [False, True])
def test_gradients_are_asked_for_at_the_anchor_or_else_at_the_decision(
    kinds: tuple[bool, bool], anchored: bool
) -> None:
    learner = Learner(Feedback(1, *kinds), anchored)
    host = new_host(learner)
    question = first(host)
    assert (question.loss_gradient, question.constraint_gradient) == kinds
    assert question.anchor is not None
    assert question.anchor.tobytes() == ((0.5 if anchored else 1.0) * question.x).tobytes()

    host.handle(answer(question))

    (seen,) = learner.seen
    assert (seen.loss is not None, seen.constraint is not None) == kinds
    if seen.loss is not None:
        assert seen.loss.gradient.tobytes() == (2.0 * question.anchor).tobytes()
    if seen.constraint is not None:
        assert seen.constraint.value.shape == (N, M)


def test_an_answer_may_hold_gradients_and_no_values_at_points() -> None:
    learner = Learner(Feedback(0, loss_gradient=True))
    host = new_host(learner)

    host.handle(answer(first(host)))

    assert host.round == 2
    assert learner.seen[0].f.shape == (N, 0)


def test_the_one_point_asked_about_may_be_the_decision_itself() -> None:
    learner = Learner(Feedback(points=1))
    host = new_host(learner)
    question = first(host)
    assert question.points[:, 0].tobytes() == question.x.tobytes()

    host.handle(answer(question))

    assert learner.seen[0].f.tobytes() == answer(question).values.f.tobytes()


def of_loss(change: Callable[[ValueAndGradient], ValueAndGradient]) -> Callable[[Values], Values]:
    return lambda told: replace(told, loss=told.loss and change(told.loss))


def of_constraint(change: Callable[[ValueAndGradient], ValueAndGradient]) -> Callable[[Values], Values]:
    return lambda told: replace(told, constraint=told.constraint and change(told.constraint))


@pytest.mark.parametrize(
    "change",
    [
        lambda told: replace(told, loss=None),
        lambda told: replace(told, constraint=None),
        of_loss(lambda each: replace(each, value=each.value[:, None])),
        of_loss(lambda each: replace(each, value=each.value[:-1])),
        of_loss(lambda each: replace(each, gradient=each.gradient[:, :-1])),
        of_constraint(lambda each: replace(each, value=each.value[:, :1], gradient=each.gradient[:, :1])),
        of_constraint(lambda each: replace(each, gradient=each.gradient[..., :-1])),
        lambda told: replace(told, loss=told.constraint, constraint=told.loss),
    ],
)
def test_an_answer_without_the_gradients_asked_for_is_malformed_and_changes_nothing(
    change: Callable[[Values], Values],
) -> None:
    learner = Learner(Feedback(1, loss_gradient=True, constraint_gradient=True))
    host = new_host(learner)
    question = first(host)

    with pytest.raises(Malformed, match="gradients"):
        host.handle(replace(answer(question), values=change(answer(question).values)))

    assert host.pending is question
    assert learner.seen == []
    host.handle(answer(question))
    assert host.round == 2


def test_an_answer_with_gradients_that_were_not_asked_for_is_malformed() -> None:
    host = new_host(Learner(Feedback(points=1)))
    told = answer(first(host))

    with pytest.raises(Malformed, match="no others"):
        host.handle(replace(told, values=replace(told.values, loss=ValueAndGradient(np.zeros(N), np.zeros((N, P))))))


@pytest.mark.parametrize("shape", [(N,), (N - 1, P), (N, P + 1), (N, 1, P)])
def test_an_anchor_of_another_shape_is_the_algorithm_s_fault(shape: tuple[int, ...]) -> None:
    class Crooked(Learner):
        def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
            return replace(super().decide(state, gossip, t), anchor=np.zeros(shape))

    with pytest.raises(ValueError, match="anchor"):
        first(new_host(Crooked(Feedback(1, loss_gradient=True))))


@pytest.mark.parametrize("width", [0, 1, P + 1])
def test_rows_of_another_width_than_declared_are_the_algorithm_s_fault(width: int) -> None:
    class Crooked(Learner):
        def outgoing(self, state: State, t: int) -> Array:
            return np.zeros((N, width))

    with pytest.raises(ValueError, match="width"):
        first(new_host(Crooked()))


@pytest.mark.parametrize("points", [0, 1, 3])
def test_an_algorithm_that_asks_about_other_points_than_it_declares_is_told_so(points: int) -> None:
    x = np.zeros((2, P))
    decision = Decision(x, np.zeros((2, points, P)))

    with pytest.raises(ValueError, match=f"asks about {points} points, and its feedback declares 2 in every round"):
        question_of(decision, Learner(Feedback(points=2)), 1, np.arange(2))
