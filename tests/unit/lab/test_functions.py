from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slaternet.errors import PluginFailed
from slaternet.spec import Spec
from slaternet_adversary.testing.slater import Slater
from slaternet_lab.assumptions.report import Finding, examine
from slaternet_lab.assumptions.sampling import QUICK, THOROUGH, Figures, measure
from slaternet_lab.specs.assemble import assemble

SPEC = """
[run]
name = "sampled"
agents = 6
rounds = 200
dimension = {dimension}
seed = 3

[set]
{set}

[algorithm]
name = "zhang2024"
schedule = "table2"

[graph]
name = "complete"

[adversary]
plugin = "{plugin}"
isolation = "none"
options = {{ {options} }}
"""

PLUGIN = """
import numpy as np
from slaternet_adversary import Adversary


class Round:
    def loss(self, agents, points):
        {loss}

    def constraint(self, agents, points):
        {constraint}
{more}

class Mine(Adversary):
    constraints = {m}
    history = {history}

    def play(self, round, past):
        {play}
        return Round()
"""


def spec_of(plugin: str, options: str = "", dimension: int = 3, set: str = 'kind = "ball"\nradius = 2.0') -> Spec:
    text = SPEC.format(plugin=plugin, options=options, dimension=dimension, set=set)
    return assemble(Spec.parse(text, source="test"), Path()).spec


def figures_of(plugin: str, options: str = "", dimension: int = 3, **rest: str) -> Figures:
    return measure(spec_of(plugin, options, dimension, **rest), THOROUGH)


def slater_of(figures: Figures) -> Slater:
    assert figures.slater is not None
    return figures.slater


Write = Callable[..., str]
"""Writes a plugin whose rounds differ from a plain one in the parts given; returns its name in a spec."""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(**parts: str | int) -> str:
        defaults = {
            "loss": "return 0.5 * (points**2).sum(axis=-1)",
            "constraint": "return points.sum(axis=-1, keepdims=True) - 1.0",
            "more": "",
            "m": 1,
            "history": 0,
            "play": "pass",
        }
        path = tmp_path / "mine.py"
        path.write_text(PLUGIN.format(**(defaults | parts)))
        return f"{path}:Mine"

    return written


def test_the_modulus_of_the_moving_target_is_the_spec_s() -> None:
    figures = figures_of("moving-target", "mu = 2.5")

    assert figures.exact_modulus
    assert figures.modulus == pytest.approx(2.5, rel=1e-12)
    assert figures.average_modulus == pytest.approx(2.5, rel=1e-12)


def test_the_constraints_of_the_moving_target_without_spread_have_slope_root_p() -> None:
    figures = figures_of("moving-target", "spread = 0.0, constraints = 1")

    assert figures.constraint_slope == pytest.approx(np.sqrt(3.0), rel=1e-12)


def test_two_equal_rows_have_the_spectral_norm_of_their_matrix() -> None:
    figures = figures_of("moving-target", "spread = 0.0, constraints = 2")

    assert figures.constraint_slope == pytest.approx(np.sqrt(6.0), rel=1e-12)


def test_the_deepest_point_of_one_row_in_a_ball_lies_against_its_normal() -> None:
    found = slater_of(figures_of("moving-target", "spread = 0.0, b = 0.5"))

    np.testing.assert_allclose(found.point, np.full(3, -2.0 / np.sqrt(3.0)), rtol=1e-5)
    assert found.margin == pytest.approx(0.5 + 2.0 * np.sqrt(3.0), rel=1e-7)
    assert found.limit == pytest.approx(found.margin, rel=1e-7)


@pytest.mark.parametrize("set", ['kind = "box"\nlower = -1.0\nupper = 3.0', 'kind = "simplex"\nsize = 2.0'])
def test_the_margin_is_at_least_that_of_the_point_zero(set: str) -> None:
    found = slater_of(figures_of("linear-regression", "b = 0.25", set=set))

    assert found.margin >= 0.25


def test_regression_on_fewer_rows_than_dimensions_is_strongly_convex_on_average_only() -> None:
    figures = figures_of("linear-regression", "rows = 2", dimension=4)

    assert figures.modulus == 0.0
    assert figures.average_modulus is not None
    assert figures.average_modulus > 0.0


def test_the_slope_of_regressions_constraints_is_within_its_bound() -> None:
    figures = figures_of("linear-regression", "constraints = 2", dimension=5)

    assert figures.constraint_slope is not None
    assert np.sqrt(10.0) < figures.constraint_slope <= 2.0 * np.sqrt(10.0)


def test_figures_are_reproducible() -> None:
    spec = spec_of("linear-regression")

    first, second = measure(spec, QUICK), measure(spec, QUICK)

    assert (first.bound, first.loss_slope, first.modulus) == (second.bound, second.loss_slope, second.modulus)
    np.testing.assert_array_equal(slater_of(first).point, slater_of(second).point)


def test_rounds_are_looked_at_ever_sparser_up_to_the_horizon() -> None:
    rounds = figures_of("moving-target").rounds

    assert rounds[:4] == (1, 2, 3, 4)
    assert rounds[-1] == 200
    assert len(rounds) <= THOROUGH.rounds


def test_a_plugin_without_gradients_is_measured_by_differences(write: Write) -> None:
    figures = figures_of(write(loss="return 2.0 * (points**2).sum(axis=-1) + points[..., 0]"))

    assert not figures.exact_loss
    assert not figures.exact_modulus
    assert figures.modulus == pytest.approx(4.0, rel=1e-4)
    assert figures.average_modulus == pytest.approx(4.0, rel=1e-4)
    assert figures.constraint_slope == pytest.approx(np.sqrt(3.0), rel=1e-6)
    assert figures.loss_slope is not None
    assert 6.0 < figures.loss_slope <= 9.0  # |4 x + e_1| with |x| <= 2
    assert 6.0 < figures.bound <= 10.0


