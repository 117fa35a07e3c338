"""Gradients at the anchor: asked for as declared, bought once, evaluated row by row; nothing else is revealed there."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from tests.support.specs import small_spec
from tests.support.telling import Telling, Told

from slaternet.errors import AlreadyAsked, Malformed, OutsideSet, OverBudget, PluginFailed, Refused
from slaternet.model import Agents, Answer, Array, Question, Usage, ValueAndGradient, Values
from slaternet.numerics.sets import Box
from slaternet_adversary import Adversary, Game, History
from slaternet_adversary.builtin.forms import Functions
from slaternet_adversary.builtin.linear_regression import LinearRegression
from slaternet_adversary.engine.events import Asked, Evaluate, Evaluated, Played, Reply, Used
from slaternet_adversary.engine.ledger import Ledger
from slaternet_adversary.engine.referee import Referee
from slaternet_adversary.shell.run_folder import RunFolder, claim

N, P, M = 4, 3, 2
BOX = Box(P, -1.0, 1.0)
SEATS = np.arange(N)
KINDS = [(True, False), (False, True), (True, True)]
SPEC = small_spec(N, P, rounds=2)


def question(t: int, agents: Agents = SEATS, kinds: tuple[bool, bool] = (True, True), points: int = 1) -> Question:
    """Ask at points of [-0.9, 0.9], each array by numbers of its own."""
    rng = np.random.default_rng(t)
    x, anchor = rng.uniform(-0.9, 0.9, (2, N, P))
    at = rng.uniform(-0.9, 0.9, (N, points, P))
    loss, constraint = kinds
    return Question(
        t,
        agents,
        x[agents],
        at[agents],
        anchor=anchor[agents] if any(kinds) else None,
        loss_gradient=loss,
        constraint_gradient=constraint,
    )


def granting(loss: bool = True, constraint: bool = True) -> Referee:
    referee = Referee(N, BOX, points=1, constraints=M, rounds=2, loss_gradient=loss, constraint_gradient=constraint)
    referee.seat([("a", SEATS)])
    referee.handle(Played(1))
    return referee


def evaluated(effect: Evaluate) -> Evaluated:
    """Numbers that only their own place in the answer fits."""
    asked = effect.batch.question
    k = len(asked.agents)
    rng = np.random.default_rng(asked.round)
    loss = ValueAndGradient(rng.standard_normal(k), rng.standard_normal((k, P)))
    constraint = ValueAndGradient(rng.standard_normal((k, M)), rng.standard_normal((k, M, P)))
    return Evaluated(
        effect.batch,
        Values(
            rng.standard_normal((k, 1)),
            rng.standard_normal((k, 1, M)),
            loss if asked.loss_gradient else None,
            constraint if asked.constraint_gradient else None,
        ),
    )


def bits(answer: Answer) -> list[bytes]:
    tangents = [each for each in (answer.values.loss, answer.values.constraint) if each is not None]
    arrays = [answer.values.f, answer.values.g, *(array for each in tangents for array in (each.value, each.gradient))]
    return [array.tobytes() for array in arrays]


# The referee and its ledger


@pytest.mark.parametrize("kinds", KINDS)
def test_the_same_question_again_returns_the_same_bits(kinds: tuple[bool, bool]) -> None:
    referee, asked = granting(*kinds), question(1, kinds=kinds)
    evaluate, *_ = referee.handle(Asked("a", asked))
    assert isinstance(evaluate, Evaluate)
    assert evaluate.batch.question is asked
    assert referee.handle(Asked("a", asked)) == []  # still being evaluated
    (first,) = referee.handle(evaluated(evaluate))

    (again,) = referee.handle(Asked("a", asked))

    assert isinstance(first, Reply)
    assert isinstance(again, Reply)
    assert bits(again.answer) == bits(first.answer)
    assert [part is not None for part in (again.answer.values.loss, again.answer.values.constraint)] == list(kinds)


@pytest.mark.parametrize(
    "change",
    [
        lambda asked: replace(asked, anchor=np.nextafter(asked.anchor, 2.0)),
        lambda asked: replace(asked, x=-asked.x),
    ],
)
def test_a_question_in_other_words_is_refused(change: Callable[[Question], Question]) -> None:
    referee, asked = granting(True, False), question(1, kinds=(True, False))
    referee.handle(Asked("a", asked))

    with pytest.raises(AlreadyAsked):
        referee.handle(Asked("a", change(asked)))


@pytest.mark.parametrize(
    ("granted", "kinds", "sentence"),
    [
        ((False, False), (True, False), "gradients of nothing"),
        ((False, False), (False, True), "gradients of nothing"),
        ((True, False), (False, True), "gradients of the loss$"),
        ((True, False), (True, True), "gradients of the loss$"),
        ((False, True), (True, True), "gradients of the constraints$"),
    ],
)
def test_gradients_that_are_not_granted_are_over_budget(
    granted: tuple[bool, bool], kinds: tuple[bool, bool], sentence: str
) -> None:
    with pytest.raises(OverBudget, match=sentence):
        granting(*granted).handle(Asked("a", question(1, kinds=kinds)))


@pytest.mark.parametrize("kinds", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("before", [False, True], ids=["first", "again"])
def test_less_than_is_declared_is_malformed(kinds: tuple[bool, bool], before: bool) -> None:
    referee = granting()
    if before:
        referee.handle(Asked("a", question(1)))

    with pytest.raises(Malformed, match="all the gradients"):
        referee.handle(Asked("a", question(1, kinds=kinds)))


def remembering(memo: int) -> Question:
    return replace(question(1, kinds=(False, False)), memo=np.zeros((N, memo)) if memo else None)


@pytest.mark.parametrize(("memo", "error"), [(0, Malformed), (2, Malformed), (4, OverBudget)])
def test_a_question_comes_with_exactly_the_memo_that_is_declared(memo: int, error: type[Refused]) -> None:
    referee = Referee(N, BOX, points=1, constraints=M, rounds=None, memo=3)
    referee.seat([("a", np.arange(N))])

    with pytest.raises(error, match="memo"):
        referee.handle(Asked("a", remembering(memo)))
    assert referee.handle(Asked("a", remembering(3)))


def test_an_anchor_lies_in_the_feasible_set() -> None:
    asked = question(1)

    with pytest.raises(OutsideSet, match="anchor"):
        granting().handle(Asked("a", replace(asked, anchor=np.full((N, P), 1.001))))
    granting().handle(Asked("a", replace(asked, anchor=np.full((N, P), 1.0 + 1e-12))))  # outside by rounding


def test_a_page_of_a_game_without_gradients_has_no_room_for_them() -> None:
    ledger = Ledger(N, P, points=1, constraints=M, window=2, rounds=None)
    ledger.grant(question(1, kinds=(False, False)))

    assert ledger.page(1).slopes is None


# The runtime: values against the closed forms of linear regression


@dataclass
class Overheard:
    """The functions of a round, noting what is asked at which points."""

    functions: Functions
    calls: list[tuple[str, list[int], Array]] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        method = getattr(self.functions, name)
        if name not in ("loss", "constraint", "loss_gradient", "constraint_gradient"):
            return method

        def called(agents: Agents, points: Array) -> Array:
            self.calls.append((name, agents.tolist(), points.copy()))
            values: Array = method(agents, points)
            return values

        return called


class Regression(LinearRegression):
    """Linear regression, overheard, perhaps without its promise."""

    def __init__(self, rowwise: bool = True, kind: type[Overheard] = Overheard) -> None:
        super().__init__(Game(N, P, 1, BOX), constraints=M, b=1.0)
        self.rowwise = rowwise
        self._kind = kind
        self.played: dict[int, Overheard] = {}

    def play(self, round: int, past: History | None = None) -> Overheard:  # type: ignore[override]
        self.played[round] = self._kind(super().play(round, past))
        return self.played[round]


class Begin:
    """Begins games in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.begun: list[Telling] = []

    def __call__(self, plugin: Adversary, kinds: tuple[bool, bool] = (True, True), points: int = 1) -> Telling:
        folder = self._folder / str(len(self.begun))
        claim(folder)
        loss, constraint = kinds
        referee = Referee(
            N, BOX, points=points, constraints=M, rounds=1, loss_gradient=loss, constraint_gradient=constraint
        )
        self.begun.append(Telling(plugin, referee, RunFolder(folder, SPEC, run="id")))
        self.begun[-1].seat(1, [("a", SEATS)])
        return self.begun[-1]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    begin = Begin(tmp_path)
    yield begin
    for runtime in begin.begun:
        runtime.close()


