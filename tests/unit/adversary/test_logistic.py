import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet.model import Array
from slaternet.numerics.sets import Box
from slaternet_adversary import CannotPlay, Game
from slaternet_adversary.builtin.logistic import Logistic

N, P, ROWS = 40, 13, 12
AGENTS = np.arange(N)
QUICK = settings(max_examples=25, deadline=None)
TABLE = "x1,label,x2,group\n" + "".join(f"{k},{k % 2},{-2 * k},{k % 3 % 2}\n" for k in range(1, 13))


def game(agents: int = N, dimension: int = P, seed: int = 1) -> Game:
    return Game(agents, dimension, seed, Box(dimension, -5, 5))


def points(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).uniform(-5, 5, shape)


FUNCTIONS = Logistic(game(), rows=ROWS, mu=0.1).play(3)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "samples.csv"
    path.write_text(TABLE)
    return path


def dealt(path: Path, text: str | None = None, agents: int = 2, **options: Any) -> Logistic:
    if text is not None:
        path.write_text(text)
    return Logistic(game(agents, 2), rows=3, data=str(path), **options)


@pytest.mark.parametrize("method", ["loss", "constraint", "loss_gradient", "constraint_gradient"])
@given(seed=st.integers(0, 999), s=st.integers(1, 3))
@QUICK
def test_an_agent_s_values_do_not_depend_on_who_is_asked_with_it(method: str, seed: int, s: int) -> None:
    asked, evaluate = points(seed, N, s, P), getattr(FUNCTIONS, method)
    whole = evaluate(AGENTS, asked)

    for k in (1, 2, 33):
        rows = np.sort(np.random.default_rng(seed).permutation(N)[:k])
        assert evaluate(rows, asked[rows]).tobytes() == whole[rows].tobytes()


@given(seed=st.integers(0, 999))
@QUICK
def test_values_are_those_of_the_formulas(seed: int) -> None:
    agents, asked = np.array([0, 7, 39]), points(seed, 3, 2, P)
    loss, constraint = FUNCTIONS.loss(agents, asked), FUNCTIONS.constraint(agents, asked)

    for row, i in enumerate(agents):
        for s in range(2):
            x = asked[row, s]
            assert loss[row, s] == pytest.approx(np.logaddexp(0.0, FUNCTIONS.signed[i] @ x).mean() + 0.05 * x @ x)
            assert constraint[row, s, 0] + constraint[row, s, 1] == pytest.approx(-2 * 2.0)  # of the slack
            assert constraint[row, s, 2] == pytest.approx((x @ x - 16.0) / 8.0)


@given(seed=st.integers(0, 999))
@QUICK
def test_gradients_are_the_slopes_of_the_values(seed: int) -> None:
    agents, x, step = np.array([3, 32]), points(seed, 2, 1, P), 1e-5
    moved = np.concatenate((x + step * np.eye(P), x - step * np.eye(P)), axis=1)
    loss, constraint = FUNCTIONS.loss(agents, moved), FUNCTIONS.constraint(agents, moved)

    assert FUNCTIONS.loss_gradient(agents, x)[:, 0] == pytest.approx(
        (loss[:, :P] - loss[:, P:]) / (2 * step), rel=1e-6, abs=1e-7
    )
    assert FUNCTIONS.constraint_gradient(agents, x)[:, 0].transpose(0, 2, 1) == pytest.approx(
        (constraint[:, :P] - constraint[:, P:]) / (2 * step), rel=1e-6, abs=1e-7
    )


@given(seed=st.integers(0, 999))
@QUICK
def test_no_value_lies_above_a_chord(seed: int) -> None:
    ends = points(seed, N, 2, P)
    middle = ends.mean(axis=1, keepdims=True)
    distance = ((ends[:, 0] - ends[:, 1]) ** 2).sum(-1)

    loss, constraint = FUNCTIONS.loss(AGENTS, ends).mean(1), FUNCTIONS.constraint(AGENTS, ends).mean(1)

    assert (FUNCTIONS.loss(AGENTS, middle)[:, 0] <= loss - 0.1 / 8 * distance + 1e-12).all()  # mu = 0.1
    assert (FUNCTIONS.constraint(AGENTS, middle)[:, 0] <= constraint + 1e-12).all()