def test_a_flat_direction_is_found_by_gradients_alone(write: Write) -> None:
    flat = "(points @ np.array([1.0, -2.0, 0.5]))"
    figures = figures_of(write(loss=f"return 0.5 * {flat}**2"))

    assert figures.modulus == 0.0
    assert figures.average_modulus == 0.0


def test_without_tangents_the_best_sampled_point_stands_for_the_deepest(write: Write) -> None:
    found = slater_of(figures_of(write()))

    assert found.margin >= 1.0  # that of the centre
    assert found.limit == np.inf


def test_the_deepest_point_of_curved_constraints_is_found_by_their_tangents(write: Write) -> None:
    gradient = """
    def constraint_gradient(self, agents, points):
        return 2.0 * (points - 0.5)[:, :, None]
"""
    curved = "return ((points - 0.5)**2).sum(axis=-1, keepdims=True) - 0.3"
    found = slater_of(figures_of(write(constraint=curved, more=gradient)))

    assert found.margin == pytest.approx(0.3, abs=1e-3)
    assert found.margin <= 0.3 <= found.limit + 1e-9


def test_a_saddle_is_not_convex(write: Write) -> None:
    figures = figures_of(write(loss="return points[..., 0]**2 - points[..., 1]**2"))

    assert figures.not_convex.startswith("f of agent ")


def test_a_constraint_that_is_not_convex_is_named_with_its_agent_and_round(write: Write) -> None:
    figures = figures_of(write(constraint="return -(points**2).sum(axis=-1, keepdims=True)"))

    assert figures.not_convex == "row 0 of g of agent 0 in round 1"


def test_a_game_without_constraints_needs_no_slater_point(write: Write) -> None:
    figures = figures_of(write(m=0, constraint="return np.empty((*points.shape[:2], 0))"))

    assert figures.slater is None
    assert figures.constraint_slope == 0.0


def test_many_dimensions_without_gradients_are_not_examined(write: Write) -> None:
    figures = figures_of(write(), dimension=200)

    assert figures.loss_slope is None
    assert figures.constraint_slope is None
    assert figures.modulus is None


def test_an_adversary_that_looks_back_is_looked_at_in_round_1_only(write: Write) -> None:
    figures = figures_of(write(history=2, play="assert round == 1 and past.decisions.shape == (0, 6, 3)"))

    assert figures.rounds == (1,)


def test_rounds_are_played_in_order_from_the_first(write: Write) -> None:
    order = "self.seen = getattr(self, 'seen', 0) + 1; assert round == self.seen"

    assert figures_of(write(play=order)).rounds[-1] == 200


@pytest.mark.parametrize(
    ("part", "code", "words"),
    [
        ("play", "raise KeyError('lost')", "play of round 1 raised KeyError"),
        ("loss", "return 1 / 0", "raised ZeroDivisionError: division by zero, at "),
        ("constraint", "return np.full((*points.shape[:2], 1), np.nan)", "not finite"),
        ("loss", "return np.zeros(7)", "wrong shape: expected (k, s) = "),
    ],
)
def test_what_a_plugin_raises_is_a_plugin_failure_with_its_place(
    write: Write, part: str, code: str, words: str
) -> None:
    with pytest.raises(PluginFailed) as caught:
        figures_of(write(**{part: code}))

    assert words in str(caught.value)


def findings_of(plugin: str, **algorithm: object) -> dict[str, Finding]:
    spec = spec_of(plugin).replace(**{f"algorithm.{name}": value for name, value in algorithm.items()})
    return {each.about: each for each in examine(assemble(spec, Path()), thorough=True)}


def test_where_nothing_is_feasible_every_theorem_is_void(write: Write) -> None:
    rows = """
    def linear(self, agents):
        return np.zeros((len(agents), 3)), np.full(len(agents), -0.1)
"""
    found = findings_of(write(constraint="return np.full((*points.shape[:2], 1), 0.1)", more=rows))

    slater = found["Assumption 5 (Slater)"]
    assert slater.verdict == "warning"
    assert slater.text.startswith("every point of X has some g >= 0.1, so that none is feasible")
    assert "Theorems 1 to 4" in slater.text
    assert "Assumption 5 fails" in found["Theorem 4"].text


def test_where_the_margin_is_zero_the_theorems_that_need_one_are_named(write: Write) -> None:
    rows = """
    def linear(self, agents):
        row = np.tile([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], (len(agents), 1))
        return row, np.zeros(2 * len(agents))
"""
    opposite = "return np.stack((points[..., 0], -points[..., 0]), axis=-1)"
    found = findings_of(write(m=2, constraint=opposite, more=rows))

    slater = found["Assumption 5 (Slater)"]
    assert slater.verdict == "warning"
    assert slater.text.startswith("no point of X has g < 0; Theorem 2")


def test_no_point_without_gradients_is_said_to_be_not_examined(write: Write) -> None:
    plugin = write(constraint="return np.full((*points.shape[:2], 1), 0.1)")

    found = findings_of(plugin, schedule="theorem1", gamma0=1e-4, c=0.5)

    slater, second = found["Assumption 5 (Slater)"], found["Theorem 2"]
    assert slater.verdict == "note"
    assert slater.text.startswith("not examined: no point sampled has g < 0, and the plugin has neither linear nor")
    assert second.verdict == "note"
    assert second.text == ("depends on Assumption 5, not examined here; it gives regret O(T^0.5), violation O(T^0.5)")
    assert found["Theorem 1"].verdict == "ok"