def work(runtime: Telling) -> list[Told]:
    out: list[Told] = []
    while not runtime.idle:
        out += runtime.work()
    return out


def ask(runtime: Telling, asked: Question) -> Answer:
    (reply,) = [each for each in [*runtime.handle(Asked("a", asked)), *work(runtime)] if isinstance(each, Reply)]
    return reply.answer


@pytest.mark.parametrize("kinds", KINDS)
def test_tangents_are_those_of_the_functions_at_the_anchor(begin: Begin, kinds: tuple[bool, bool]) -> None:
    plugin, asked = Regression(), question(1, kinds=kinds)

    answer = ask(begin(plugin, kinds), asked)

    functions = plugin.played[1].functions
    assert asked.anchor is not None
    residual = np.einsum("nrp,np->nr", functions.a, asked.anchor) - functions.theta
    assert (answer.values.loss is not None, answer.values.constraint is not None) == kinds
    if answer.values.loss is not None:
        np.testing.assert_allclose(answer.values.loss.value, 0.5 * (residual**2).sum(axis=1), rtol=1e-13)
        np.testing.assert_allclose(
            answer.values.loss.gradient, np.einsum("nrp,nr->np", functions.a, residual), rtol=1e-12
        )
    if answer.values.constraint is not None:
        values = np.einsum("nmp,np->nm", functions.b, asked.anchor) - functions.bound
        np.testing.assert_allclose(answer.values.constraint.value, values, rtol=1e-12)
        assert answer.values.constraint.gradient.tobytes() == functions.b.tobytes()


