from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from slaternet.attendance import FOREVER, Attendance
from slaternet.errors import AlreadyAsked, Forgotten, RoundNotOpen, SlaternetError
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array, Departure, Question, Values
from slaternet_adversary.engine.ledger import Ledger

AGENTS, DIMENSION, POINTS, CONSTRAINTS, WINDOW, ROUNDS = 4, 2, 2, 3, 2, 9


def question(round: int, agents: Iterable[int], words: int = 0) -> Question:
    """Ask in numbers that follow from round, agent and `words`."""
    ids = np.array(sorted(agents), dtype=np.intp)
    x = (ids + 10.0 * round + 0.25 * words)[:, None] * np.ones(DIMENSION)
    return Question(round, ids, x, np.repeat(x[:, None], POINTS, axis=1))


def values(round: int, agents: Agents) -> tuple[Array, Array]:
    f: Array = (100.0 * round + agents.astype(np.float64))[:, None] + np.arange(POINTS, dtype=np.float64)
    return f, np.repeat(f[..., None], CONSTRAINTS, axis=2) + 0.5


def new_ledger(rounds: int | None = ROUNDS) -> Ledger:
    return Ledger(AGENTS, DIMENSION, points=POINTS, constraints=CONSTRAINTS, window=WINDOW, rounds=rounds)


