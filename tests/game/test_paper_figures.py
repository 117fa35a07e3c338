"""The paper's numerical example comes out as measured by independent means, over five seeds."""

from pathlib import Path

import numpy as np
import pytest
from tests.game.processes import simulated

from slaternet_lab.specs.resolve import load

SEEDS = range(1, 6)


def test_the_papers_example_ends_where_the_reference_says(tmp_path: Path) -> None:
    runs = [simulated(load("paper", [f"run.seed={seed}"]), tmp_path / str(seed)) for seed in SEEDS]

    mean = {
        key: np.mean([run.summary[key] for run in runs if run.summary is not None])
        for key in ("cumulative_loss", "cumulative_violation", "zero_loss", "zero_violation")
    }

    assert mean == {
        "cumulative_loss": pytest.approx(10398, rel=0.01),
        "cumulative_violation": pytest.approx(1291, rel=0.05),
        "zero_loss": pytest.approx(8664, rel=0.01),
        "zero_violation": 0.0,
    }
