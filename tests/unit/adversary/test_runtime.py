from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from tests.support.specs import small_spec
from tests.support.telling import Telling, Told

from slaternet.errors import PluginFailed
from slaternet.model import Agents, Array, Finished, Question, StopAt, Usage
from slaternet.numerics.sets import Box
from slaternet_adversary import Adversary, Game, History, Round
from slaternet_adversary.engine.events import Asked, Reply, Used
from slaternet_adversary.engine.referee import Referee
from slaternet_adversary.shell.run_folder import RunFolder, claim

N, P = 3, 2
BOX = Box(P, -1.0, 1.0)
SEATS = {"a": np.array([0]), "b": np.array([1, 2])}
SPEC = small_spec(N, P)


@dataclass
class Plain:
    """f_i = i + sum(x), g_i = x_0, in round t shifted by t; notes whom it was asked about."""

    round: int
    calls: list[list[int]]

    def loss(self, agents: Agents, points: Array) -> Array:
        self.calls.append(agents.tolist())
        loss: Array = agents[:, None] + points.sum(axis=-1) + self.round
        return loss

    def constraint(self, agents: Agents, points: Array) -> Array:
        return points[..., :1] + 0.0 * agents[:, None, None]

    def network_loss(self, agents: Agents, points: Array) -> Array:
        loss: Array = points.sum(axis=-1) + self.round
        return loss

    def network_violation(self, agents: Agents, points: Array) -> Array:
        return np.zeros(len(points))


class Wall(Adversary):
    """Plays `make(round)` and notes what it is told."""

    constraints = 1
    rowwise = True

    def __init__(self, make: Callable[[int, list[list[int]]], Round] = Plain) -> None:
        super().__init__(Game(N, P, 1, BOX))
        self.seen: list[tuple[int, History | None]] = []
        self.calls: list[list[int]] = []
        self._make = make

    def play(self, round: int, past: History | None) -> Round:
        self.seen.append((round, past))
        return self._make(round, self.calls)


class Ticks:
    """A clock that moves a quarter of a second each time it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


class Begin(Protocol):
    def __call__(
        self, plugin: Wall, rounds: int | None = 3, history: int = 0, score_every: int = 1, name: str = "run"
    ) -> Telling: ...


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Begins games in tmp_path; their folders are closed in the end."""
    begun: list[Telling] = []

    def new(plugin: Wall, rounds: int | None = 3, history: int = 0, score_every: int = 1, name: str = "run") -> Telling:
        claim(tmp_path / name)
        referee = Referee(N, BOX, points=2, constraints=1, rounds=rounds, history=history, score_every=score_every)
        begun.append(Telling(plugin, referee, RunFolder(tmp_path / name, SPEC, run="id"), Ticks()))
        assert begun[-1].seat(1, SEATS.items()) == []
        return begun[-1]

    yield new
    for runtime in begun:
        runtime.close()


def question(host: str, t: int) -> Asked:
    agents = SEATS[host]
    x = 0.1 * t * np.ones((len(agents), P)) + agents[:, None] / 10
    return Asked(host, Question(t, agents, x, np.stack((x, x / 2), axis=1)))


def work(runtime: Telling) -> list[Told]:
    out: list[Told] = []
    while not runtime.idle:
        out += runtime.work()
    return out


def play(runtime: Telling, rounds: int) -> list[Told]:
    out = work(runtime)
    for t in range(1, rounds + 1):
        for host in SEATS:
            out += runtime.handle(question(host, t))
        out += work(runtime)
    for host in SEATS:
        out += runtime.handle(Used(host, 1, Usage(rounds, 1, 2, 3, 0.5)))
    return out


