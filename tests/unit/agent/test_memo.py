"""What an agent keeps with its question, from its decision to its update."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from slaternet.errors import BadSpec, Malformed
from slaternet.model import Agents, Answer, Array, Question, Seating, Topology, Values
from slaternet.spec import AlgorithmSection
from slaternet_agent.algorithms import Algorithm, Decision, Feedback, Gossip
from slaternet_agent.algorithms.replica import Central
from slaternet_agent.engine.events import Ask, AskedBefore
from slaternet_agent.engine.host import Host
from slaternet_agent.engine.rebuild import StateRebuild
from slaternet_agent.registry import build
from slaternet_agent.testing.arena import arenas

N, P, W = 3, 2, 5
AGENTS = np.arange(N)


@dataclass(frozen=True)
class State:
    agents: Agents
    x: Array


class Keeping(Algorithm):
    """Updates by its memo alone."""

    feedback = Feedback(points=1)
    width = P
    memo_width = W

    def start(self, agents: Agents) -> State:
        return State(agents, 0.1 * agents[:, None] * np.ones(P))

    def outgoing(self, state: State, t: int) -> Array:
        return state.x

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        x = gossip.mixed
        return Decision(x, x[:, None], memo=np.tile(np.arange(W) + t, (len(x), 1)) + x[:, :1])

    def update(self, state: State, decision: Decision, seen: Values, t: int) -> State:
        return State(state.agents, decision.memo[:, :P] - seen.f)


class Crooked(Keeping):
    def __init__(self, change: Callable[[Array], Array]) -> None:
        self._change = change

    def decide(self, state: State, gossip: Gossip, t: int) -> Decision:
        decision = super().decide(state, gossip, t)
        return replace(decision, memo=self._change(decision.memo))


def asking(algorithm: Algorithm) -> tuple[Host, Question]:
    host = Host(algorithm, Seating(AGENTS, ()), N, 9)
    n, rounds = N, 9
    whole = Topology(
        1,
        rounds,
        n * np.arange(rounds * n + 1),
        np.tile(AGENTS, rounds * n),
        np.full(rounds * n * n, 1.0 / n),
        np.empty((0, 3), np.intp),
    )
    (effect,) = host.handle(whole)
    assert isinstance(effect, Ask)
    return host, effect.question


def answer(question: Question) -> Answer:
    return Answer(question.round, question.agents, Values(question.points[..., 0] * 2.0, np.zeros((N, 1, 1))))


def test_a_memo_that_is_declared_travels_with_the_question_and_comes_to_the_update() -> None:
    host, question = asking(Keeping())
    assert question.memo is not None
    assert question.memo.tolist() == (np.tile(np.arange(W) + 1, (N, 1)) + question.x[:, :1]).tolist()

    effects = host.handle(answer(question))

    ask = next(each for each in effects if isinstance(each, Ask))
    z = question.memo[:, :P] - 2.0 * question.x[:, :1]
    assert np.abs(ask.question.x - z.mean(axis=0)).max() < 1e-12


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda memo: memo[:, :-1], r"memo \(k, w\)"),
        (lambda memo: memo[:-1], r"memo \(k, w\)"),
        (lambda memo: memo[0], r"memo \(k, w\)"),
        (lambda memo: memo.astype(np.float32), "float64"),
        (lambda memo: memo / 0.0, "finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_memo_of_another_shape_or_without_end_is_the_algorithms_fault(
    change: Callable[[Array], Array], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        asking(Crooked(change))


def test_what_nobody_declares_stays_at_the_host() -> None:
    algorithm = Keeping()
    algorithm.memo_width = 0

    _, question = asking(algorithm)

    assert question.memo is None


def test_who_asks_as_before_updates_with_the_memo_of_then() -> None:
    host, question = asking(Keeping())
    assert question.memo is not None
    one = AGENTS[1:2]
    before = replace(
        question, agents=one, x=question.x[one], points=question.points[one], memo=question.memo[one] + 7.0
    )

    *_, ask = host.handle(AskedBefore(before))

    assert isinstance(ask, Ask)
    assert ask.question.memo is not None
    assert ask.question.memo[1].tolist() == (question.memo[1] + 7.0).tolist()
    assert ask.question.memo[[0, 2]].tolist() == question.memo[[0, 2]].tolist()
    with pytest.raises(Malformed, match="as many numbers"):
        host.handle(AskedBefore(replace(before, memo=before.memo[:, :-1])))  # type: ignore[index]


def test_a_state_is_rebuilt_from_memos_and_from_nothing_less() -> None:
    host, question = asking(Keeping())
    rebuild = StateRebuild(Keeping(), None, None, AGENTS, 1)
    rebuild.apply(question)
    rebuild.apply(answer(question))
    host.handle(answer(question))

    assert question.memo is not None
    assert rebuild.state.algorithm.x.tolist() == (question.memo[:, :P] - 2.0 * question.x[:, :1]).tolist()
    lacking = StateRebuild(Keeping(), None, None, AGENTS, 1)
    lacking.apply(replace(question, memo=None))
    with pytest.raises(Malformed, match="memo"):
        lacking.apply(answer(question))


@pytest.mark.parametrize("width", [-1, 1 << 18, "wide"])
def test_a_width_that_no_question_can_have_is_refused(width: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slaternet_agent.algorithms.zhang2024.Zhang2024.memo_width", width, raising=False)

    with pytest.raises(BadSpec, match="memo_width"):
        build(AlgorithmSection(name="zhang2024"), arenas(silent=False)[0].game)


def test_one_learner_for_all_keeps_its_memo_in_its_replica() -> None:
    class Single(Keeping):
        def start(self, agents: Agents) -> State:
            return State(agents, np.full((len(agents), P), 0.5))

    arena = arenas(silent=False)[0]
    central = Central(Single(), replace(arena.game, dimension=P, agents=N))
    state: Any = central.start(AGENTS)
    alone: Any = Single().start(AGENTS[:1])
    for t in range(1, 5):
        rows = central.outgoing(state, t)
        decision = central.decide(state, Everyone(rows), t)
        expected = Single().decide(alone, Everyone(alone.x), t)
        assert decision.x.tobytes() == np.tile(expected.x, (N, 1)).tobytes()
        seen = Values(decision.points[..., 0] * 2.0, np.zeros((N, 1, arena.game.constraints)))
        state = central.update(state, decision, seen, t)
        alone = Single().update(alone, expected, Values(seen.f[:1], seen.g[:1]), t)
    assert central.memo_width == 0


@dataclass(frozen=True)
class Everyone:
    mixed: Array

    @property
    def received(self) -> Array:
        return self.mixed
