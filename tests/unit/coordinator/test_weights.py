from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slaternet_coordinator.graphs.assumption4 import check
from slaternet_coordinator.graphs.base import Matrix
from slaternet_coordinator.graphs.weights import metropolis, uniform


def random_edges(n: int, rho: float, seed: int) -> NDArray[np.intp]:
    rng = np.random.default_rng(seed)
    low, high = np.triu_indices(n, 1)
    edges = np.stack((low, high), axis=1)[rng.random(len(low)) < rho]
    return edges[rng.permutation(len(edges))]


GRAPHS = {"n": st.integers(1, 40), "rho": st.floats(0, 1), "seed": st.integers(0, 999)}


@pytest.mark.parametrize("weigh", [uniform, metropolis])
@given(**GRAPHS)
def test_weights_are_doubly_stochastic_and_symmetric_on_exactly_the_edges(
    weigh: Callable[[int, NDArray[np.intp]], Matrix], n: int, rho: float, seed: int
) -> None:
    edges = random_edges(n, rho, seed)
    matrix = weigh(n, edges)
    dense = matrix.dense()
    pattern = np.eye(n, dtype=bool)
    pattern[edges[:, 0], edges[:, 1]] = pattern[edges[:, 1], edges[:, 0]] = True

    check(matrix, 1)
    assert matrix.agents == n
    assert np.array_equal(dense > 0.0, pattern)
    assert np.array_equal(dense, dense.T)


@given(**GRAPHS)
def test_columns_ascend_within_a_row_whatever_the_order_of_the_edges(n: int, rho: float, seed: int) -> None:
    matrix = uniform(n, random_edges(n, rho, seed))

    for start, end in zip(matrix.starts[:-1], matrix.starts[1:], strict=True):
        assert np.all(np.diff(matrix.columns[start:end]) > 0)


def test_the_paper_s_weights_are_one_nth_on_every_edge() -> None:
    dense = uniform(4, np.array([[0, 1], [1, 2]])).dense()

    assert dense.tolist() == [[0.75, 0.25, 0, 0], [0.25, 0.5, 0.25, 0], [0, 0.25, 0.75, 0], [0, 0, 0, 1]]


def test_metropolis_weights_follow_the_larger_degree() -> None:
    dense = metropolis(4, np.array([[0, 1], [1, 2]])).dense()

    third = 1 / 3
    assert dense == pytest.approx(
        np.array([[2 * third, third, 0, 0], [third, third, third, 0], [0, third, 2 * third, 0], [0, 0, 0, 1]])
    )
