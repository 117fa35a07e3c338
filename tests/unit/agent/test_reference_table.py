"""The algorithms that the paper compares, with Table II's inputs, against measured numbers."""

import numpy as np
import pytest
from tests.support.agent_games import outcome

# Mean and standard deviation of one run over 20 seeds, at T = 100; here the mean of three.
MEASURED = [
    ("yi2023", {}, (2019, 27), (1661, 43)),
    ("yi2023", {"dual_linearised": False}, (2143, 27), (1046, 25)),
    ("yi2024", {}, (948, 13), (733, 12)),
    ("zero", {}, (868, 6), (0, 0)),
]


@pytest.mark.parametrize(("name", "numbers", "loss", "violation"), MEASURED)
def test_a_hundred_rounds_of_the_paper_s_example_end_at_the_measured_numbers(
    name: str, numbers: dict[str, object], loss: tuple[int, int], violation: tuple[int, int]
) -> None:
    outcomes = [outcome(name, 100, seed, **numbers) for seed in (1, 2, 3)]

    assert np.mean([each.loss for each in outcomes]) == pytest.approx(loss[0], abs=3 * loss[1])
    assert np.mean([each.violation for each in outcomes]) == pytest.approx(violation[0], abs=3 * violation[1])


def test_the_whole_step_costs_more_than_the_half_step_of_the_square() -> None:
    half, whole = outcome("yi2024", 100, 1), outcome("yi2024", 100, 1, psi="half-square")

    assert whole.loss > 1.05 * half.loss
    assert whole.violation > 1.05 * half.violation
