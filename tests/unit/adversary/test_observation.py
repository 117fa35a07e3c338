# ruff: noqa: D106
"""A user's plugin is looked at while it plays: what is wrong is found once, and no bit of the game is another."""

import json
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from structlog.testing import capture_logs
from tests.support import broken_adversaries as broken

from slaternet.model import Agents, Array, Question, Values
from slaternet.numerics.sets import Box
from slaternet_adversary import Game
from slaternet_adversary.engine.events import Play, Score
from slaternet_adversary.plugin.observation import (
    NOT_CONVEX,
    NOT_FEASIBLE,
    NOT_REPRODUCIBLE,
    ObservedCalls,
    Observer,
    PluginFinding,
)
from slaternet_adversary.plugin.open_rounds import OpenRounds
from slaternet_adversary.plugin.plugin_calls import PluginCalls
from slaternet_adversary.shell.findings import findings
from slaternet_adversary.shell.runtime import completed
from slaternet_lab.cli import main
from slaternet_lab.games.simulation import simulate
from slaternet_lab.runs.run import Run
from slaternet_lab.specs.resolve import load

GAME = Game(4, 3, 1, Box(3, -2.0, 2.0))
EVERYONE = np.arange(GAME.agents)


class NeverFeasible(broken.Good):
    class Round(broken.Functions):
        def constraint(self, agents: Agents, points: Array) -> Array:
            return np.asarray(1.0 + np.sum(points * points, axis=-1))[..., None]

        network_violation = None  # type: ignore[assignment]