def test_a_game_is_answered_scored_recorded_and_summed_up(begin: Begin, tmp_path: Path) -> None:
    plugin = Wall()
    runtime = begin(plugin)

    out = play(runtime, 3)

    assert [type(effect) for effect in out][-1] is Finished
    replies = [effect for effect in out if isinstance(effect, Reply)]
    assert [(reply.host, reply.answer.round) for reply in replies] == [(h, t) for t in (1, 2, 3) for h in SEATS]
    for reply in replies:
        asked = question(reply.host, reply.answer.round).question
        expected = asked.agents[:, None] + asked.points.sum(axis=-1) + asked.round
        assert reply.answer.values.f.tobytes() == expected.tobytes()
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert len(rows) == 4
    # decisions of agent i in round t are (t + i) / 10 in both coordinates
    mean = [t + 2 * np.mean([(t + i) / 10 for i in range(N)]) for t in (1, 2, 3)]
    assert runtime.totals == pytest.approx((sum(mean), 0.0, 6.0, 0.0))
    assert (tmp_path / "run" / "summary.json").exists()
    assert [round for round, _ in plugin.seen] == [1, 2, 3]


def test_a_question_is_answered_at_once_while_scores_and_plays_wait(begin: Begin) -> None:
    plugin = Wall()
    runtime = begin(plugin)
    assert plugin.seen == []  # fixing functions is work, too

    assert runtime.handle(question("a", 1)) == []
    (reply,) = runtime.work()
    assert isinstance(reply, Reply)
    assert [type(effect) for effect in runtime.handle(question("b", 1))] == [Reply]
    assert not runtime.idle  # round 2 and the score of round 1
    assert len(plugin.seen) == 1
    assert runtime.work() == []
    assert len(plugin.seen) == 2  # functions before scores: a host may stand still for them
    work(runtime)
    assert runtime.idle


def test_agents_are_asked_about_together_only_if_the_plugin_is_rowwise(begin: Begin) -> None:
    together, alone = Wall(), Wall()
    alone.rowwise = False

    answers = []
    for name, plugin in (("together", together), ("alone", alone)):
        runtime = begin(plugin, rounds=2, name=name)
        answers.append([effect.answer for effect in play(runtime, 2) if isinstance(effect, Reply)])

    assert together.calls == [[0], [1, 2]] * 2
    assert alone.calls == [[0], [1], [2]] * 2
    for one, other in zip(*answers, strict=True):
        assert one.values.f.tobytes() == other.values.f.tobytes()
        assert one.values.g.tobytes() == other.values.g.tobytes()


def test_an_adaptive_plugin_is_given_the_past_and_an_oblivious_one_nothing(begin: Begin) -> None:
    oblivious, adaptive = Wall(), Wall()
    play(begin(oblivious, name="oblivious"), 3)
    play(begin(adaptive, history=2, rounds=4, name="adaptive"), 4)

    assert [past for _, past in oblivious.seen] == [None] * 3
    pasts = [past.decisions for _, past in adaptive.seen if past is not None]
    assert [len(past) for past in pasts] == [0, 1, 2, 2]
    for t, past in enumerate(pasts, 1):
        expected = [np.add.outer(np.arange(N) / 10, np.zeros(P)) + 0.1 * s for s in range(max(1, t - 2), t)]
        assert past.tolist() == [x.tolist() for x in expected]


def test_rounds_that_are_not_scored_cost_the_plugin_nothing(begin: Begin, tmp_path: Path) -> None:
    runtime = begin(Wall(), rounds=5, score_every=2)

    play(runtime, 5)

    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()[1:]
    assert [bool(row.split(",")[1]) for row in rows] == [False, True, False, True, False]
    assert runtime.totals[2] == 2.0 + 4.0


def test_a_stopped_game_is_summed_up(begin: Begin, tmp_path: Path) -> None:
    runtime = begin(Wall(), rounds=None)
    play(runtime, 2)

    (end,) = runtime.handle(StopAt(2))

    assert isinstance(end, Finished)
    assert "rounds = 2" in (tmp_path / "run" / "spec.toml").read_text()


# A plugin that misbehaves


class Raising(Plain):
    def loss(self, agents: Agents, points: Array) -> Array:
        raise KeyError("no such agent")


