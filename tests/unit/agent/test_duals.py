import numpy as np
import pytest

from slaternet_agent.algorithms.duals import ascended, weighted_gradient, weighted_slope


def test_a_dual_rises_with_its_constraint_forgets_and_never_falls_below_zero() -> None:
    risen = ascended(np.array([[2.0, 1.0, 0.0]]), np.array([[1.0, -9.0, -0.0]]), beta=0.5, gamma=0.5)

    assert risen.tolist() == [[2.0, 0.0, 0.0]]
    assert not np.signbit(risen).any()


def test_a_dual_weighs_slopes_and_gradients_alike() -> None:
    rng = np.random.default_rng(0)
    q, dg, u = rng.random((5, 3)), rng.standard_normal((5, 3, 12)), rng.standard_normal((5, 12))

    weighed = weighted_gradient(q, dg)

    assert weighed == pytest.approx(np.einsum("ks,ksp->kp", q, dg))
    assert weighted_slope(q, np.einsum("ksp,kp->ks", dg, u)) == pytest.approx(np.sum(weighed * u, axis=1))


@pytest.mark.parametrize("rows", [[7], [3, 30], list(range(5, 38))])
def test_a_row_does_not_depend_on_its_batch_or_layout(rows: list[int]) -> None:
    rng = np.random.default_rng(0)
    q, dg = rng.random((40, 200)), rng.standard_normal((40, 200, 12))

    assert weighted_gradient(q[rows], dg[rows]).tobytes() == weighted_gradient(q, dg)[rows].tobytes()
    assert weighted_gradient(q, np.asfortranarray(dg)).tobytes() == weighted_gradient(q, dg).tobytes()
    assert weighted_slope(q[rows], dg[rows, :, 0]).tobytes() == weighted_slope(q, dg[:, :, 0])[rows].tobytes()
