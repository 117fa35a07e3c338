from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slaternet.errors import Malformed
from slaternet.model import Agents, Array, Topology
from slaternet_agent.algorithms.neighbours import neighbour_sums
from slaternet_agent.engine.public_copies import CodedGossip
from slaternet_agent.engine.round_plan import round_plans
from slaternet_agent.engine.rows import Mixer, RoundGossip, RowTable, row_hashes

WHOLE = 1 << 20


def stochastic(rng: np.random.Generator, n: int) -> Array:
    """Rows of multiples of 2^-20 that sum to exactly 1: times a float32 they leave no rounding but the sums'."""
    parts = np.where(rng.random((n, n)) < 0.4, rng.integers(1, WHOLE // (2 * n), (n, n)), 0)
    np.fill_diagonal(parts, 0)
    np.fill_diagonal(parts, WHOLE - parts.sum(axis=1))
    return parts / WHOLE


def rows_of(matrices: list[Array], seats: Agents, debts: list[tuple[int, int, int]] | None = None) -> Topology:
    starts, columns, weights = [0], list[int](), list[float]()
    for matrix in matrices:
        for i in seats:
            columns += np.flatnonzero(matrix[i]).tolist()
            weights += matrix[i][matrix[i] > 0].tolist()
            starts.append(len(columns))
    owed = np.array(debts or [], dtype=np.intp).reshape(-1, 3)
    return Topology(1, len(matrices), np.array(starts), np.array(columns), np.array(weights), owed)


def some(rng: np.random.Generator, n: int) -> NDArray[np.intp]:
    return np.sort(rng.permutation(n)[: rng.integers(1, n + 1)])


@given(seed=st.integers(0, 9999), n=st.integers(1, 20), width=st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_mixing_is_the_dense_product_summed_in_index_order(seed: int, n: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    seats, matrices = some(rng, n), [stochastic(rng, n) for _ in range(3)]
    z = (rng.standard_normal((n, width)) * 2.0 ** rng.integers(-30, 30, (n, width))).astype(np.float32).astype(float)
    board, mixer = RowTable(n, width), Mixer(len(seats), n)
    board.put(np.arange(n), z)

    for matrix, plan in zip(matrices, round_plans(rows_of(matrices, seats), seats, n, 3), strict=True):
        expected = np.zeros((len(seats), width))
        for row, i in enumerate(seats):
            for j in range(n):
                expected[row] += matrix[i, j] * z[j]
        assert mixer.gossip(plan, board).mixed.tobytes() == expected.tobytes()


@given(seed=st.integers(0, 9999), n=st.integers(1, 20), width=st.integers(0, 9), apart=st.booleans())
@settings(max_examples=60, deadline=None)
def test_neighbours_are_listed_in_index_order_with_their_rows_and_weights(
    seed: int, n: int, width: int, apart: bool
) -> None:
    rng = np.random.default_rng(seed)
    seats, matrix = some(rng, n), stochastic(rng, n)
    z, own = rng.standard_normal((n, width)), rng.standard_normal((n, width))[seats]
    board = RowTable(n, width)
    board.put(np.arange(n), z)
    (plan,) = round_plans(rows_of([matrix], seats), seats, n, 3)
    gossip: RoundGossip = Mixer(len(seats), n).gossip(plan, board)
    if apart:  # in a game with a code, others know a row by its copy
        rule: Any = None
        gossip = CodedGossip(Mixer(len(seats), n).matrix(plan), board, rule=rule, own=(seats, own), round=1)

    listed, starts, rows = [], [0], []
    for place, i in enumerate(seats):
        listed += [(j, matrix[i, j]) for j in range(n) if matrix[i, j]]
        rows += [own[place] if apart and i == j else z[j] for j in range(n) if matrix[i, j]]
        starts.append(len(listed))

    assert gossip.starts.tolist() == starts
    assert list(zip(gossip.columns.tolist(), gossip.weights.tolist(), strict=True)) == listed
    assert gossip.rows.tobytes() == np.array(rows).tobytes()
    if not apart:
        assert gossip.sum(gossip.weights[:, None] * gossip.rows).tobytes() == gossip.mixed.tobytes()


@pytest.mark.parametrize("width", [0, 1, 3, 12, 40])
def test_a_sum_over_neighbours_is_the_plain_loop_s_whatever_else_the_host_sums(width: int) -> None:
    n, rng = 100, np.random.default_rng(width)
    counts = rng.integers(1, 60, n)
    starts = np.concatenate(([0], np.cumsum(counts)))
    shape = (starts[-1], width) if width else (starts[-1],)
    values = rng.standard_normal(shape) * 2.0 ** rng.integers(-30, 30, shape)
    whole = neighbour_sums(starts, values)
    for agent in range(n):
        total = np.zeros(shape[1:])
        for each in values[starts[agent] : starts[agent + 1]]:
            total = total + each
        assert whole[agent].tobytes() == total.tobytes()

    for k in (1, 2, 33, n):
        agents = rng.permutation(n)[:k]
        some_values = np.concatenate([values[starts[each] : starts[each + 1]] for each in agents])
        own = neighbour_sums(np.concatenate(([0], np.cumsum(counts[agents]))), some_values)
        assert own.tobytes() == whole[agents].tobytes()
        if width:
            turned = neighbour_sums(np.concatenate(([0], np.cumsum(counts[agents]))), np.asfortranarray(some_values))
            assert turned.tobytes() == own.tobytes()


@given(seed=st.integers(0, 9999), n=st.integers(2, 12))
@settings(max_examples=40, deadline=None)
def test_a_plan_waits_for_exactly_the_foreign_rows_that_are_mixed(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    seats, matrices = some(rng, n), [stochastic(rng, n) for _ in range(4)]

    for matrix, plan in zip(matrices, round_plans(rows_of(matrices, seats), seats, n, 3), strict=True):
        assert plan.needed.tolist() == [j for j in range(n) if j not in seats and matrix[seats, j].any()]


def test_debts_are_grouped_by_round_and_peer() -> None:
    seats = np.array([1, 3, 4])
    debts = [(0, 0, 1), (0, 0, 4), (0, 2, 1), (2, 1, 3)]
    rng = np.random.default_rng(0)

    first, second, third = round_plans(rows_of([stochastic(rng, 6) for _ in range(3)], seats, debts), seats, 6, 3)

    assert [(peer, agents.tolist()) for peer, agents in first.debts] == [(0, [1, 4]), (2, [1])]
    assert second.debts == ()
    assert [(peer, agents.tolist()) for peer, agents in third.debts] == [(1, [3])]


def test_a_board_takes_a_row_again_only_in_the_same_bits() -> None:
    board = RowTable(4, 2)
    assert board.put(np.array([1, 3]), np.array([[0.0, 1.0], [2.0, 3.0]])) is None

    assert board.put(np.array([0, 3]), np.array([[4.0, 5.0], [2.0, 3.0]])) is None
    differs = board.put(np.array([1, 2]), np.array([[-0.0, 1.0], [6.0, 7.0]]))  # equal numbers, other bits

    assert differs is not None
    assert differs.tolist() == [True, False]
    assert board.known.all()
    assert np.copysign(1.0, board.rows[1, 0]) == 1.0
    assert board.rows[2].tolist() == [6.0, 7.0]


def test_on_the_complete_graph_an_algorithm_may_read_every_row_in_index_order() -> None:
    seats, board = np.array([2]), RowTable(4, 1)
    for agent in (3, 2, 0, 1):
        board.put(np.array([agent]), np.array([[10.0 * agent]]))
    plan = round_plans(rows_of([np.full((4, 4), 0.25)], seats), seats, 4, 3)[0]

    assert Mixer(1, 4).gossip(plan, board).received.tolist() == [[0.0], [10.0], [20.0], [30.0]]


def test_elsewhere_it_may_not_because_the_rows_depend_on_the_seating() -> None:
    seats, board = np.array([2]), RowTable(4, 1)
    board.put(np.array([2]), np.array([[20.0]]))
    plan = round_plans(rows_of([np.eye(4)], seats), seats, 4, 3)[0]

    with pytest.raises(ValueError, match="received is for the complete graph"):
        _ = Mixer(1, 4).gossip(plan, board).received


# Two rounds of two agents, 1 and 2 of 3; every row mixes itself and agent 0.
GOOD = Topology(
    1,
    2,
    np.array([0, 2, 4, 6, 8]),
    np.array([0, 1, 0, 2, 0, 1, 0, 2]),
    np.full(8, 0.5),
    np.empty((0, 3), dtype=np.intp),
)


def but(values: NDArray[np.float64], at: int, value: float) -> NDArray[np.float64]:
    changed = values.copy()
    changed[at] = value
    return changed


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (replace(GOOD, weights=but(GOOD.weights, 5, 0.5 + 1e-9)), "must sum to 1"),
        (replace(GOOD, weights=but(GOOD.weights, 0, 0.4)), "must sum to 1"),
        (replace(GOOD, columns=np.array([0, 2, 0, 2, 0, 1, 0, 2])), "a positive diagonal"),
        (replace(GOOD, columns=np.array([0, 1, 0, 2, 0, 2, 0, 2])), "a positive diagonal"),
        (replace(GOOD, columns=np.array([0, 1, 0, 2, 0, 1, 0, 3])), "agents of the game"),
        (replace(GOOD, starts=np.array([0, 2, 4, 6])), "one row per seat and round"),
        (replace(GOOD, rounds=3), "one row per seat and round"),
    ],
)
def test_rows_that_do_not_average_are_refused(bad: Topology, sentence: str) -> None:
    seats = np.array([1, 2])
    assert len(round_plans(GOOD, seats, 3, 3)) == 2

    with pytest.raises(Malformed, match=sentence):
        round_plans(bad, seats, 3, 3)


def test_rounding_of_a_row_s_sum_is_no_offence() -> None:
    nearly = replace(GOOD, weights=but(GOOD.weights, 5, 0.5 + 5e-13))

    assert len(round_plans(nearly, np.array([1, 2]), 3, 3)) == 2


@given(seed=st.integers(0, 9999), k=st.integers(1, 9), width=st.integers(1, 40), bit=st.integers(0, 63))
@settings(max_examples=60, deadline=None)
def test_a_print_changes_with_every_bit_of_its_row_and_with_no_other_row(
    seed: int, k: int, width: int, bit: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((k, width))
    other, i, j = rows.copy(), rng.integers(k), rng.integers(width)
    other.view(np.uint64)[i, j] ^= np.uint64(1) << np.uint64(bit)

    assert np.flatnonzero(row_hashes(rows) != row_hashes(other)).tolist() == [i]
    assert row_hashes(rows).tolist() == [int(row_hashes(rows[each : each + 1])[0]) for each in range(k)]


def test_a_board_that_is_settled_still_tells_a_repeated_row_from_another() -> None:
    board, rows = RowTable(4, 3), np.random.default_rng(0).standard_normal((4, 3))
    assert board.put(np.array([0, 2]), rows[[0, 2]]) is None
    board.settle()
    board.settle()

    assert board.rows.nbytes == 0
    assert board.put(np.array([2]), rows[[2]]) is None
    differs = board.put(np.array([1, 2]), np.stack((rows[1], np.nextafter(rows[2], 9.0))))
    assert differs is not None
    assert differs.tolist() == [False, True]
    assert board.put(np.array([1]), rows[[1]]) is None  # it was new a moment ago
    assert board.put(np.array([1]), rows[[0]]) is not None
    assert board.known.tolist() == [True, True, True, False]


@pytest.mark.parametrize("ruled", [0, 1, None], ids=["the first", "the second", "undecided"])
def test_a_disputed_row_that_is_not_mixed_yet_is_missing_until_the_ruling(ruled: int | None) -> None:
    board, rows, agent = RowTable(2, 3), np.random.default_rng(0).standard_normal((2, 1, 3)), np.array([1])
    board.put(agent, rows[0])
    assert board.put(agent, rows[1]) is not None

    board.dispute(agent, mixed=False)

    for each in rows:
        assert board.put(agent, each) is None  # whatever comes now
    assert board.known.tolist() == [False, False]
    assert not board.rule(agent, None if ruled is None else rows[ruled], mixed=False)
    assert board.known.tolist() == [False, True]
    assert board.rows[1].tobytes() == rows[ruled or 0].tobytes()


@pytest.mark.parametrize("settled", [False, True])
def test_a_ruling_against_a_row_that_was_mixed_is_told_and_the_row_stays(settled: bool) -> None:
    board, rows, agent = RowTable(2, 3), np.random.default_rng(0).standard_normal((2, 1, 3)), np.array([1])
    board.put(agent, rows[0])
    if settled:
        board.settle()
    board.dispute(agent, mixed=True)

    assert board.known[1]
    assert board.rule(agent, rows[1], mixed=True)
    assert not board.rule(agent, rows[0], mixed=True)
    assert not board.rule(agent, None, mixed=True)
    assert board.put(agent, rows[1]) is None  # it was ruled about