class LedgerMachine(RuleBasedStateMachine):
    """The ledger against a dictionary of who asked what."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = new_ledger()
        self.last = dict.fromkeys(range(AGENTS), 0)
        self.words: dict[tuple[int, int], int] = {}
        self.filled: set[tuple[int, int]] = set()
        self.mark = 0
        self.ends = [FOREVER] * AGENTS

    def expected(self, asked: Question, words: int) -> set[int] | type[SlaternetError]:
        """Return which agents buy something new, or why it is refused."""
        t = asked.round
        lasts = {i: self.last[i] for i in asked.agents.tolist()}
        if any(last < t - 1 or self.ends[i] <= t for i, last in lasts.items()):
            return RoundNotOpen
        old, new = {i for i in lasts if lasts[i] >= t}, {i for i in lasts if lasts[i] < t}
        if old and t < max(self.mark, 1):
            return Forgotten
        if any(self.words.get((t, i)) != words for i in old):
            return AlreadyAsked
        if new and (t > self.slowest + 1 + WINDOW or t > ROUNDS):
            return RoundNotOpen
        return new

    @property
    def slowest(self) -> int:
        return min(last for i, last in self.last.items() if last < self.ends[i] - 1)

    @rule(
        ahead=st.integers(-3, 3),
        agents=st.sets(st.integers(0, AGENTS - 1), min_size=1),
        words=st.sampled_from([0, 0, 0, 1]),
        fill=st.booleans(),
    )
    def ask(self, ahead: int, agents: set[int], words: int, fill: bool) -> None:
        asked = question(max(0, self.last[min(agents)] + 1 + ahead), agents, words)
        outcome = self.expected(asked, words)
        if not isinstance(outcome, set):
            with pytest.raises(outcome):
                self.ledger.grant(asked)
            return
        bought = self.ledger.grant(asked)
        assert (set() if bought is None else set(bought.agents.tolist())) == outcome
        if bought is not None:
            self.enter(bought, words, fill=fill)

    @rule(agents=st.sets(st.integers(1, AGENTS - 1), min_size=1), ahead=st.integers(0, 2))
    def depart(self, agents: set[int], ahead: int) -> None:
        """Let agents leave that stay yet, before a round that those who stay have not bought."""
        leaving = [i for i in agents if self.ends[i] == FOREVER]
        stay = [i for i in range(AGENTS) if self.ends[i] == FOREVER and i not in leaving]
        end = max([1, *(self.last[i] for i in stay), *(end for end in self.ends if end < FOREVER)]) + 1 + ahead
        for i in leaving:
            self.ends[i] = end
            for t in range(end, ROUNDS + 1):
                self.words.pop((t, i), None)
        departures = [Departure(end, np.array([i])) for i, end in enumerate(self.ends) if end < FOREVER]
        self.ledger.depart(Attendance(AGENTS, departures))

    def enter(self, asked: Question, words: int, *, fill: bool) -> None:
        for i in asked.agents.tolist():
            self.last[i] = asked.round
            self.words[asked.round, i] = words
            if fill:
                self.filled.add((asked.round, i))
        if fill:
            f, g = values(asked.round, asked.agents)
            self.ledger.fill(asked.round, asked.agents, Values(f, g))

    @rule(agents=st.sets(st.integers(0, AGENTS - 1), min_size=1))
    def all_go_on(self, agents: set[int]) -> None:
        """Let the slowest catch up, so that games get anywhere."""
        for i in sorted(agents):
            t = self.last[i] + 1
            if t <= ROUNDS and t <= self.slowest + 1 + WINDOW and t < self.ends[i]:
                asked = question(t, [i])
                assert self.ledger.grant(asked)
                self.enter(asked, 0, fill=True)

    @rule(back=st.integers(0, 3))
    def forget(self, back: int) -> None:
        mark = self.slowest + 1 - back
        self.ledger.forget_before(mark)
        self.mark = max(self.mark, mark)

    @invariant()
    def the_pages_say_the_same(self) -> None:
        for t in range(max(self.mark, 1), ROUNDS + 1):
            known = [i for i in range(AGENTS) if (t, i) in self.words]
            playing = [i for i in range(AGENTS) if self.ends[i] > t]
            assert self.ledger.complete(t) is (bool(known) and set(playing) <= set(known))
            for i in set(range(AGENTS)) - set(playing) if known else ():
                assert np.isnan(self.ledger.page(t).x[i]).all()
            for i in known:
                alone = question(t, [i], self.words[t, i])
                assert self.ledger.page(t).x[i].tobytes() == alone.x.tobytes()
                found = self.ledger.values(t, alone.agents)
                assert (found is not None) is ((t, i) in self.filled)
                if found is not None:
                    assert (found.loss, found.constraint) == (None, None)
                    for one, other in zip((found.f, found.g), values(t, alone.agents), strict=True):
                        assert one.tobytes() == other.tobytes()


LedgerMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestLedger = LedgerMachine.TestCase


def test_values_are_not_there_before_all_of_them_are() -> None:
    ledger = new_ledger()
    ledger.grant(question(1, [0, 1]))
    ledger.fill(1, np.array([0]), Values(*values(1, np.array([0]))))

    assert ledger.values(1, np.array([0, 1])) is None
    found = ledger.values(1, np.array([0]))
    assert found is not None
    assert found.f.tolist() == [[100.0, 101.0]]


def test_a_question_is_compared_by_its_bits() -> None:
    ledger = new_ledger()
    zero = Question(1, np.array([0]), np.zeros((1, DIMENSION)), np.zeros((1, 2, DIMENSION)))
    ledger.grant(zero)

    assert not ledger.grant(Question(1, zero.agents, zero.x.copy(), zero.points.copy()))
    with pytest.raises(AlreadyAsked):
        ledger.grant(Question(1, zero.agents, -zero.x, zero.points))
    with pytest.raises(AlreadyAsked):
        ledger.grant(Question(1, zero.agents, zero.x, -zero.points))


def test_a_game_without_end_is_bounded_by_the_window_alone() -> None:
    ledger = new_ledger(rounds=None)
    for t in range(1, ROUNDS + 5):
        assert ledger.grant(question(t, range(AGENTS)))
    for t in range(ROUNDS + 5, ROUNDS + 5 + WINDOW + 1):
        assert ledger.grant(question(t, [2]))

    with pytest.raises(RoundNotOpen, match="outside the window"):
        ledger.grant(question(ROUNDS + 5 + WINDOW + 1, [2]))


def test_a_large_page_that_is_settled_keeps_no_points_and_still_knows_a_question_again() -> None:
    agents, p = np.arange(2), LIMITS.chunk_bytes // 16
    ledger = Ledger(2, p, points=2, constraints=1, window=2, rounds=None)
    x = np.random.default_rng(1).standard_normal((2, p))
    asked = Question(1, agents, x, np.stack((x, x + 1.0), axis=1))
    ledger.grant(asked)
    ledger.fill(1, agents, Values(np.ones((2, 2)), np.zeros((2, 2, 1))))

    ledger.settle(1)

    assert ledger.page(1).points.nbytes + ledger.page(1).x.nbytes == 0
    assert ledger.grant(asked) is None
    assert ledger.grant(Question(1, agents[1:], x[1:], asked.points[1:])) is None
    found = ledger.values(1, agents)
    assert found is not None
    assert found.f.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    other = asked.points.copy()
    other[1, 1, -1] = np.nextafter(other[1, 1, -1], 9.0)
    with pytest.raises(AlreadyAsked):
        ledger.grant(Question(1, agents, x, other))


def remembering(memo: float) -> Question:
    return replace(question(1, range(AGENTS)), memo=np.full((AGENTS, 3), memo))


@pytest.mark.parametrize("settled", [False, True])
def test_a_question_asked_again_has_the_same_memo_to_the_bit(settled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slaternet_adversary.engine.ledger.LIMITS", replace(LIMITS, chunk_bytes=1))
    ledger = Ledger(AGENTS, DIMENSION, points=POINTS, constraints=CONSTRAINTS, window=WINDOW, rounds=ROUNDS, memo=3)
    ledger.grant(remembering(0.0))
    if settled:
        ledger.settle(1)

    assert ledger.grant(remembering(0.0)) is None
    with pytest.raises(AlreadyAsked):
        ledger.grant(remembering(-0.0))
