"""The paper's example, played here with the product's parts, against measured numbers and an independent loop."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests.support.agent_games import outcome


def plain_loop() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "plain_loop.py"
    spec = importlib.util.spec_from_file_location("plain_loop", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_hundred_rounds_of_the_paper_s_example_end_at_the_measured_numbers() -> None:
    outcomes = [outcome("zhang2024", 100, seed) for seed in (1, 2, 3)]
    loss, violation, zero = (np.mean([played[each] for played in outcomes]) for each in range(3))

    # Mean and deviation of one run over 20 seeds: 2448 +- 27, 886 +- 37, 868 +- 6; here the mean of three.
    assert loss == pytest.approx(2448, abs=3 * 27)
    assert violation == pytest.approx(886, abs=3 * 37)
    assert zero == pytest.approx(868, abs=3 * 6)


def test_an_independent_loop_reaches_the_same_iterates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the loop sets it where it is absent
    plain, ours = plain_loop().play(rounds=300, seed=5), outcome("zhang2024", 300, 5)

    assert np.abs(plain.z - ours.state.z).max() < 1e-9
    assert plain.cumulative_loss == pytest.approx(ours.loss, rel=1e-9)
    assert plain.cumulative_violation == pytest.approx(ours.violation, rel=1e-9)
    assert plain.zero_loss == pytest.approx(ours.zero, rel=1e-9)


def test_an_offset_spares_the_transient() -> None:
    paper, later = outcome("zhang2024", 150, 1), outcome("zhang2024", 150, 1, t0=50)

    assert later.loss < 0.8 * paper.loss
    assert later.violation < 0.8 * paper.violation