class FailsAlone(broken.Good):
    """Answers for everybody, and for nobody alone."""

    class Round(broken.Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            if len(agents) == 1:
                raise RuntimeError("ask everybody")
            return super().loss(agents, points)

        network_loss = None  # type: ignore[assignment]


class Logging(broken.Good):
    """The functions that play record what they are asked; those that are scored are others."""

    asked: ClassVar[list[int]] = []

    class Round(broken.Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            Logging.asked.append(len(agents))
            return super().loss(agents, points)

        network_loss = None  # type: ignore[assignment]

        def scoring(self) -> broken.Functions:
            return broken.Good(GAME).play(1, None)


class Clock:
    """Time passes only where a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class TimedCalls(PluginCalls):
    """Every call takes a second."""

    def __init__(self, rounds: OpenRounds, clock: Clock) -> None:
        super().__init__(rounds)
        self.clock = clock
        self.measured = 0

    async def evaluate(self, question: Question) -> Values:
        self.clock.now += 1.0
        return await super().evaluate(question)

    async def measure(self, round: int, agents: Agents, points: Array) -> tuple[Array, Array]:
        self.clock.now += 1.0
        self.measured += 1
        return await super().measure(round, agents, points)


def played(kind: type[broken.Good], rounds: int) -> tuple[list[PluginFinding], ObservedCalls, TimedCalls]:
    """Play as a game does, round after round; return what was found."""
    clock, found, plugin = Clock(), [], kind(GAME)
    calls = TimedCalls(OpenRounds(plugin), clock)
    observed = ObservedCalls(calls, Observer(GAME), found.append, clock)
    draw = np.random.default_rng(1)
    for t in range(1, rounds + 1):
        x = draw.uniform(-2.0, 2.0, (GAME.agents, GAME.dimension))
        completed(observed.play([Play(t, None)]))
        completed(observed.evaluate(Question(t, EVERYONE, x, x[:, None])))
        while not completed(observed.score([Score(t, x, EVERYONE)])):
            pass
        observed.forget(t)
    return found, observed, calls


@pytest.mark.parametrize(
    ("kind", "what", "sentence"),
    [
        (
            broken.OrderDependent,
            NOT_REPRODUCIBLE,
            "loss of agent 0 in round 1 has another value when it is asked",
        ),
        (broken.NonConvexLoss, NOT_CONVEX, "lies above a chord, so it is not convex"),
        (NeverFeasible, NOT_FEASIBLE, "none of the 9 points of X tried satisfies the constraints of all agents"),
        (FailsAlone, NOT_REPRODUCIBLE, "it fails when it is asked once more"),
    ],
)
def test_what_is_wrong_is_found_once_with_its_evidence(kind: type[broken.Good], what: str, sentence: str) -> None:
    found, _, _ = played(kind, 1000)

    assert [each.kind for each in found] == [what]
    assert sentence in found[0].sentence
    assert found[0].evidence


def test_a_plugin_that_is_not_reproducible_is_looked_at_no_more() -> None:
    found, observed, calls = played(broken.OrderDependent, 1000)

    assert [each.kind for each in found] == [NOT_REPRODUCIBLE]
    assert (observed.looking_seconds, calls.measured) == (2.0, 2)


def test_the_functions_that_play_are_asked_the_agents_questions_and_nothing_else() -> None:
    Logging.asked.clear()
    _, _, calls = played(Logging, 300)

    assert Logging.asked == [GAME.agents] * 300
    assert calls.measured > 0


def test_nothing_is_found_of_a_plugin_that_keeps_its_contract() -> None:
    found, _, calls = played(broken.Good, 1000)

    assert found == []
    assert calls.measured > 0


@pytest.mark.parametrize("kind", [broken.Good, broken.SinglePrecision])
def test_looking_takes_at_most_two_percent_of_the_plugin_s_time_and_the_last_look(kind: type[broken.Good]) -> None:
    found, observed, _ = played(kind, 1000)

    assert found == []
    assert observed.plugin_seconds == 1000.0
    assert 19.0 <= observed.looking_seconds <= 21.0


def test_the_counter_example_can_be_computed_again() -> None:
    observer, decision = Observer(GAME), np.array([1.0, 0.5, -1.0])
    points = observer.chords(decision)
    loss = -np.sum(points * points, axis=1)

    found = observer.convex(7, 3, points, loss, np.zeros(len(points)))

    assert found is not None
    assert found.round == 7
    assert found.evidence.startswith("-2.25 at x = (1, 0.5, -1), ")
    assert all(GAME.set.contains(points))


MINE = """
import os

from slaternet_adversary.builtin.moving_target import MovingTarget


class Mine(MovingTarget):
    pass


class Exits(Mine):
    def play(self, round, past):
        return Exiting(super().play(round, past))


class Exiting:
    def __init__(self, chosen):
        self.constraint, self.chosen = chosen.constraint, chosen

    def loss(self, agents, points):
        if len(agents) == 1:  # as no host asks
            os._exit(3)
        return self.chosen.loss(agents, points)


class Counting(Mine):
    def play(self, round, past):
        return Counted(super().play(round, past))


class Counted:
    def __init__(self, chosen):
        self.constraint, self.chosen, self.asked = chosen.constraint, chosen, 0

    def loss(self, agents, points):
        self.asked += 1
        return self.chosen.loss(agents, points) + 1e-9 * self.asked
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_game_that_is_looked_at_has_the_digest_of_one_that_is_not(isolation: str, mine: Path, tmp_path: Path) -> None:
    settings = ["run.rounds=60", "run.agents=4"]
    ours = load("moving-target", settings).replace(**{"adversary.options": {}})  # another plugin gets none
    unseen = simulate(ours, out=tmp_path / "one", finished=False)

    named = [f"adversary.plugin={mine}:Mine", f"adversary.isolation={isolation}"]
    seen = simulate(load("moving-target", [*named, *settings]), out=tmp_path / "two", finished=False)

    assert seen.summary["digest"] == unseen.summary["digest"]
    assert findings(seen.folder) == []


@pytest.mark.parametrize("way", ["simulate", "run"])
def test_a_game_goes_on_where_a_look_ends_the_process_of_the_plugin(way: str, mine: Path, tmp_path: Path) -> None:
    game = ["--adversary", f"{mine}:Exits", "--set", "run.rounds=60", "--set", "run.agents=4"]
    sound = load("moving-target", [f"adversary.plugin={mine}:Mine", "run.rounds=60", "run.agents=4"])
    unseen = simulate(sound, out=tmp_path / "one", finished=False)

    with pytest.raises(SystemExit) as left:
        main([way, "moving-target", *game, "--out", str(tmp_path / "two"), "--json"])

    assert left.value.code == 0
    assert Run.open(tmp_path / "two").summary["digest"] == unseen.summary["digest"]
    (incident,) = findings(tmp_path / "two")
    assert incident.kind == NOT_REPRODUCIBLE
    assert "scoring of round " in incident.evidence
    assert "ended with its process" in incident.evidence


def test_a_finding_is_logged_and_an_incident(mine: Path, tmp_path: Path) -> None:
    named = [f"adversary.plugin={mine}:Counting", "adversary.isolation=none", "run.rounds=8"]

    with capture_logs() as logs:
        simulate(load("moving-target", named), out=tmp_path / "run", finished=False)

    (incident,) = findings(tmp_path / "run")
    assert incident.kind == NOT_REPRODUCIBLE
    assert "loss of agent 0 in round 1 has another value when it is asked again" in incident.sentence
    assert [each["event"] for each in logs if each["log_level"] == "warning"] == [incident.sentence]


def test_run_repeats_on_standard_error_what_its_adversary_has_found(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    game = ["--adversary", f"{mine}:Counting", "--set", "run.rounds=8", "--set", "run.agents=2"]

    with pytest.raises(SystemExit) as left:
        main(["run", "moving-target", *game, "--out", str(tmp_path / "run"), "--json"])

    assert left.value.code == 0
    printed = capsys.readouterr()
    json.loads(printed.out)
    (incident,) = findings(tmp_path / "run")
    assert incident.kind == NOT_REPRODUCIBLE
    assert f"slaternet: {incident.sentence}; {incident.evidence}" in printed.err