@pytest.mark.parametrize("kinds", KINDS)
def test_only_what_is_asked_for_is_evaluated_at_the_anchor(begin: Begin, kinds: tuple[bool, bool]) -> None:
    plugin, asked = Regression(), question(1, kinds=kinds)
    runtime = begin(plugin, kinds)
    runtime.work()  # the functions are fixed

    runtime.handle(Asked("a", asked))

    calls = plugin.played[1].calls
    assert asked.anchor is not None
    there = [name for name, _, points in calls if points.tobytes() == asked.anchor.tobytes()]
    kind = [what for what, wanted in zip(("loss", "constraint"), kinds, strict=True) if wanted]
    assert there == [name for what in kind for name in (what, f"{what}_gradient")]
    assert [name for name, _, points in calls if points.tobytes() == asked.points.tobytes()] == ["loss", "constraint"]
    assert len(calls) == len(there) + 2


def test_a_plugin_that_is_not_rowwise_is_asked_agent_by_agent_for_the_same_bits(begin: Begin) -> None:
    together, alone = Regression(), Regression(rowwise=False)

    answers = [ask(begin(plugin), question(1)) for plugin in (together, alone)]

    assert bits(answers[0]) == bits(answers[1])
    assert {len(agents) for _, agents, _ in together.played[1].calls} == {N}
    gradients = [agents for name, agents, _ in alone.played[1].calls if name == "loss_gradient"]
    assert gradients == [[i] for i in range(N)]


def test_where_no_points_are_asked_about_the_plugin_is_asked_only_at_the_anchor(begin: Begin) -> None:
    plugin = Regression()

    answer = ask(begin(plugin, points=0), question(1, points=0))

    assert answer.values.f.shape == (N, 0)
    assert answer.values.g.shape == (N, 0, M)
    assert answer.values.constraint is not None
    names = ["loss", "loss_gradient", "constraint", "constraint_gradient"]
    assert [name for name, _, _ in plugin.played[1].calls] == names  # scores are made otherwise


def test_the_one_point_asked_about_may_be_the_decision_itself(begin: Begin) -> None:
    plugin = Regression()
    runtime = begin(plugin, (False, False))
    x = np.random.default_rng(1).uniform(-0.9, 0.9, (N, P))

    runtime.work()
    (reply,) = runtime.handle(Asked("a", Question(1, SEATS, x, x[:, None])))
    work(runtime)
    with mock.patch.object(RunFolder, "record") as recorded:
        runtime.handle(Used("a", 1, Usage(1)))

    functions = plugin.played[1].functions
    assert isinstance(reply, Reply)
    assert reply.answer.values.f[:, 0].tobytes() == functions.loss(SEATS, x[:, None])[:, 0].tobytes()
    record = recorded.call_args.args[0]
    assert record.x.tobytes() == x.tobytes()
    assert record.score is not None
    everywhere = functions.loss(SEATS, np.broadcast_to(x, (N, N, P)))  # of each agent at each decision
    assert record.score.loss == pytest.approx(everywhere.mean(), rel=1e-12)


class Wrong(Overheard):
    """Gives a gradient that is none."""

    def loss_gradient(self, agents: Agents, points: Array) -> Array:
        return np.full(points.shape, np.nan)

    def constraint_gradient(self, agents: Agents, points: Array) -> Array:
        return np.zeros(points.shape)


class Lacking(Overheard):
    """Has no gradient in spite of what the first round had."""

    def __getattr__(self, name: str) -> object:
        if name.endswith("gradient"):
            raise AttributeError(name)
        return super().__getattr__(name)


@pytest.mark.parametrize(
    ("kind", "kinds", "sentence"),
    [
        (Wrong, (True, False), "loss_gradient of round 1 for agent 0 returned nan, which is not finite, at "),
        (
            Wrong,
            (False, True),
            r"constraint_gradient of round 1 .* expected \(k, s, m, p\) = \(4, 1, 2, 3\), got \(4, 1, 3\), at ",
        ),
        (Lacking, (True, False), "loss_gradient of round 1 .*raised AttributeError"),
    ],
)
def test_a_gradient_that_is_none_is_the_plugin_s_failure(
    begin: Begin, kind: type[Overheard], kinds: tuple[bool, bool], sentence: str
) -> None:
    with pytest.raises(PluginFailed, match=f"^the adversary plugin Regression failed: {sentence}"):
        ask(begin(Regression(kind=kind), kinds), question(1, kinds=kinds))