@pytest.mark.parametrize("agents", [AGENTS, np.array([5]), np.arange(10, 40, 3)])
@given(seed=st.integers(0, 999))
@QUICK
def test_scores_are_those_of_every_agent_at_every_point(agents: np.ndarray, seed: int) -> None:
    x = points(seed, 9, P)
    everywhere = np.tile(x, (len(agents), 1, 1))
    losses, constraints = FUNCTIONS.loss(agents, everywhere), FUNCTIONS.constraint(agents, everywhere)
    stacked = np.maximum(constraints, 0.0).transpose(1, 0, 2).reshape(9, -1)

    assert FUNCTIONS.network_loss(agents, x) == pytest.approx(losses.mean(axis=0), rel=1e-12)
    assert FUNCTIONS.network_violation(agents, x) == pytest.approx(np.linalg.norm(stacked, axis=1), rel=1e-12)


@given(t=st.integers(1, 2000))
@QUICK
def test_zero_satisfies_every_constraint_with_the_promised_margin(t: int) -> None:
    g = Logistic(game(5), slack=0.5, budget=3.0).play(t).constraint(np.arange(5), np.zeros((5, 1, P)))

    assert g.max() == -0.5


def test_the_separator_classifies_and_drifts_to_and_fro() -> None:
    adversary = Logistic(game(dimension=4), noise=0.0, drift=1.0, period=8)

    def wrong(t: int, *separator: float) -> int:
        return int((adversary.play(t).signed @ separator > 0.0).sum())

    assert wrong(2, 2.0, 1.0, 0.0, 1.0) == 0  # the first coordinate's wave is a quarter of a turn ahead
    assert wrong(6, 0.0, 1.0, 2.0, 1.0) == 0
    assert wrong(2, 0.0, 1.0, 2.0, 1.0) > 0


def test_functions_depend_on_seed_agent_and_round_alone() -> None:
    played = Logistic(game())
    in_order = {t: played.play(t).signed for t in range(1, 60)}

    for t in (59, 1, 30):
        assert Logistic(game()).play(t).signed.tobytes() == in_order[t].tobytes()
        assert Logistic(game(5)).play(t).signed.tobytes() == in_order[t][:5].tobytes()
    assert Logistic(game(seed=2)).play(1).signed.tobytes() != in_order[1].tobytes()


def test_a_table_is_dealt_in_order_and_scaled(table: Path) -> None:
    adversary = dealt(table)

    first, second, third = (adversary.play(t).signed.reshape(-1, 2) for t in (1, 2, 3))

    assert first.tolist() == [[s * k / 12, -s * k / 12] for k, s in zip(range(1, 7), (-1, 1) * 3, strict=True)]
    assert second.tolist() == [[s * k / 12, -s * k / 12] for k, s in zip(range(7, 13), (-1, 1) * 3, strict=True)]
    assert third.tolist() == first.tolist()  # from the first again
    assert (adversary.constraints, adversary.rounds) == (3, None)
    assert dealt(table, scale=False).play(1).signed[0, 0].tolist() == [-1.0, 2.0]


def test_groups_of_a_table_are_scored_alike(table: Path) -> None:
    g = dealt(table, scale=False, slack=0.5).play(1)

    # the first agent sees x1 = 1, 2, 3 of groups 1, 0, 0; the second 4, 5, 6 of groups 1, 0, 0
    assert g.constraint(np.arange(2), np.array([[[1.0, 0.0]]] * 2))[:, 0, :2].tolist() == [[-2.0, 1.0]] * 2