class Late(Plain):
    def network_loss(self, agents: Agents, points: Array) -> Array:
        raise ZeroDivisionError("by zero")


class Infinite(Plain):
    def constraint(self, agents: Agents, points: Array) -> Array:
        return np.full((*points.shape[:2], 1), np.inf)


class Undefined(Plain):
    def loss(self, agents: Agents, points: Array) -> Array:
        return np.full(points.shape[:2], np.nan)


class Huge(Plain):
    def loss(self, agents: Agents, points: Array) -> Array:
        return np.full(points.shape[:2], 1e300)


class Worthless(Plain):
    def network_violation(self, agents: Agents, points: Array) -> Array:
        return np.full(len(points), np.nan)


class Flat(Plain):
    def loss(self, agents: Agents, points: Array) -> Array:
        loss: Array = points.sum(axis=(-1, -2))
        return loss


class Generous(Plain):
    def constraint(self, agents: Agents, points: Array) -> Array:
        return np.zeros((*points.shape[:2], 2))


class Crooked(Plain):
    def network_loss(self, agents: Agents, points: Array) -> Array:
        return np.zeros(len(points) - 1)


def refuse(round: int, calls: list[list[int]]) -> Round:
    if round == 2:
        raise RuntimeError("I give up")
    return Plain(round, calls)


def second(factory: Callable[[int, list[list[int]]], Round]) -> Callable[[int, list[list[int]]], Round]:
    """Misbehave in the second round only."""
    return lambda t, calls: (factory if t == 2 else Plain)(t, calls)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (refuse, "play of round 2 raised RuntimeError: I give up, at .*test_runtime"),
        (second(Raising), "loss of round 2 for agent 0 raised KeyError: 'no such agent', at .*test_runtime"),
        (second(Late), "network_loss of round 2 for agents 0, 1, 2 raised ZeroDivisionError: by zero, at "),
        (
            second(Infinite),
            "constraint of round 2 for agent 0 returned inf, which is not finite, at .* `def constraint",
        ),
        (second(Undefined), "loss of round 2 for agent 0 returned nan, which is not finite, at .* `def loss"),
        (
            second(Worthless),
            "network_violation of round 2 for agents 0, 1, 2 makes a score that is nan, .* `def network_vio",
        ),
        (
            second(Flat),
            r"loss of round 2 for agent 0 returned the wrong shape: expected \(k, s\) = \(1, 2\), got \(1,\), at ",
        ),
        (
            second(Generous),
            r"constraint of round 2 .* wrong shape: expected \(k, s, m\) = \(1, 2, 1\), got \(1, 2, 2\), at ",
        ),
        (second(Crooked), r"network_loss of round 2 .* wrong shape: expected \(N\) = \(4,\), got \(3,\), at "),
        (
            second(Huge),
            r"loss of round 2 for agent 0 returned 1e\+300, which is too large to be scored \(above 1e\+70\)",
        ),
        (lambda t, calls: None, "play of round 1 returned NoneType, which has no methods loss and constraint, at "),
    ],
)
def test_a_failing_plugin_is_named_with_the_round(
    begin: Begin, tmp_path: Path, make: Callable[[int, list[list[int]]], Round], sentence: str
) -> None:
    runtime = begin(Wall(make))

    with pytest.raises(PluginFailed, match=f"^the adversary plugin Wall failed: {sentence}"):
        play(runtime, 3)

    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert len(rows) <= 2  # what was recorded stays
    assert not (tmp_path / "run" / "summary.json").exists()


def test_a_batch_of_single_calls_is_checked_like_one(begin: Begin) -> None:
    plugin = Wall(second(Flat))
    plugin.rowwise = False
    runtime = begin(plugin)

    with pytest.raises(
        PluginFailed, match=r"loss of round 2 for agent 0 returned .*\(k, s\) = \(1, 2\), got \(1,\), at "
    ):
        play(runtime, 3)
