"""The recipes for losses in jax and PyTorch: in their worker, with its limits, they play and pass the exam."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.docs.pages import ROOT

from slaternet.spec import Spec
from slaternet_adversary.plugin.makers import open_plugin
from slaternet_adversary.testing import examine
from slaternet_lab import load, simulate

GAME = ("run.agents=7", "run.dimension=5", "run.rounds=20", "graph.name=ring")
REMEDY = {"jax": "`make test-autodiff` installs it", "torch": "install it beside Slaternet, it is large"}


@pytest.fixture(params=REMEDY)
def plugin(request: pytest.FixtureRequest) -> str:
    library = request.param
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed; {REMEDY[library]}")
    return f"{ROOT}/examples/{library}_losses.py:SmoothMaximum"


def spec_of(plugin: str, *more: str) -> Spec:
    return load("paper-short", [f"adversary.plugin={plugin}", *GAME, *more])


def test_losses_whose_gradients_a_library_takes_pass_the_exam_in_their_worker(plugin: str) -> None:
    spec = spec_of(plugin)
    assert spec.adversary.isolation == "process"

    report = {line.about: line for line in examine(spec)}

    del report["time"]  # it depends on what else the machine does
    assert [line for line in report.values() if line.verdict in ("failed", "warning")] == []
    for about in ("re-creation", "rowwise", "convex f", "convex g", "loss_gradient", "constraint_gradient"):
        assert report[about].verdict == "ok"


def test_they_play_against_bandits_and_against_an_algorithm_that_is_given_gradients(
    plugin: str, tmp_path: Path
) -> None:
    for name in ("zhang2024", "yi2023-full"):
        played = spec_of(plugin, f"algorithm.name={name}")
        first = simulate(played, out=tmp_path / name, figures=False)
        again = simulate(played, out=tmp_path / f"{name}-again", figures=False)

        assert first.rounds == 20
        assert first.summary["digest"] == again.summary["digest"]


def test_their_values_follow_the_formulas(plugin: str) -> None:
    """They are computed once more by numpy, from the numbers that the address of the streams gives."""
    agents, points = np.array([1, 5]), np.random.default_rng(3).uniform(-1.0, 1.0, (2, 3, 5))
    with open_plugin(spec_of(plugin)) as (made, _):
        game, played = made.game, made.play(1, None)
        f, g = played.loss(agents, points), played.constraint(agents, points)
    centres = game.stream("centres").uniform(-0.5, 0.5, (7, 5)) / 5**0.5
    stream = game.stream("planes", block=1)
    planes = stream.uniform(-1.0, 1.0, (7, 4, 5)) + 0.5
    heights = stream.uniform(0.0, 1.0, (7, 4))

    for row, agent in enumerate(agents):
        for column, x in enumerate(points[row]):
            assert f[row, column] == pytest.approx(np.log(np.exp(planes[agent] @ x + heights[agent]).sum()), rel=1e-12)
            assert g[row, column, 0] == pytest.approx(((x - centres[agent]) ** 2).sum() - 1.0, rel=1e-12)
