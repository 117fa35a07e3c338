"""The exam: good adversaries pass it, and every kind of breach is found and named."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
import pytest
from tests.support import broken_adversaries as broken

from slaternet.errors import BadSpec
from slaternet.model import Agents, Array
from slaternet.numerics.sets import Ball, Box, FeasibleSet
from slaternet.spec import Spec
from slaternet_adversary import Adversary, CannotPlay, Game, History, testing
from slaternet_adversary.plugin.worker import PluginWorker, serve
from slaternet_adversary.testing import CHECKS, AdversaryContract, Line, Subject, examine

FAULTS = [
    (broken.WrongShape, "shapes", "loss of round 1 has shape (6,) where (6, 2) was asked for"),
    (
        broken.ComplexNumbers,
        "dtype",
        "loss of round 1 is an array of complex128; return a float64 array",
    ),
    (broken.Objects, "dtype", "constraint of round 1 is an array of object; return a float64 array"),
    (broken.Ragged, "shapes", "loss of round 1 is a list that is no array; return one of (6, 2)"),
    (
        broken.ReusedBuffer,
        "arrays",
        "loss of round 1 returned an array that a later call has changed; return a new one",
    ),
    (
        broken.Huge,
        "overflow",
        "too large to be scored (above 1e+70); keep its values finite and moderate everywhere in X",
    ),
    (
        broken.HugeScore,
        "overflow",
        "network_loss of round 1 for agents 0, 1, 2, 3, 4, 5 makes a score that is inf, not finite or too large",
    ),
    (broken.NotFinite, "finite", "is nan at x = (2, "),
    (broken.NonDeterministic, "re-creation", "a new instance has other functions in round 1"),
    (broken.OrderDependent, "query order", "when asked again; let a round remember no question"),
    (broken.ReactsToTheRound, "reaction", "the functions of round 1 are others after other questions were asked"),
    (broken.ReactsToEarlierRounds, "reaction", "the functions of round 5 are others where nobody asked"),
    (broken.OneBoard, "older rounds", "round 4 answers otherwise after later rounds were played"),
    (broken.BatchDependent, "rowwise", "rowwise = True, but loss of agent 0 in round 1 has other bits asked alone"),
    (broken.NonConvexLoss, "convex f", "lies above a chord"),
    (broken.NonConvexConstraint, "convex g", "row 0 of g of agent"),
    (broken.WrongGradient, "loss_gradient", "where differences of loss give"),
    (broken.WrongConstraintGradient, "constraint_gradient", "gives the slope -1 along coordinate"),
    (broken.WrongNetworkLoss, "network_loss", "network_loss of 6 agent(s) in round 1 gives"),
    (broken.ShortNetworkLoss, "network_loss", "network_loss of round 1 has shape (1,) where (8,) was asked for"),
    (broken.WrongNetworkViolation, "network_violation", "where constraint gives"),
    (broken.WrongQuadratic, "quadratic", "where loss gives"),
    (broken.WrongLinear, "linear", "linear of 6 agent(s) in round 1, row"),
    (broken.WrongScoring, "scoring", "scoring() of round 1 returns other functions when called again"),
    (broken.Unscorable, "scoring", "the score of round 1 raised RuntimeError: seven, at "),
    (broken.Infeasible, "feasible", "no point of X is feasible: everywhere some g >="),
    (
        broken.InfeasibleTogether,
        "feasible",
        "no point of X is feasible: everywhere some g >= 0.1 of all agents",
    ),
    (broken.Raises, "plays", "play(3) raised KeyError: 'prices', at "),
    (broken.Exits, "plays", "play(1) raised SystemExit"),
    (broken.WritesIntoTheQuestion, "plays", "loss of round 1 writes into an array it is given; make a new one"),
    (broken.Undescribed, "plays", "constraints is 1.0; make it a whole number of at least 0"),
    (broken.Slow, "time", "play is too slow for a game, more than 1 s a call"),
]
BOX = Box(5, -2.0, 2.0)


def subject(kind: type[Adversary], game: Game | None = None) -> Subject:
    game = game or Game(6, 5, 1, BOX)

    @contextmanager
    def opened() -> Iterator[Adversary]:
        yield kind(game)

    return Subject(game, opened, 5, wider=lambda: subject(kind, Game(34, 13, 1, Box(13, -2.0, 2.0))))


def report(kind: type[Adversary], game: Game | None = None) -> dict[str, Line]:
    return {line.about: line for line in examine(subject(kind, game), clock=getattr(kind, "clock", broken.Clock()))}


def failed(lines: dict[str, Line]) -> dict[str, str]:
    return {line.about: line.text for line in lines.values() if line.verdict == "failed"}


@pytest.mark.parametrize("kind", [broken.Good, broken.Adaptive, broken.BatchDependentAndSaysSo])
def test_a_good_adversary_has_a_line_for_every_check_and_none_is_bad(kind: type[Adversary]) -> None:
    lines = report(kind)

    assert list(lines) == list(CHECKS)
    assert not [line for line in lines.values() if line.verdict in ("failed", "warning")]


@pytest.mark.parametrize(("kind", "about", "sentence"), FAULTS, ids=[each[0].__name__ for each in FAULTS])
def test_a_broken_adversary_fails_with_a_line_that_names_the_fault(
    kind: type[Adversary], about: str, sentence: str
) -> None:
    faults = failed(report(kind))

    assert sentence in faults[about]
    assert next(iter(faults)) == about  # the first that an author reads, and the one that the command ends with


def test_a_single_fault_does_not_hide_the_other_lines() -> None:
    lines = report(broken.WrongGradient)

    assert set(failed(lines)) == {"loss_gradient"}
    assert not any("not examined" in line.text for line in lines.values())


def test_what_cannot_be_examined_says_what_to_correct_first() -> None:
    assert report(broken.WrongShape)["convex f"] == Line("note", "convex f", "not examined: correct shapes first")


def test_the_counter_example_of_convexity_can_be_computed_again() -> None:
    class Dented(broken.Good):
        class Round(broken.Functions):
            def loss(self, agents: Agents, points: Array) -> Array:
                return -np.asarray(points[..., 0] ** 2)

            loss_gradient = network_loss = quadratic = None  # type: ignore[assignment]

    text = report(Dented)["convex f"].text
    told = text.partition(": ")[2]
    values = [float(part.split(" at ")[0].split()[-1]) for part in told.split("), ")]
    x, y = (float(part.split(",")[0]) for part in told.split("= (")[1:])

    assert values[:2] == pytest.approx([-x * x, -y * y], rel=1e-4)
    assert values[2] == pytest.approx(-(((x + y) / 2) ** 2), rel=1e-4)
    assert "so it is not convex" in text


def test_the_margin_is_that_of_the_best_point() -> None:
    """Sum x <= b_i with b_i in [1, 2] is loosest in the lowest corner, where it leaves 10 + min b."""
    smallest = min(float(broken.Good(Game(6, 5, 1, BOX)).play(t, None).b.min()) for t in range(1, 6))

    assert f"g <= -{10.0 + smallest:.5g} of all agents in rounds 1 to 5" in report(broken.Good)["feasible"].text


@pytest.mark.parametrize("told", [True, False])
def test_curved_constraints_on_a_ball_are_solved_by_cuts(told: bool) -> None:
    """|x - a|^2 <= 2 with a = 3 e_1 on the ball of radius 2: the point nearest to a leaves 2 - 1."""

    class Curved(broken.Good):
        class Round(broken.Functions):
            def constraint(self, agents: Agents, points: Array) -> Array:
                away = points - 3.0 * np.eye(5)[0]
                return np.asarray(np.sum(away * away, axis=-1) - 2.0)[..., None]

            def constraint_gradient(self, agents: Agents, points: Array) -> Array:
                return 2.0 * (points - 3.0 * np.eye(5)[0])[:, :, None]

            network_violation = linear = None  # type: ignore[assignment]

    if not told:
        Curved.Round.constraint_gradient = None  # type: ignore[assignment,method-assign]
    line = report(Curved, Game(6, 5, 1, Ball(5, 2.0)))["feasible"]

    assert line.verdict == "ok"
    assert float(line.text.partition("g <= -")[2].split()[0]) == pytest.approx(1.0, rel=2e-2)


def test_kinks_do_not_mislead_a_search_by_differences() -> None:
    """max_j x_j + 1.5 <= 0 leaves 0.5 in the lowest corner, where all coordinates tie."""

    class Tied(broken.Good):
        class Round(broken.Functions):
            def constraint(self, agents: Agents, points: Array) -> Array:
                return np.max(points, axis=-1, keepdims=True) + 1.5

            constraint_gradient = network_violation = linear = None  # type: ignore[assignment]

    line = report(Tied)["feasible"]

    assert line.verdict == "ok"
    assert "g <= -0.5 of all agents" in line.text


def test_a_gradient_at_a_kink_may_be_any_subgradient() -> None:
    class Kinked(broken.Good):
        class Round(broken.Functions):
            def loss(self, agents: Agents, points: Array) -> Array:
                return np.asarray(np.sum(np.abs(points - np.round(self.c[agents][:, None])), axis=-1))

            def loss_gradient(self, agents: Agents, points: Array) -> Array:
                return np.sign(points - np.round(self.c[agents][:, None]))

            network_loss = quadratic = None  # type: ignore[assignment]

    assert not failed(report(Kinked))


def test_what_is_scored_may_differ_from_what_is_revealed() -> None:
    class Noisy(broken.Good):
        class Round(broken.Functions):
            """Values are told with an error, which scores do not have."""

            def loss(self, agents: Agents, points: Array) -> Array:
                return super().loss(agents, points) + 1.0

            def scoring(self) -> broken.Functions:
                return broken.Functions(self.c, self.b)

    lines = report(Noisy)

    assert not failed(lines)
    assert lines["scoring"].text.startswith("what is scored is not what is revealed")


@pytest.mark.parametrize(
    ("kind", "about", "sentence"),
    [
        (broken.SlowToScore, "time", "a piece of a score takes more than 5 ms, for which replies wait"),
        (broken.Hoarder, "memory", "KiB more are kept after every round"),
        (broken.SinglePrecision, "dtype", "constraint of round 1 is an array of float32, with 1e-07 of a value lost"),
        (broken.Clinging, "history", "it fails when an agent has left, whose decisions are NaN"),
    ],
)
def test_what_only_slows_a_game_down_is_a_warning(kind: type[Adversary], about: str, sentence: str) -> None:
    lines = report(kind)

    assert not failed(lines)
    assert lines[about].verdict == "warning"
    assert sentence in lines[about].text


def test_what_is_not_claimed_or_absent_is_a_note_that_says_what_it_costs() -> None:
    lines = report(broken.BatchDependentAndSaysSo)
    assert lines["rowwise"].verdict == "note"
    assert "a game asks about one agent per call, and rightly: loss of agent 0" in lines["rowwise"].text

    class Bare(broken.Good):
        class Round(broken.Functions):
            loss_gradient = constraint_gradient = network_loss = None  # type: ignore[assignment]
            network_violation = quadratic = linear = None  # type: ignore[assignment]

    lines = report(Bare)
    assert [about for about, line in lines.items() if line.verdict == "note"] == [
        *("loss_gradient", "constraint_gradient", "network_loss", "network_violation", "quadratic", "linear", "prints"),
    ]


@pytest.mark.parametrize(
    ("kind", "about", "sentence"),
    [
        (broken.BigEndian, "dtype", "loss of round 1 is an array of big-endian float64, which becomes one of float64"),
        (
            broken.WholeNumbers,
            "dtype",
            "loss of round 1 is an array of int64, which becomes one of float64 at every call",
        ),
        (broken.Lists, "dtype", "constraint of round 1 is a list, which becomes one of float64 at every call"),
        (broken.Strided, "arrays", "loss of round 1 is an array that is not contiguous, and is copied at every call"),
    ],
)
def test_what_a_game_converts_is_a_note(kind: type[Adversary], about: str, sentence: str) -> None:
    lines = report(kind)

    assert not failed(lines)
    assert lines[about].verdict == "note"
    assert sentence in lines[about].text


def test_a_game_without_constraints_or_company_is_a_game() -> None:
    class Free(Adversary):
        constraints = 0

        def play(self, round: int, past: History | None) -> Any:
            class Round(broken.Functions):
                def constraint(self, agents: Agents, points: Array) -> Array:
                    return np.empty((*points.shape[:2], 0))

                linear = constraint_gradient = network_violation = None  # type: ignore[assignment]

            return Round(np.zeros((self.game.agents, self.game.dimension)), np.zeros(self.game.agents))

    lines = report(Free, Game(1, 1, 1, Box(1, -1.0, 1.0)))

    assert not failed(lines)
    assert lines["feasible"] == Line("ok", "feasible", "there are no constraints")


def test_a_game_that_the_adversary_refuses_is_the_user_s_to_correct() -> None:
    class Picky(broken.Good):
        def __init__(self, game: Game) -> None:
            raise CannotPlay("run.agents must be 7")

    with pytest.raises(BadSpec, match=r"run\.agents must be 7"):
        report(Picky)


def test_a_plugin_behind_grpc_is_examined_likewise(tmp_path: Path) -> None:
    """With its faults, as far as they can be seen from outside."""
    (tmp_path / "mine.py").write_text(Path(broken.__file__).read_text())
    server, port = serve(PluginWorker(f"{tmp_path}/mine.py:WrongGradient"), "127.0.0.1:0")
    tables: dict[str, Any] = {
        "run": {"agents": 3, "dimension": 2, "rounds": 3},
        "set": {"kind": "box", "lower": -2.0, "upper": 2.0},
        "graph": {"name": "complete"},
        "algorithm": {"name": "zero"},
        "adversary": {"plugin": f"grpc://127.0.0.1:{port}"},
    }
    try:
        lines = {line.about: line for line in examine(Spec.load(tables, source="test"))}
    finally:
        server.stop(0).wait()

    assert set(failed(lines)) == {"loss_gradient"}
    assert lines["memory"].text == "not measured: the plugin runs in a process of its own"


class TestAdaptive(AdversaryContract):
    """The exam as an author takes it: pytest collects one test per group of lines."""

    rounds = 5

    def adversary(self, game: Game) -> Adversary:
        return broken.Adaptive(game)


class TestMovingTargetOnABall(AdversaryContract):
    target = "moving-target"
    options = {"constraints": 3}  # noqa: RUF012
    agents, dimension = 3, 2

    def feasible_set(self, dimension: int) -> FeasibleSet:
        return Ball(dimension, 1.0)


def test_the_contract_fails_with_the_line_and_skips_what_hangs_on_it() -> None:
    class Mine(AdversaryContract):
        def adversary(self, game: Game) -> Adversary:
            return broken.NotFinite(game)

    with pytest.raises(AssertionError, match=r"finite: loss of agent 1 in round 1 is nan at x = "):
        Mine().test_values_have_their_shapes_and_are_finite()
    with pytest.raises(SkipTest, match="not examined: correct finite first"):
        Mine().test_losses_and_constraints_are_convex()


def test_every_line_belongs_to_a_test_of_the_contract() -> None:
    asked: list[str] = []

    class Listening(AdversaryContract):
        def _passes(self, *lines: str) -> None:
            asked.extend(lines)

    for name in dir(Listening):
        if name.startswith("test_"):
            getattr(Listening(), name)()

    assert sorted(asked) == sorted(CHECKS)


def test_authors_without_pytest_can_import_the_contract() -> None:
    sources = Path(str(testing.__file__)).parent.glob("*.py")

    assert not [path.name for path in sources if "import pytest" in path.read_text()]