def test_without_groups_the_budget_is_the_only_constraint(table: Path) -> None:
    adversary = dealt(table, "x1,x2,label\n1,2,1\n3,4,-1\n", budget=2.0)
    played, at = adversary.play(1), np.array([[[3.0, 0.0]]] * 2)

    assert adversary.constraints == 1
    assert played.constraint(np.arange(2), at).tolist() == [[[1.25]], [[1.25]]]
    assert played.constraint_gradient(np.arange(2), at).tolist() == [[[[1.5, 0.0]]]] * 2
    assert played.network_violation(np.arange(2), at[0]) == pytest.approx([1.25 * np.sqrt(2)])


def test_a_table_that_ends_says_how_many_rounds_it_has(table: Path) -> None:
    adversary = dealt(table, repeat=False)
    adversary.play(2)
    assert adversary.rounds == 2

    with pytest.raises(CannotPlay, match=r"12 samples, which end before round 3 does; set run.rounds to at most 2 or"):
        adversary.play(3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", " is empty; its first line names the columns"),
        ("x1,x2,label\n", " has no samples; write one on each line below the headings"),
        ("x1,x2\n1,2\n", "has no column label"),
        ("x1,x1,label\n1,2,1\n", "must name every column once in its first line, not 'x1'"),
        ("x1,label\n1,1\n", "has 1 columns besides label and group, one for each coordinate; set run.dimension = 1"),
        ("x1,x2,label\n1,2,1\n\n1,two,1\n", ", line 4, column x2: must be a number, not 'two'; correct it there"),
        ("x1,x2,label\n1,2,1\n1,nan,1\n", ", line 3, column x2: must be a finite number, not nan"),
        ("x1,x2,label\n1,2,3\n", ", line 2, column label: must be 1 or 0 or -1, not 3"),
        ("x1,x2,label,group\n1,2,1,0\n1,2,1,2\n", ", line 3, column group: must be 1 or 0, not 2"),
        ("x1,x2,label\n1,2\n", ", line 2: 2 cells where 3 columns are named"),
    ],
)
def test_a_wrong_table_is_named_with_line_and_column(table: Path, text: str, sentence: str) -> None:
    with pytest.raises(CannotPlay) as error:
        dealt(table, text)

    assert f"adversary.options.data = {table}" in str(error.value)
    assert sentence in str(error.value)


def test_what_is_no_table_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "picture.csv").write_bytes(bytes(range(128, 256)))

    with pytest.raises(CannotPlay, match="is not text with commas"):
        dealt(tmp_path / "picture.csv")
    with pytest.raises(CannotPlay, match="No such file or directory; correct the path"):
        dealt(tmp_path / "nothing.csv")


def test_parquet_without_pyarrow_names_the_remedy(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    table = table.rename(table.with_suffix(".parquet"))

    with pytest.raises(CannotPlay, match=r"pip install pyarrow\) or save the table as \.csv"):
        dealt(table)


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_a_parquet_table_plays_like_the_same_csv(table: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet, csv = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.csv")
    parquet.write_table(csv.read_csv(table), table.with_suffix(".parquet"))

    same = dealt(table.with_suffix(".parquet")).play(1).signed

    assert same.tobytes() == dealt(table).play(1).signed.tobytes()
    parquet.write_table(pyarrow.table({"x1": [1.0, None], "x2": [1, 2], "label": [True, False]}), table)
    table = table.rename(table.with_suffix(".parquet"))
    with pytest.raises(CannotPlay, match="line 2, column x1: must be a finite number, not nan"):
        dealt(table)
    table.write_bytes(b"PAR1 and no more")
    with pytest.raises(CannotPlay, match="is not a Parquet table of numbers"):
        dealt(table)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rows": 0}, "adversary.options.rows must be above 0, not 0"),
        ({"mu": -1}, "adversary.options.mu must be at least 0, not -1"),
        ({"slack": 0}, "adversary.options.slack must be above 0, not 0"),
        ({"gap": "wide"}, "adversary.options.gap must be a finite number, not 'wide'"),
        ({"data": 7}, "adversary.options.data must be text in quotes, not 7"),
        ({"data": "x.csv", "repeat": 1}, "adversary.options.repeat must be true or false, not 1"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CannotPlay) as error:
        Logistic(game(), **options)

    assert str(error.value) == sentence
